"""LookupParameters: a table of trainable rows, such as word embeddings."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dynetjax.core.dims import Dim, Shape
from dynetjax.core.errors import error_text
from dynetjax.core.expression import Expression, Table
from dynetjax.core.lazy import jnp
from dynetjax.core.registry import Op, Signature, intern
from dynetjax.core.reprs import counted
from dynetjax.graph import ComputationGraph, current_graph
from dynetjax.io.text import FilePath
from dynetjax.model import loading, saving
from dynetjax.model.storage import TableStorage, to_host
from dynetjax.model.unique import Whole
from dynetjax.ops.arguments import Int
from dynetjax.ops.arrays import listed, to_array
from dynetjax.ops.sources import lookup_signature, parameter_signature, row_id, row_ids


def _rows_last(table):
    return jnp.moveaxis(table, 0, -1)


def _rows_last_dim(name, table):
    return (*table.shape[1:], table.shape[0])


WHOLE_TABLE = Op("lookup_table", _rows_last, _rows_last_dim, internal=True)


class LookupParameters(Whole, Table):
    """A table of N trainable rows; made by `add_lookup_parameters`.

    ``E[i]`` is row i as an expression, ``E.batch(ids)`` a batch of rows. Only rows
    that were looked up are touched by a trainer's ``update()``. Used itself as an
    expression, it is the whole table, rows last: ``(row dims..., N)``. Arrays come
    out as float64 copies with the rows first.

    Attributes:
        row_signatures: those of nodes that read rows, without gradient and with.
    Examples:
        >>> m = dy.ParameterCollection()
        >>> E = m.lookup_parameters_from_numpy(np.arange(6.0).reshape(3, 2))
        >>> print(E[1].value(), E.batch([0, 2]).dim(), E.dim())
        [2.0, 3.0] ((2,), 2) ((2, 3), 1)
        >>> dy.sum_elems(E[1]).backward()
        >>> dy.SimpleSGDTrainer(m, learning_rate=0.1).update()
        >>> print(E.as_array().round(3))
        [[0.  1. ]
         [1.9 2.9]
         [4.  5. ]]
    """

    __slots__ = ("row_signatures",)
    storage: TableStorage

    def __init__(self, storage: TableStorage):
        self.storage = storage
        of = storage.ident, storage.shape
        self.row_signatures: tuple[Signature, Signature] = (
            lookup_signature(*of, True),
            lookup_signature(*of, False),
        )
        self._set_signature(_whole(parameter_signature(*of, False)))
        self._set_rows(self.row_signatures[True], storage.shape[0])

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.storage,)

    def __str__(self) -> str:
        return f"LookupParameter {self.storage.name}"

    def __repr__(self) -> str:
        """DyNet's."""
        return str(self)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """IPython shows dims, too."""
        del cycle
        count, *row = self.storage.shape
        frozen = "" if self.storage.updated else ", not updated"
        printer.text(f"{self} {counted(count, 'row')} of {Dim(tuple(row))}{frozen}")

    def __len__(self) -> int:
        return self.storage.shape[0]

    def __iter__(self) -> Iterator[Expression]:
        return (self[i] for i in range(len(self)))

    def _item(self, i: Int) -> Expression:
        """A row by what is no usual number, or none of a row."""
        return lookup(self, i)

    def batch(self, ids: Iterable[Int]) -> Expression:
        """A batch of rows; see `lookup_batch`."""
        return lookup_batch(self, ids)

    def locate(self) -> tuple[ComputationGraph, Expression]:
        return current_graph(), self

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        """The values as an array of its own, ``(N, row dims...)``."""
        del copy
        return np.asarray(self.as_array(), dtype)

    def dim(self) -> tuple[Shape, int]:
        rows, *row = self.storage.shape
        return (*row, rows), 1

    def expr(self) -> "LookupParameters":
        """The whole table as an expression: itself."""
        return self

    def name(self) -> str:
        """Full name, ``/encoder/E``."""
        return self.storage.name

    def shape(self) -> Shape:
        """``(N, row dims...)``."""
        return self.storage.shape

    def as_array(self) -> np.ndarray:
        """The values, ``(N, row dims...)``, a float64 copy."""
        return to_host(self.storage.host_values())

    def grad_as_array(self) -> np.ndarray:
        """The accumulated gradient, ``(N, row dims...)``, a float64 copy."""
        return self.storage.host_gradient()

    def row_as_array(self, row: Int) -> np.ndarray:
        """The values of one row.

        Raises:
            IndexError: there is no such row.
        """
        return to_host(self.storage.host_rows(self._existing(row)))

    def row_grad_as_array(self, row: Int) -> np.ndarray:
        """The gradient of one row.

        Raises:
            IndexError: there is no such row.
        """
        return to_host(self.storage.host_gradient()[self._existing(row)])

    def rows_as_array(self, rows: Iterable[Int]) -> np.ndarray:
        """The values of several rows, stacked.

        Raises:
            IndexError: there is no such row.
            ValueError: `rows` is empty.
        """
        return to_host(self.storage.host_rows(self._all_existing(rows)))

    def rows_grad_as_array(self, rows: Iterable[Int]) -> np.ndarray:
        """The gradients of several rows, stacked; raises as `rows_as_array`."""
        return to_host(self.storage.host_gradient()[self._all_existing(rows)])

    def init_row(self, i: Int, row: Iterable[float]) -> None:
        """Set one row from its numbers, first index fastest.

        Raises:
            IndexError: there is no such row.
            OverflowError: `i` is negative.
            ValueError: `row` has another length.
        """
        index = self._existing(i)
        numbers = [float(x) for x in listed(row)]
        shape = self.storage.shape[1:]
        if len(numbers) != int(np.prod(shape)):
            raise ValueError(
                error_text(
                    f"init_row: the length is not that of a row of {self.name()}",
                    got=len(numbers),
                    expected=int(np.prod(shape)),
                    fix="pass one number per element of the row",
                )
            )
        values = np.array(numbers, np.float32).reshape(shape, order="F")
        self.storage.edit()[index] = values

    def init_from_array(self, arr: ArrayLike) -> None:
        """Set the first rows from an array with the rows first.

        Raises:
            ValueError: the rows of `arr` have another shape, or it has more.
        """
        arr = to_array(arr)
        if arr.shape[1:] != self.storage.shape[1:] or len(arr) > len(self):
            raise ValueError(
                error_text(
                    f"init_from_array: the array does not fit {self.name()}",
                    got=arr.shape,
                    expected=f"at most {self.storage.shape}, with rows as long",
                    fix="check the number of rows and their size",
                )
            )
        self.storage.edit()[: len(arr)] = arr

    def zero(self) -> None:
        """Set the values to 0. Gradients stay, unlike those of Parameters."""
        self.storage.values = np.zeros(self.storage.shape, np.float32)

    def scale(self, s: float) -> None:
        """Multiply the values by `s`."""
        self.storage.values = self.storage.present * np.float32(s)

    def scale_gradient(self, s: float) -> None:
        """Multiply the gradient by `s`."""
        self.storage.scale_gradient(s)

    def is_updated(self) -> bool:
        """Whether trainers change this table."""
        return self.storage.updated

    def set_updated(self, b: bool) -> None:
        """Let trainers change this table, or not; see `Parameters.set_updated`."""
        self.storage.updated = bool(b)

    def save(self, fname: FilePath, key: str = "", append: bool = False) -> None:
        """Write the values, and the gradient if there is one, to a text file.

        Args:
            fname: the file.
            key: the name in the file; if empty, the full name.
            append: keep what the file has, and add to it.
        Raises:
            AttributeError: `fname` is no str or path.
            OSError: the disk is full.
            RuntimeError: the file cannot be written, or an update was refused.
            ValueError: `key` is ``/``, or has a space or a ``#`` in it.
        Warns:
            RuntimeWarning: a value is not finite, so that the file cannot be loaded.
        """
        saving.check_key(key, of_collection=False)
        saving.save(fname, [self.storage], [key or self.name()], bool(append))

    def write_to_textfile(
        self, fname: FilePath, key: str = "", append: bool = False
    ) -> None:
        """The same as `save`."""
        self.save(fname, key, append)

    def populate(self, fname: FilePath, key: str = "") -> None:
        """Set values and gradient to those that a text file has under `key`.

        Raises:
            AttributeError: `fname` is no str or path.
            RuntimeError: the file cannot be read, is damaged, has no table of
                that name or one with other dims; or an update was refused. Nothing
                was changed.
            ValueError: `key` is empty.
        """
        loading.fill_one(fname, key, self.storage)

    def populate_from_textfile(self, fname: FilePath, key: str = "") -> None:
        """The same as `populate`."""
        self.populate(fname, key)

    def _existing(self, row: Any) -> int:
        try:
            return row_id("row", row, len(self))
        except ValueError as error:
            raise IndexError(str(error)) from None

    def _all_existing(self, rows: Iterable[Int]) -> list[int]:
        ids = [self._existing(row) for row in rows]
        if not ids:
            raise ValueError(
                error_text(
                    "rows_as_array: the list of rows is empty",
                    got=ids,
                    expected="at least one row",
                    fix="check for an empty list before",
                )
            )
        return ids


def lookup(p: LookupParameters, index: Int = 0, update: bool = True) -> Expression:
    """Row `index` of a table.

    With `update` False no gradient reaches the row.

    Raises:
        OverflowError: `index` is negative.
        TypeError: it is not an int, or `p` not a table.
        ValueError: it is past the last row.
    Examples:
        >>> m = dy.ParameterCollection()
        >>> E = m.lookup_parameters_from_numpy(np.array([[1, 2], [3, 4]]))
        >>> fixed = dy.lookup(E, 1, update=False)
        >>> dy.dot_product(dy.lookup(E, 0), fixed).backward()
        >>> print(E.grad_as_array())
        [[3. 4.]
         [0. 0.]]
    """
    storage = _storage("lookup", p)
    shape = storage.shape
    if type(index) is not int or not 0 <= index < shape[0]:
        index = row_id("lookup", index, shape[0])
    return _read(p, index, bool(update))


def lookup_batch(
    p: LookupParameters, indices: Iterable[Int], update: bool = True
) -> Expression:
    """A batch of rows of a table, one batch element per index.

    With `update` False no gradient reaches the rows.

    Raises:
        OverflowError: an index is negative.
        TypeError: an index is not an int, or `p` not a table.
        ValueError: an index is past the last row, or there is none.
    Examples:
        >>> m = dy.ParameterCollection()
        >>> E = m.lookup_parameters_from_numpy(np.array([[1, 2], [3, 4], [5, 6]]))
        >>> words = dy.lookup_batch(E, [2, 0, 2])
        >>> print(words.dim(), dy.sum_elems(words).value())
        ((2,), 3) [11.0, 3.0, 11.0]
    """
    storage = _storage("lookup_batch", p)
    ids = row_ids("lookup_batch", indices, storage.shape[0])
    return _read(p, ids, bool(update))


def _read(table: LookupParameters, rows: int | list[int], update: bool) -> Expression:
    graph, lanes = current_graph(), len(rows) if isinstance(rows, list) else 1
    graph.keep(table)
    return graph.append(table.row_signatures[update], (), lanes, rows)


def _whole(table: Signature) -> Signature:
    """What stands for a whole table as an operand."""
    rows, *row = table.kind.shape
    shape = (*row, rows)
    return intern(WHOLE_TABLE, ((), 0, table.kind.id), shape)


def _storage(name: str, table: Any) -> TableStorage:
    if not isinstance(table, LookupParameters):
        raise TypeError(
            error_text(
                f"{name}: the table is no LookupParameters",
                got=f"{table!r} ({type(table).__name__})",
                expected="LookupParameters",
                fix="use pick for the rows of an Expression",
            )
        )
    return table.storage
