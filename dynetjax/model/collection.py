"""ParameterCollection: the parameters of a model, under names like file paths."""

import contextlib
import math
from collections.abc import Iterator
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from dynetjax.core.devices import are_several, check_device, over_all_devices
from dynetjax.core.dims import Shape, is_index, to_shape
from dynetjax.core.errors import error_text
from dynetjax.core.registry import DEVICES
from dynetjax.io.text import FilePath
from dynetjax.model import loading, random, saving
from dynetjax.model.initializers import PyInitializer, initializer
from dynetjax.model.lookup import LookupParameters
from dynetjax.model.parameters import Parameters
from dynetjax.model.room import Room
from dynetjax.model.storage import DenseStorage, TableStorage
from dynetjax.model.summary import Member, Summary
from dynetjax.model.unique import Whole
from dynetjax.ops.arrays import is_dimensional, to_array

S = TypeVar("S", DenseStorage, TableStorage)


class ParameterCollection(Whole):
    """Holds parameters and lookup tables, its own and those of sub-collections.

    Args:
        parent: kept alive, and else ignored: the new collection is a root of its
            own. Use `add_subcollection` for a part of another one.
    Examples:
        >>> m = dy.ParameterCollection()
        >>> W = m.add_parameters((3, 4), name="W")
        >>> E = m.add_subcollection("encoder").add_lookup_parameters((50, 4), name="E")
        >>> print(W.name(), E.name(), m.parameter_count())
        /W /encoder/E 212
        >>> m.save("model")
        >>> W.zero()
        >>> m.populate("model")
        >>> print(W.as_array().any())
        True
    """

    def __init__(self, parent: "ParameterCollection | None" = None):
        if parent is not None and not isinstance(parent, ParameterCollection):
            raise TypeError(
                error_text(
                    "ParameterCollection: parent is no collection",
                    got=f"{parent!r} ({type(parent).__name__})",
                    expected="a ParameterCollection or None",
                    fix="leave it out",
                )
            )
        self._kept_alive = parent
        self._ancestors: tuple[ParameterCollection, ...] = ()
        self._name = "/"
        self._weight_decay = _decay
        self._taken: dict[str, int] = {}
        self._taken_by_collections: dict[str, int] = {}
        self._parameters: list[Parameters] = []
        self._tables: list[LookupParameters] = []
        self._room: Room | None = None

    def name(self) -> str:
        """Full name: ``/`` for a root, else ``/encoder/lstm/``."""
        return self._name

    def add_subcollection(self, name: str | None = None) -> "ParameterCollection":
        """A new collection whose parameters are this one's too.

        Raises:
            RuntimeError: the name has a ``/`` or a ``_`` in it.
        """
        child = ParameterCollection()
        own = _unique(name or "", self._taken_by_collections)
        child._name = f"{self._name}{own}/"
        child._ancestors = (*self._ancestors, self)
        child._weight_decay = self._weight_decay
        return child

    def add_parameters(
        self,
        dim: int | tuple[int, ...] | list[int],
        init: float | str | PyInitializer | ArrayLike | None = None,
        name: str = "",
        device: str = "",
        scale: float = 1.0,
        mean: float = 0.0,
        std: float = 1.0,
    ) -> Parameters:
        """A new trainable tensor.

        Args:
            dim: an int, or a tuple or list of up to 7.
            init: None or ``'glorot'``; a number; ``'uniform'`` in (-`scale`,
                `scale`); ``'normal'`` with `mean` and `std`; ``'he'``;
                ``'identity'``; a PyInitializer; or an array, whose shape then
                counts instead of `dim`.
            name: without ``/`` and ``_``; a number is added to make it unique.
            device: ``""``, or the name of a device; see `to_device`.
        Raises:
            AssertionError: `dim` is none of the above.
            RuntimeError: the name or the device will not do.
            ValueError: `dim` or `init` is out of range.
        """
        _require_dim("add_parameters", dim)
        if device:
            check_device("add_parameters", device)
        own = _unique(name, self._taken)
        if isinstance(init, np.ndarray) or is_dimensional(init):
            given = to_array(init)
            self._take_room(own, given.shape, 0)
            values = np.array(given, np.float32)
            return self._add_parameters(self._name + own, values, device)
        shape = to_shape("add_parameters", dim)
        self._take_room(own, shape, math.prod(shape))
        chosen = initializer(init, shape, scale=scale, mean=mean, std=std)
        return self._add_parameters(self._name + own, chosen.fill(shape), device)

    def add_lookup_parameters(
        self,
        dim: int | tuple[int, ...] | list[int],
        init: float | str | PyInitializer | ArrayLike | None = None,
        name: str = "",
        device: str = "",
        scale: float = 1.0,
        mean: float = 0.0,
        std: float = 1.0,
        sharded: bool = False,
    ) -> LookupParameters:
        """A new table of trainable rows.

        Args:
            dim: ``(N, row dims...)``; an int n stands for ``(n, 1)``. An array as
                `init` has the rows first, too.
            sharded: where there are several GPUs or TPUs, each has as many of the rows,
                for a table that is too large for one. N is a multiple of their number.
            others: as for `add_parameters`. The default initialiser counts the rows
                as a dim, so the numbers in a long table are small, as in DyNet.
        Raises:
            ValueError: the rows of a sharded table do not come out even, or it is to
                lie on one `device`.
        """
        _require_dim("add_lookup_parameters", dim)
        if device:
            check_device("add_lookup_parameters", device)
        if sharded and device:
            raise ValueError(
                error_text(
                    "add_lookup_parameters: a sharded table lies on all devices",
                    got=f"device={device!r}",
                    expected="one of the two",
                    fix="leave out device=, or sharded=",
                )
            )
        own = _unique(name, self._taken)
        if isinstance(init, np.ndarray) or is_dimensional(init):
            given = to_array(init)
            self._take_room(own, given.shape, 0)
            values = np.array(given, np.float32)
            return self._add_table(self._name + own, values, device, sharded)
        shape = to_shape("add_lookup_parameters", dim)
        if not isinstance(dim, (tuple, list)):
            shape = (*shape, 1)
        if not shape:
            raise _no_rows(dim)
        self._take_room(own, shape, math.prod(shape))
        rows, *row = shape
        chosen = initializer(init, tuple(row), scale=scale, mean=mean, std=std)
        _require_for_tables(chosen)
        values = np.moveaxis(chosen.fill((*row, rows)), -1, 0)
        return self._add_table(self._name + own, values, device, sharded)

    def parameters_from_numpy(
        self, array: ArrayLike, name: str = "", device: str = ""
    ) -> Parameters:
        """A new trainable tensor with the shape and the values of `array`."""
        values = to_array(array)
        return self.add_parameters(values.shape, values, name, device)

    def lookup_parameters_from_numpy(
        self, array: ArrayLike, name: str = "", device: str = ""
    ) -> LookupParameters:
        """A new table with the values of `array`, rows first."""
        values = to_array(array)
        return self.add_lookup_parameters(values.shape, values, name, device)

    def parameters_list(self) -> list[Parameters]:
        """Every parameter, sub-collections included, in order of creation."""
        return list(self._parameters)

    def lookup_parameters_list(self) -> list[LookupParameters]:
        """Every table, sub-collections included, in order of creation."""
        return list(self._tables)

    def _summary(self) -> Summary:
        members = [Member(s.name, s.shape, s.is_table) for s in storages(self)]
        return Summary(self._name, members)

    def __repr__(self) -> str:
        return str(self._summary())

    def _repr_html_(self) -> str:
        """For notebooks: a table."""
        return self._summary().html()

    def __len__(self) -> int:
        """How many parameters and tables there are, sub-collections included."""
        return len(self._parameters) + len(self._tables)

    def __iter__(self) -> Iterator[Parameters | LookupParameters]:
        """The parameters, then the tables, each in order of creation."""
        return iter([*self._parameters, *self._tables])

    def __bool__(self) -> bool:
        """True, also of an empty collection."""
        return True

    def parameter_count(self) -> int:
        """How many numbers all parameters and tables have together."""
        return sum(math.prod(owner.shape) for owner in storages(self))

    def get_weight_decay(self) -> float:
        """How much of every weight an update takes away; see `set_weight_decay`."""
        return self._weight_decay

    def set_weight_decay(self, lam: float) -> None:
        """Have every update of a trainer of this collection shrink its weights.

        After its own change, the update multiplies all that is updated by ``1 - lam``:
        parameters and all rows of tables, whether or not they have a gradient. It does
        not depend on the learning rate. Sub-collections made from now on begin with
        the same number; those that there are keep theirs.

        Raises:
            TypeError: `lam` is no number.
            ValueError: it is not in [0, 1).
        """
        self._weight_decay = _checked_decay(lam)

    def set_weight_decay_lambda(self, lam: float) -> None:
        """Do what `set_weight_decay` does, where `lam` must be a Python float.

        Raises:
            AssertionError: it is not.
            ValueError: it is not in [0, 1).
        """
        if not isinstance(lam, float):
            raise AssertionError(
                error_text(
                    "set_weight_decay_lambda: lam is no float",
                    got=f"{lam!r} ({type(lam).__name__})",
                    expected="a Python float",
                    fix="float(lam)",
                )
            )
        self.set_weight_decay(lam)

    def save(self, fname: FilePath, name: str = "", append: bool = False) -> None:
        """Write all values, and gradients that there are, to a text file.

        The file is DyNet's. It holds parameters in order of creation, then tables. A
        file of that name is replaced at once, when the new one is complete.

        Args:
            fname: the file.
            name: what to write in place of this collection's full name, ``/model``
                say; if empty, parameters are saved under their full names.
            append: keep what the file has, and add to it.
        Raises:
            AttributeError: `fname` is no str or path.
            IndexError: with a `name`: a parameter that was loaded has a name that is
                shorter than this collection's.
            OSError: the disk is full.
            RuntimeError: the file cannot be written, or an update was refused.
            ValueError: `name` does not start with ``/``, is ``/``, or has a space or a
                ``#`` in it.
        Warns:
            RuntimeWarning: a value is not finite, so that the file cannot be loaded.
        """
        saving.check_key(name, of_collection=True)
        owners = storages(self)
        names = [owner.name for owner in owners]
        keys = saving.collection_keys(names, self._name, name)
        saving.save(fname, owners, keys, bool(append))

    def write_to_textfile(
        self, fname: FilePath, key: str = "", append: bool = False
    ) -> None:
        """The same as `save`, with `key` for `name`."""
        self.save(fname, key, append)

    def populate(self, fname: FilePath, key: str = "") -> None:
        """Set all values and gradients to those of a text file, by their order.

        The first parameter of the file goes to the first of `parameters_list`, and so
        on; tables likewise. Dims must be the same; names need not.

        Args:
            fname: a file that this library or DyNet 2 has saved.
            key: only what is saved under names that begin with ``key/`` counts.
        Raises:
            AttributeError: `fname` is no str or path.
            RuntimeError: the file cannot be read or is damaged, numbers or dims of
                parameters differ, or an update was refused. Nothing was changed.
        """
        loading.populate(fname, key, storages(self))

    def populate_from_textfile(self, fname: FilePath, key: str = "") -> None:
        """The same as `populate`."""
        self.populate(fname, key)

    def load_param(self, fname: FilePath, key: str) -> Parameters:
        """A new parameter from the block of a text file that has this key.

        Its full name is the key, even if that is taken. As in DyNet it takes a number
        for unnamed parameters, and as many random draws as it has elements.

        Raises:
            AttributeError: `fname` is no str or path.
            RuntimeError: the file cannot be read, is damaged or has no parameter of
                that name; or an update was refused. Nothing was added.
            ValueError: `key` is empty.
        """
        return adopt(self, loading.load(fname, key, is_table=False))

    def load_lookup_param(self, fname: FilePath, key: str) -> LookupParameters:
        """A new table; see `load_param`."""
        return adopt(self, loading.load(fname, key, is_table=True))

    def _take_room(self, own: str, shape: Shape, numbers: int) -> None:
        """Refuse what is too much for a saved object, if one is being made here."""
        for collection in (self, *reversed(self._ancestors)):
            if collection._room is not None:
                collection._room.take(self._name + own, shape, numbers)
                return

    def _add_parameters(
        self, name: str, values: np.ndarray, device: str = ""
    ) -> Parameters:
        shape = to_shape("add_parameters", values.shape)
        made = Parameters(_on_device(DenseStorage(name, values.reshape(shape)), device))
        for collection in (*self._ancestors, self):
            collection._parameters.append(made)
        return made

    def _add_table(
        self,
        name: str,
        values: np.ndarray,
        device: str = "",
        sharded: bool = False,
    ) -> LookupParameters:
        shape = to_shape("add_lookup_parameters", values.shape)
        if not shape:
            raise _no_rows(shape)
        place = _place_of_rows(shape) if sharded and are_several() else None
        made = LookupParameters(_on_device(TableStorage(name, values), device))
        made.storage.place = place
        for collection in (*self._ancestors, self):
            collection._tables.append(made)
        return made


def _on_device(storage: S, device: str) -> S:
    """What has numbers, to lie on the device of this name if there is one."""
    if device and are_several():
        DEVICES[storage.ident] = device
    return storage


def _place_of_rows(shape: Shape) -> Any:
    """Where the rows of a sharded table lie.

    Raises:
        ValueError: they do not come out even.
    """
    place = over_all_devices()
    count = place.num_devices if place is not None else 1
    if shape[0] % count:
        more = -shape[0] % count
        raise ValueError(
            error_text(
                "add_lookup_parameters: each device has a part of a sharded table",
                got=f"{shape[0]} rows for {count} devices",
                expected=f"a multiple of {count}",
                fix=f"add {more} more, which nothing looks up",
            )
        )
    return place


Model = ParameterCollection
_decay = 0.0  # of new collections


def decay_by_default(lam: float) -> None:
    """Let new collections have this weight decay; see `set_weight_decay`."""
    global _decay
    _decay = _checked_decay(lam)


def storages(collection: ParameterCollection) -> list[saving.Owner]:
    """What has the numbers of a collection: of parameters, then of tables."""
    return [
        *(p.storage for p in collection.parameters_list()),
        *(t.storage for t in collection.lookup_parameters_list() if t.storage.shown),
    ]


def adopt(collection: ParameterCollection, block: loading.Loaded) -> Any:
    """What `load_param` or `load_lookup_param` makes of a block."""
    # DyNet takes a number for something unnamed, and random first values.
    _unique("", collection._taken)
    random.uniform(block.values.size, -1, 1)
    add = collection._add_table if block.is_table else collection._add_parameters
    made = add(block.key, block.values)
    loading.restore_gradient(made.storage, block)
    return made


@contextlib.contextmanager
def all_or_nothing(collection: ParameterCollection) -> Iterator[None]:
    """What is added to `collection` in this context is gone if it raises."""
    family = (*collection._ancestors, collection)
    before = [(len(c._parameters), len(c._tables)) for c in family]
    taken = collection._taken.copy(), collection._taken_by_collections.copy()
    try:
        yield
    except BaseException:
        for member, (parameters, tables) in zip(family, before, strict=True):
            del member._parameters[parameters:], member._tables[tables:]
        collection._taken, collection._taken_by_collections = taken
        raise


@contextlib.contextmanager
def limited(collection: ParameterCollection, room: Room | None) -> Iterator[None]:
    """What is added to `collection` in this context must fit into `room`."""
    before, collection._room = collection._room, room
    try:
        yield
    finally:
        collection._room = before


def _unique(name: str, taken: dict[str, int]) -> str:
    """`name` with the number that makes it unique."""
    if "/" in name or "_" in name:
        raise RuntimeError(
            error_text(
                "name: it has a / or a _ in it",
                got=name,
                expected="a name without them",
                fix=f"{name.replace('/', '-').replace('_', '-')!r}, say",
            )
        )
    number = taken.get(name, 0)
    taken[name] = number + 1
    return f"{name}_{number}" if number or not name else name


def _checked_decay(lam: Any) -> float:
    if isinstance(lam, str):
        raise TypeError(f"set_weight_decay: expected a number, got {lam!r}")
    decay = float(np.float32(lam))
    if not 0 <= decay < 1:
        raise ValueError(
            error_text(
                "set_weight_decay: lam is out of range",
                got=lam,
                expected="0 <= lam < 1",
                fix="pass 0 for no decay",
            )
        )
    return decay


def _require_dim(name: str, dim: Any) -> None:
    if not isinstance(dim, (int, tuple, list)) and not is_index(dim):
        raise AssertionError(
            error_text(
                f"{name}: dim is no int, tuple or list",
                got=f"{dim!r} ({type(dim).__name__})",
                expected="an int, or a tuple or list of ints",
                fix="int(dim)",
            )
        )


def _require_for_tables(chosen: PyInitializer) -> None:
    if not chosen.for_tables:
        raise ValueError(
            error_text(
                "add_lookup_parameters: init is not for tables",
                got=type(chosen).__name__,
                expected="another initialiser, or the array itself",
                fix="init=array, rows first",
            )
        )


def _no_rows(dim: Any) -> ValueError:
    return ValueError(
        error_text(
            "add_lookup_parameters: there is no number of rows",
            got=dim,
            expected="(N, row dims...)",
            fix="put the number of rows first",
        )
    )
