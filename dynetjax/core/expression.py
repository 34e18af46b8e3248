"""Expression: a node of a graph, and what users do with it."""

from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Final, Protocol

import numpy as np

from dynetjax.core.dims import Dim, Shape
from dynetjax.core.errors import error_text
from dynetjax.core.rules import OperandSpec, Rule
from dynetjax.native import mypyc_attr


class Engine(Protocol):
    """What computes a graph."""

    def values(self, graph: Any, nodes: "list[Expression]") -> list[np.ndarray]:
        """Rows ``[batch, *shape]`` of each node."""

    def executor(self, graph: Any, node: "Expression") -> Any:
        """What has computed a node on the host; None if that is elsewhere."""

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


def to_numpy(rows: np.ndarray) -> np.ndarray:
    """``[batch, *shape]`` in float32 as DyNet shows it: float64, the batch last."""
    array = rows[0] if len(rows) == 1 else np.moveaxis(rows, 0, -1)
    return array.astype(np.float64, "F")


ONE: Final = (1,)  # the shape of one number
_args: Final[list[tuple[int, ...]]] = []
SOME_ARGS: Final = 1 << 10
MOST_ARGS: Final = 1 << 16  # which are never freed


def args_of(number: int) -> tuple[int, ...]:
    """``(number,)``: the args of a stored node, which every graph has the same of."""
    if number >= MOST_ARGS:
        return (number,)
    while len(_args) <= number:
        start = len(_args)  # another thread may be here, too, and says the same
        more = range(start, start + SOME_ARGS)
        _args[start : start + SOME_ARGS] = [(k,) for k in more]
    return _args[number]


class Nodes:
    """What a graph has of its nodes; see `dynetjax.graph.ComputationGraph`."""

    nodes: "list[Expression]"
    open: Any
    stored_nodes: "list[Expression]"
    live: bool


@mypyc_attr(allow_interpreted_subclasses=True)
class Expression:
    """A node of a graph.

    What follows is for the engine; users call the methods.

    Attributes:
        graph: that it belongs to; None for a parameter, which belongs to all.
        index: its number among the graph's nodes.
        rule: what nodes like it have in common.
        spec: what a consumer sees of it; None once it has become part of one.
        lanes: batch size; 0 for a weight, which has no rows.
        args: of a stored node, its number among the stored ones; of an inlined one,
            the numbers of the stored nodes it reads and its runtime data, in the
            order in which its rule mentions them.
        inner: of a stored node, what `args` would be if it were inlined.
        first, others: its operands: one and None, two, or None and a tuple of all.
        data: runtime data of its own.
        lengths: true sizes of the axes that are ragged; unset where there are none.
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

    __slots__ = (
        "args",
        "data",
        "first",
        "graph",
        "index",
        "inner",
        "lanes",
        "lengths",
        "others",
        "rule",
        "spec",
    )
    # Whoever makes one fills these in itself: __init__ would take half as long again.
    graph: Any
    index: int
    rule: Rule
    spec: OperandSpec | None
    lanes: int
    args: tuple[Any, ...]
    inner: tuple[Any, ...]
    first: "Expression | None"
    others: Any
    data: Any
    lengths: tuple[int, ...]
    tensor_value: ClassVar[Any]  # attached by dynetjax.inspect.tensor

    @property
    def operands(self) -> "tuple[Expression, ...]":
        """Expressions that it was made of."""
        first, others = self.first, self.others
        if first is None:
            return others
        return (first,) if others is None else (first, others)

    @property
    def full_dim(self) -> Dim:
        """Sizes and batch size, unchecked."""
        lanes, kind = self.lanes, self.rule.kind
        if kind.ragged:
            shape = list(kind.shape)
            for axis, length in zip(kind.ragged, self.lengths, strict=True):
                shape[axis] = length
            return Dim(tuple(shape), max(1, lanes))
        return Dim(kind.shape, lanes) if lanes > 1 else kind.dim

    @property
    def true_shape(self) -> Shape:
        """The shape of `full_dim`, without making one."""
        kind = self.rule.kind
        return self.full_dim.shape if kind.ragged else kind.shape

    def without_padding(self, rows: np.ndarray) -> np.ndarray:
        """Rows ``[batch, *shape]`` as far as they are real."""
        if not self.rule.kind.ragged:
            return rows
        return rows[:, *[slice(n) for n in self.full_dim.shape]]

    def locate(self) -> "tuple[Any, Expression]":
        """The graph and the node, where this is about to be read.

        Raises:
            RuntimeError: the expression belongs to a graph that was renewed.
        """
        if not self.graph.live:
            raise RuntimeError(stale("read"))
        return self.graph, self

    def __repr__(self) -> str:
        if not self.graph.live:
            return "expression (stale)"
        return f"expression {self.graph.user_number(self)}/{self.graph.version}"

    def dim(self) -> tuple[Shape, int]:
        """``((d0, d1, ...), batch size)``."""
        dim = self.locate()[1].full_dim
        return dim.shape, dim.batch

    def _rows(self, recalculate: object) -> np.ndarray:
        graph, node = self.locate()
        if recalculate:
            graph.invalidate()
        return node.without_padding(engine().values(graph, [node])[0])

    def _number(self) -> float | None:
        """The value of an expression of one number; None if it is not on the host."""
        graph, node = self.locate()
        if node.lanes != 1 or node.rule.kind.shape != ONE:
            return None
        executor = engine().executor(graph, node)
        return None if executor is None else executor.number(node.args[0])

    def npvalue(self, recalculate: object = False) -> np.ndarray:
        """float64 array of the dims, with the batch as last axis if there is one.

        With `recalculate`, the graph is computed anew, with new random draws.
        """
        graph, node = self.locate()
        executor = None
        if not (recalculate or node.rule.kind.ragged) and node.lanes:
            executor = engine().executor(graph, node)
        kind = node.rule.kind  # which may be another one by now
        if executor is None or kind.ragged:
            return to_numpy(self._rows(recalculate))
        shape = kind.shape if node.lanes == 1 else (*kind.shape, node.lanes)
        result = np.empty(shape, np.float64, "F")
        executor.array(node.args[0], result)
        return result

    def vec_value(self, recalculate: object = False) -> list[float]:
        """Every number, first index fastest, batch elements one after the other."""
        return self.npvalue(recalculate).ravel(order="F").tolist()

    def value(self, recalculate: object = False) -> Any:
        """A float for one number, a flat list for vectors, else an array."""
        number = None if recalculate else self._number()
        if number is not None:
            return number
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
        number = None if recalculate else self._number()
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

    def backward(self, full: object = False) -> None:
        """Add the gradient of this number to every parameter it was made from.

        With `full`, `gradient()` of constants is computed too.

        Raises:
            ValueError: the expression, batch included, is not one number.
        """
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
        if not self.graph.live:
            raise ValueError(stale("operand"))
        op, data = self.rule.signature.op, self.data
        if op.origin is not None:  # which was not given the lengths of ragged axes
            op = op.origin
            data = data[: len(op.given)] if len(op.given) > 1 else data[0]
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
            dims = [kind.dim for kind in self.rule.signature.operands]
        self.data = op.reset(self.full_dim, data, value, *dims)
        self.graph.invalidate()
        if self.operands:  # the old value is part of what its consumers were given
            self.graph.rebuild()

    def set_index(self, value: Any) -> None:
        """`set`, as DyNet also calls it."""
        self.set(value)

    def __len__(self) -> int:
        raise TypeError("an Expression has no len(); see dim()")

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> "Iterator[Expression]":
        """Rows, up to the IndexError: compiled, Python does not do this by itself."""
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

    # Python's operators

    def __add__(self, other: Any) -> "Expression":
        return operators.add(self, other)

    def __radd__(self, other: Any) -> "Expression":
        return operators.add_to(self, other)

    def __sub__(self, other: Any) -> "Expression":
        return operators.subtract(self, other)

    def __rsub__(self, other: Any) -> "Expression":
        return operators.subtract_from(self, other)

    def __mul__(self, other: Any) -> "Expression":
        return operators.multiply(self, other)

    def __rmul__(self, other: Any) -> "Expression":
        return operators.multiply(self, other)

    def __truediv__(self, other: Any) -> "Expression":
        return operators.divide(self, other)

    def __rtruediv__(self, other: Any) -> "Expression":
        return operators.divide_into(self, other)

    def __neg__(self) -> "Expression":
        return operators.negate(self)

    def __pow__(self, exponent: Any, modulus: Any = None) -> "Expression":
        del modulus  # as in DyNet
        return operators.power(self, exponent)

    def __rpow__(self, base: Any) -> "Expression":
        return operators.power_of(self, base)

    def __getitem__(self, key: Any) -> "Expression":
        return operators.item(self, key)


class Operators:
    """What Python's operators do with an expression and something else."""

    add: Callable[[Expression, Any], Expression]
    add_to: Callable[[Expression, Any], Expression]
    subtract: Callable[[Expression, Any], Expression]
    subtract_from: Callable[[Expression, Any], Expression]
    multiply: Callable[[Expression, Any], Expression]
    divide: Callable[[Expression, Any], Expression]
    divide_into: Callable[[Expression, Any], Expression]
    negate: Callable[[Expression], Expression]
    power: Callable[[Expression, Any], Expression]
    power_of: Callable[[Expression, Any], Expression]
    item: Callable[[Expression, Any], Expression]


operators: Final = Operators()  # filled in by `dynetjax.ops.operators`


def stale(use: str) -> str:
    """The message for an expression of an earlier graph."""
    return error_text(
        "the expression is stale",
        got=f"{use} of an expression made before renew_cg(), or cut by cg_revert()",
        expected="an expression of the current graph",
        fix="build it again",
    )
