"""Batch elements as rows: sums over them, and batches made of others' elements.

A sum of any number of operands is a tree of sums of at most eight, which all share one
program. Nothing here depends on how many operands or elements there are.
"""

from dynetjax.core.dims import Dim, DimError, Shape, trim
from dynetjax.core.errors import error_text, named
from dynetjax.core.expression import Expression
from dynetjax.core.registry import FAN_IN, GATHER, REDUCE, Op
from dynetjax.graph import ComputationGraph
from dynetjax.ops.arguments import Int, Ints, index_below, indices_below, one_batch
from dynetjax.ops.arithmetic import scale
from dynetjax.ops.declare import function
from dynetjax.ops.operands import graph_of, operands

__all__ = [
    "average",
    "concatenate_to_batch",
    "esum",
    "mean_batches",
    "pick_batch_elem",
    "pick_batch_elems",
    "sum_batches",
]


def _as_given(name: str, x: Dim, shape: Shape) -> Shape:
    del name, x
    return shape


SUM_OP = Op("sum", form=REDUCE)
ELEMENTS_OP = Op("sum_batches", form=REDUCE)
PART_OP = Op("part of sum_batches", form=REDUCE, internal=True)
GATHER_OP = Op("gather", form=GATHER)
LIFT_OP = Op(
    "lift",
    lambda x, *, shape: x.reshape(shape),
    _as_given,
    static=("shape",),
    batched=True,
    internal=True,
)


def batched(graph: ComputationGraph, x: Expression, shape: Shape) -> Expression:
    """`x` with rows of `shape`, which differs by trailing ones at most."""
    if x.lanes and x.true_shape == shape:
        return x
    return graph.add(LIFT_OP, (x,), (shape,))


def element(graph: ComputationGraph, x: Expression, number: int) -> Expression:
    """One batch element of `x`."""
    if x.lanes <= 1:
        return x
    return graph.add_rows(GATHER_OP, (x,), x.true_shape, [number], 1)


def _sum(graph: ComputationGraph, terms: list[Expression]) -> Expression:
    """The sum of `terms`, which have the same dims but for trailing ones.

    Of one it is a sum, too: a graph with one loss runs the program of those with many.
    """
    shape = terms[0].true_shape
    batch = max([1, *[x.lanes for x in terms]])
    rows = tuple([batched(graph, x, shape) for x in terms])
    return graph.add_rows(SUM_OP, rows, shape, None, batch)


def _sum_rows(graph: ComputationGraph, x: Expression) -> Expression:
    """The sum of the batch elements of `x`."""
    if x.lanes <= 1:
        return _sum(graph, [x])
    shape = x.true_shape
    op = ELEMENTS_OP if x.lanes <= FAN_IN else PART_OP
    parts = []
    for start in range(0, x.lanes, FAN_IN):
        rows = list(range(start, min(start + FAN_IN, x.lanes)))
        parts.append(graph.add_rows(op, (x,) * len(rows), shape, rows, 1))
    return _sum(graph, parts) if len(parts) > 1 else parts[0]


def _misfit(name: str, dims: list[Dim]) -> DimError:
    return DimError(
        error_text(
            f"{name}: the dims of the operands differ",
            got=", ".join(map(str, dims)),
            expected="the same dims everywhere",
            fix="reshape them; + and cmult repeat an operand where its size is 1",
        )
    )


@function(alike=True)
def esum(xs: list[Expression]) -> Expression:
    """Sum of a list of expressions.

    Args:
        xs: a list of expressions of the same dims, up to trailing ones.
    Returns:
        The dims of the first, and the largest batch.
    Raises:
        TypeError: `xs` is not a list of expressions.
        AssertionError: it is empty.
        DimError: the dims or batches do not fit.
    Source: clab/dynet, ``dynet/nodes-arith-sum.cc``.
    Examples:
        >>> xs = [dy.inputVector(v) for v in ([1, 2], [10, 20], [100, 200])]
        >>> dy.esum(xs).value()
        [111.0, 222.0]
    """
    graph = operands("esum", xs)
    dims = [x.full_dim for x in xs]
    if len({trim(dim.shape) for dim in dims}) > 1:
        raise _misfit("esum", dims)
    one_batch("esum", dims)
    return _sum(graph, xs)


@function(alike=True)
def _sum_for_average(xs: list[Expression]) -> Expression:
    graph = operands("average", xs)
    dims = [x.full_dim for x in xs]
    if len({dim.shape for dim in dims}) > 1:
        raise _misfit("average", dims)
    one_batch("average", dims)
    return _sum(graph, xs)


def average(xs: list[Expression]) -> Expression:
    """Mean of a list of expressions.

        (x_1 + ... + x_n) / n

    Args:
        xs: a list of expressions of the same dims.
    Returns:
        The dims of each, and the largest batch.
    Raises:
        TypeError: `xs` is not a list of expressions.
        AssertionError: it is empty.
        DimError: the dims or batches do not fit.
    Source: clab/dynet, ``dynet/nodes-moments.cc``.
    Examples:
        >>> xs = [dy.inputVector([1, 2]), dy.inputVector([3, 6])]
        >>> dy.average(xs).value()
        [2.0, 4.0]
    """
    return scale(_sum_for_average(xs), 1 / len(xs))


def sum_batches(x: Expression) -> Expression:
    """Sum of the batch elements.

    Args:
        x: any dims.
    Returns:
        The dims of `x`, not batched.
    Raises:
        TypeError: `x` is not an expression.
    Source: clab/dynet, ``dynet/nodes-arith-sum.cc``.
    Examples:
        >>> x = dy.inputTensor([[1, 2, 3], [4, 5, 6]], batched=True)
        >>> dy.sum_batches(x).value()
        [6.0, 15.0]
    """
    return _sum_rows(graph_of("sum_batches", x), x)


@named
def mean_batches(x: Expression) -> Expression:
    """Mean of the batch elements.

    Args:
        x: any dims.
    Returns:
        The dims of `x`, not batched.
    Raises:
        TypeError: `x` is not an expression.
    Source: clab/dynet, ``dynet/nodes-moments.cc``.
    Examples:
        >>> x = dy.inputTensor([[1, 2, 3], [4, 5, 6]], batched=True)
        >>> print(dy.mean_batches(x).npvalue().round(3))
        [2. 5.]
    """
    total = sum_batches(x)
    return scale(total, 1 / max(1, x.lanes))


def concatenate_to_batch(xs: list[Expression]) -> Expression:
    """A batch of the batch elements of all operands, one after the other.

    Args:
        xs: a list of expressions of the same dims.
    Returns:
        The dims of each; the batch size is the sum of all.
    Raises:
        TypeError: `xs` is not a list of expressions.
        AssertionError: it is empty.
        DimError: the dims differ.
    Source: clab/dynet, ``dynet/nodes-concat.cc``.
    Examples:
        >>> xs = [dy.inputVector([1, 2]), dy.inputVector([3, 4])]
        >>> dy.concatenate_to_batch(xs).dim()
        ((2,), 2)
        >>> print(dy.concatenate_to_batch(xs).npvalue())
        [[1. 3.]
         [2. 4.]]
    """
    graph = operands("concatenate_to_batch", xs)
    shape, batch = xs[0].true_shape, 0
    for x in xs:
        if x.true_shape != shape:
            raise _misfit("concatenate_to_batch", [x.full_dim for x in xs])
        batch += max(1, x.lanes)
    lanes = tuple([batched(graph, x, shape) for x in xs])
    return graph.add_rows(GATHER_OP, lanes, shape, None, batch)


def pick_batch_elem(x: Expression, v: Int) -> Expression:
    """One batch element.

    Args:
        x: any dims.
        v: which, from 0 on. Run-time: a new v never recompiles.
    Returns:
        The dims of `x`, not batched.
    Raises:
        TypeError: `x` is not an expression, or `v` not a number.
        ValueError: `v` is out of range.
        OverflowError: it is negative.
    Source: clab/dynet, ``dynet/nodes-select.cc``.
    Examples:
        >>> x = dy.inputTensor([[1, 2, 3], [4, 5, 6]], batched=True)
        >>> dy.pick_batch_elem(x, 1).value()
        [2.0, 5.0]
    """
    graph = graph_of("pick_batch_elem", x)
    row = index_below("pick_batch_elem", "v", v, max(1, x.lanes))
    return _rows(graph, x, [row])


def pick_batch_elems(x: Expression, vs: Ints) -> Expression:
    """A batch of some batch elements.

    Args:
        x: any dims.
        vs: which, from 0 on; repeats are allowed. Run-time, and so is their number.
    Returns:
        The dims of `x`, with a batch of ``len(vs)``.
    Raises:
        TypeError: `x` is not an expression, or `vs` not a sequence of numbers.
        ValueError: `vs` is empty, or one is out of range.
        OverflowError: one is negative.
    Source: clab/dynet, ``dynet/nodes-select.cc``.
    Examples:
        >>> x = dy.inputTensor([[1, 2, 3], [4, 5, 6]], batched=True)
        >>> print(dy.pick_batch_elems(x, [2, 0]).npvalue())
        [[3. 1.]
         [6. 4.]]
    """
    graph = graph_of("pick_batch_elems", x)
    rows = indices_below("pick_batch_elems", "vs", vs, max(1, x.lanes))
    if not rows:
        raise ValueError(
            error_text(
                "pick_batch_elems: vs is empty",
                got=vs,
                expected="at least one batch element",
                fix="leave the expression out",
            )
        )
    return _rows(graph, x, rows)


def _rows(graph: ComputationGraph, x: Expression, rows: list[int]) -> Expression:
    shape = x.true_shape
    return graph.add_rows(
        GATHER_OP, (batched(graph, x, shape),), shape, rows, len(rows)
    )
