"""Expression: a node of a graph, and what users do with it."""

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from dynetjax.core.dims import Dim, Shape
from dynetjax.core.errors import error_text
from dynetjax.core.registry import Kind, Signature
from dynetjax.native import core


class Engine(Protocol):
    """What computes a graph."""

    def values(self, graph: Any, nodes: "list[Expression]") -> list[np.ndarray]:
        """Rows ``[batch, *shape]`` of each node."""

    def new_state(self, graph: Any) -> Any:
        """Notes on a graph that has none."""

    def executor(self, graph: Any, node: "Expression") -> Any:
        """What has computed a node on the host, and its number there.

        None if that is elsewhere.
        """

    def backward(self, graph: Any, node: "Expression", full: bool) -> None:
        """Add the gradients of a node of one number to the parameters."""

    def gradient(self, graph: Any, node: "Expression") -> np.ndarray:
        """Rows of the node's gradient in the last backward."""


_engine: Engine | None = None


def use_engine(engine: Engine) -> None:
    """Let `engine` compute every graph of the process."""
    global _engine
    _engine = engine


def engine() -> Engine:
    """The engine in use."""
    assert _engine is not None, "the facade hands in the engine on import"
    return _engine


_are_objects_in_arrays = False


def be_objects_in_arrays(on: bool = True) -> None:
    """Let NumPy's arrays have expressions themselves in them, as in DyNet.

    Programs for DyNet choose among expressions by ``np.random.choice(xs)``, and add
    losses up by ``np.sum(losses)``.
    """
    global _are_objects_in_arrays
    _are_objects_in_arrays = on


def to_numpy(rows: np.ndarray) -> np.ndarray:
    """``[batch, *shape]`` in float32 as DyNet shows it: float64, the batch last."""
    array = rows[0] if len(rows) == 1 else np.moveaxis(rows, 0, -1)
    return array.astype(np.float64, "F")


class _Methods:
    """A node of a graph.

    What follows is for the engine; users call the methods. A node's attributes are in
    the arrays of its graph: an expression is where to find them. Expressions of one
    node are equal.

    Attributes:
        graph: that it belongs to; None for a parameter, which belongs to all.
        is_live: its graph was not renewed, and it was not cut from that.
        index: its number among the user's nodes.
        is_part: it is a part of another node, and the user did not make it.
        signature: what it computes, by which kinds of operands.
        lanes: batch size; 0 for a weight, which has no rows.
        operands: expressions that it was made of.
        parts: expressions that it reads, if not these.
        data: runtime data of its own.
        lengths: true sizes of the axes that are ragged.
    Examples:
        >>> W = dy.inputTensor([[1, 2], [3, 4]])
        >>> x = dy.inputVector([1, 1])
        >>> loss = dy.squared_norm(W * x)
        >>> print(loss.dim(), loss.value())
        ((1,), 1) 58.0
        >>> loss.backward(full=True)
        >>> print(x.gradient())
        [48. 68.]
    """

    graph: Any
    is_live: bool
    index: int
    is_part: bool
    signature: Signature
    lanes: int
    operands: "tuple[Expression, ...]"
    parts: "tuple[Expression, ...]"
    data: Any
    lengths: tuple[int, ...]
    _number_at_hand: Any
    tensor_value: ClassVar[Any]  # attached by dynetjax.inspect.tensor
    __array_ufunc__: ClassVar[None]

    @property
    def kind(self) -> Kind:
        """What consumers know of it."""
        return self.signature.kind

    @property
    def full_dim(self) -> Dim:
        """Sizes and batch size, unchecked."""
        lanes, kind = self.lanes, self.signature.kind
        if kind.ragged:
            shape = list(kind.shape)
            for axis, length in zip(kind.ragged, self.lengths, strict=True):
                shape[axis] = length
            return Dim(tuple(shape), max(1, lanes))
        return Dim(kind.shape, lanes) if lanes > 1 else kind.dim

    @property
    def true_shape(self) -> Shape:
        """The shape of `full_dim`, without making one."""
        kind = self.signature.kind
        return self.full_dim.shape if kind.ragged else kind.shape

    def without_padding(self, rows: np.ndarray) -> np.ndarray:
        """Rows ``[batch, *shape]`` as far as they are real."""
        if not self.signature.kind.ragged:
            return rows
        return rows[:, *[slice(n) for n in self.full_dim.shape]]

    def locate(self: Any) -> "tuple[Any, Expression]":
        """The graph and the node, where this is about to be read.

        Raises:
            RuntimeError: the expression belongs to a graph that was renewed.
        """
        if not self.is_live:
            raise RuntimeError(stale("read"))
        return self.graph, self

    def __str__(self) -> str:
        """``expression 3/1``: its number, and the version of its graph."""
        if not self.is_live:
            return "expression (stale)"
        if self.graph is None:
            return "expression (of no graph)"
        return f"expression {self.graph.user_number(self)}/{self.graph.version}"

    def __repr__(self) -> str:
        """``expression 3/1: tanh {5}``, where the node is there still."""
        if not self.is_live or self.graph is None:
            return str(self)
        return f"{self}: {self.signature.op.name} {self.full_dim}"

    @property
    def shape(self) -> Any:
        """``(d0, d1, ...)`` of `dim`, without the batch; of parameters a method."""
        return self.dim()[0]

    def dim(self) -> tuple[Shape, int]:
        """``((d0, d1, ...), batch size)``."""
        dim = self.locate()[1].full_dim
        return dim.shape, dim.batch

    def _rows(self, recalculate: object) -> np.ndarray:
        graph, node = self.locate()
        if recalculate:
            graph.invalidate()
        return node.without_padding(engine().values(graph, [node])[0])

    def npvalue(self, recalculate: object = False) -> np.ndarray:
        """float64 array of the dims, with the batch as last axis if there is one.

        With `recalculate`, the graph is computed anew, with new random draws.
        """
        graph, node = self.locate()
        kind, found = node.signature.kind, None
        if not (recalculate or kind.ragged) and node.lanes:
            found = engine().executor(graph, node)
        if found is None:
            return to_numpy(self._rows(recalculate))
        shape = kind.shape if node.lanes == 1 else (*kind.shape, node.lanes)
        result = np.empty(shape, np.float64, "F")
        found[0].array(found[1], result)
        return result

    def vec_value(self, recalculate: object = False) -> list[float]:
        """Every number, first index fastest, batch elements one after the other."""
        return self.npvalue(recalculate).ravel(order="F").tolist()

    def _value(self, recalculate: object = False) -> Any:
        """`value`, which is in C++ where that has a number."""
        rows = self._rows(recalculate)
        if rows.size == 1 and rows.ndim == 2:
            return float(rows[0, 0])
        array = to_numpy(rows)
        return array if rows.ndim > 2 else array.ravel(order="F").tolist()

    def scalar_value(self, recalculate: object = False) -> float:
        """The number of an expression that has one.

        Raises:
            RuntimeError: it has more than one.
        """
        number = None if recalculate else self._number_at_hand()
        if number is not None:
            return number
        rows = self._rows(recalculate)
        if rows.size != 1:
            raise RuntimeError(
                error_text(
                    "scalar_value: the expression has more than one number",
                    got=Dim(*self.dim()),
                    expected="{1}",
                    fix="use value() or npvalue()",
                )
            )
        return float(rows.reshape(()))

    def forward(self, recalculate: object = False) -> None:
        """Compute the expression, and all made so far."""
        self._rows(recalculate)

    def _backward(self, full: object = False) -> None:
        """`backward`, which is in C++ where tier 0 has a graph of plain parameters."""
        graph, node = self.locate()
        dim = node.full_dim
        if dim.size * dim.batch != 1:
            raise ValueError(
                error_text(
                    "backward: the expression is not one number",
                    got=dim,
                    expected="{1}",
                    fix="sum first, with sum_elems or sum_batches",
                )
            )
        engine().backward(graph, node, bool(full))

    def gradient(self) -> np.ndarray:
        """Gradient of the last `backward` at this node, shaped as `npvalue`.

        Raises:
            RuntimeError: no backward was run, or the node is newer than its root.
        """
        graph, node = self.locate()
        return to_numpy(node.without_padding(engine().gradient(graph, node)))

    def set(self, value: Any) -> None:
        """Give an input or a lookup another value; the graph is computed anew.

        Raises:
            ValueError: the operation has no such value, or its length differs.
        """
        if not self.is_live:
            raise ValueError(stale("operand"))
        op, data = self.signature.op, self.data
        lengths: tuple[Any, ...] = ()  # of ragged axes, behind what it was given
        if op.origin is not None:
            op, fields = op.origin, data if isinstance(data, tuple) else (data,)
            given, lengths = fields[: len(op.given)], fields[len(op.given) :]
            data = given[0] if len(given) == 1 else given
        if op.reset is None:
            raise ValueError(
                error_text(
                    f"{op.name}: set() has nothing to set",
                    got=op.name,
                    expected="an input vector or scalar, or a lookup",
                    fix="for inputTensor, pass reusable_expr=True",
                )
            )
        dims = [x.full_dim for x in self.operands]
        if not dims:  # of a lookup, the table's
            dims = [kind.dim for kind in self.signature.operands]
        data = op.reset(self.full_dim, data, value, *dims)
        if lengths:
            data = (*(data if isinstance(data, tuple) else (data,)), *lengths)
        self.graph.set_data(self.index, data)
        self.graph.invalidate()

    def set_index(self, value: Any) -> None:
        """`set`, as DyNet also calls it."""
        self.set(value)

    def _for_numpy(self) -> np.ndarray:
        return self.npvalue()

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        """The value as an array of its own; with ``dtype=object``, the expression."""
        if copy is False:
            raise ValueError(
                error_text(
                    "np.array: the value of an expression is a copy",
                    got="copy=False",
                    expected="copy=None or copy=True",
                    fix="np.asarray(x)",
                )
            )
        if _are_objects_in_arrays or dtype == np.dtype(object):
            box = np.empty((), object)
            box[()] = self
            return box
        return np.asarray(self._for_numpy(), dtype)

    def __float__(self) -> float:
        shape, batch = self.dim()
        if math.prod(shape) * batch != 1:
            raise TypeError(
                error_text(
                    "float(x), x < 1, ...: the expression has more than one number",
                    got=Dim(shape, batch),
                    expected="{1}",
                    fix="use value() or npvalue()",
                )
            )
        return self.scalar_value()

    def __format__(self, spec: str) -> str:
        return format(float(self), spec) if spec else str(self)

    def __len__(self) -> int:
        raise TypeError("an Expression has no len(); see dim()")

    def __bool__(self) -> bool:
        return True

    def __iter__(self: Any) -> "Iterator[Expression]":
        """Rows, up to the IndexError."""
        row = 0
        while True:
            try:
                element = self[row]
            except IndexError:
                return
            yield element
            row += 1

    def __reduce__(self) -> Any:
        raise TypeError(
            error_text(
                "Expression: no copies and no pickles",
                got="copy or pickle",
                expected="a number, an array or a parameter",
                fix="copy or pickle value(), or build the expression again",
            )
        )


if TYPE_CHECKING:

    class Expression(_Methods):
        """A node of a graph."""

        @property
        def T(self) -> "Expression": ...
        def value(self, recalculate: object = False) -> Any: ...
        def backward(self, full: object = False) -> None: ...
        def __add__(self, other: Any) -> "Expression": ...
        def __radd__(self, other: Any) -> "Expression": ...
        def __sub__(self, other: Any) -> "Expression": ...
        def __rsub__(self, other: Any) -> "Expression": ...
        def __mul__(self, other: Any) -> "Expression": ...
        def __rmul__(self, other: Any) -> "Expression": ...
        def __truediv__(self, other: Any) -> "Expression": ...
        def __rtruediv__(self, other: Any) -> "Expression": ...
        def __pow__(self, exponent: Any, modulus: Any = None) -> "Expression": ...
        def __rpow__(self, base: Any) -> "Expression": ...
        def __getitem__(self, key: Any) -> "Expression": ...
        def __neg__(self) -> "Expression": ...
        def __matmul__(self, other: Any) -> "Expression": ...
        def __rmatmul__(self, other: Any) -> "Expression": ...
        def __lt__(self, other: Any) -> bool: ...
        def __le__(self, other: Any) -> bool: ...
        def __gt__(self, other: Any) -> bool: ...
        def __ge__(self, other: Any) -> bool: ...

    class Leaf(Expression):
        """A parameter, which belongs to every graph."""

        def _set_signature(self, signature: Signature) -> None: ...

    class Table(Leaf):
        """A table of rows that can be looked up."""

        def _set_rows(self, signature: Signature, rows: int) -> None: ...
        def __getitem__(self, key: Any) -> Expression: ...

else:
    Expression, Leaf, Table = core.Expression, core.Leaf, core.Table
    Expression.__doc__ = _Methods.__doc__
    for _name, _method in vars(_Methods).items():
        if callable(_method) or isinstance(_method, property):
            setattr(Expression, _name, _method)
    Expression.__array_ufunc__ = None  # NumPy leaves operators to expressions


def stale(use: str) -> str:
    """The message for an expression of an earlier graph."""
    return error_text(
        "the expression is stale",
        got=f"{use} of an expression made before renew_cg(), or cut by cg_revert()",
        expected="an expression of the current graph",
        fix="build it again",
    )
