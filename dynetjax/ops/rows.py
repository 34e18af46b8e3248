"""Batch elements as rows: sums over them, and batches made of others' elements.

A sum of any number of operands is a tree of sums of at most eight, which all share one
program. Nothing here depends on how many operands or elements there are.
"""

from collections.abc import Iterator, Sequence

from dynetjax.dims import Dim, DimError, Shape, trim
from dynetjax.errors import explain
from dynetjax.graph import ComputationGraph, Expression, current_graph
from dynetjax.ops.arguments import index_below, indices_below, one_batch
from dynetjax.ops.arithmetic import scale
from dynetjax.ops.declare import operand, operands
from dynetjax.ops.registry import FAN_IN, GATHER, KINDS, REDUCE, Op

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


REDUCE_OP = Op("sum", form=REDUCE, internal=True)
GATHER_OP = Op("gather", form=GATHER)
LIFT_OP = Op(
    "lift",
    lambda x, *, shape: x.reshape(shape),
    _as_given,
    static=("shape",),
    lane=True,
    internal=True,
)


def lane(graph: ComputationGraph, node: int, shape: Shape) -> int:
    """`node` with rows of `shape`, which differs by trailing ones at most."""
    kind = KINDS[graph.kind[node]]
    if kind.shape == shape and not kind.uniform:
        return node
    return graph.add(LIFT_OP, (node,), (shape,))


def element(graph: ComputationGraph, node: int, number: int) -> int:
    """The node of one batch element of `node`."""
    if graph.batch[node] == 1:
        return node
    shape = graph.dim(node).shape
    return graph.add_rows(GATHER_OP, (node,), shape, [number], 1)


def _groups(items: Sequence[int]) -> list[tuple[int, ...]]:
    """`items` in order, FAN_IN at a time."""
    return [tuple(items[k : k + FAN_IN]) for k in range(0, len(items), FAN_IN)]


def _parts(rows: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """`rows` in groups that one REDUCE node takes."""
    return (tuple(rows[k : k + FAN_IN]) for k in range(0, len(rows), FAN_IN))


def _sum_tree(graph: ComputationGraph, nodes: list[int], shape: Shape) -> int:
    """The sum of `nodes`, which have rows of `shape`."""
    while len(nodes) > 1:
        nodes = [
            graph.add_rows(
                REDUCE_OP, part, shape, None, max(graph.batch[n] for n in part)
            )
            for part in _groups(nodes)
        ]
    return nodes[0]


def _sum_rows(graph: ComputationGraph, node: int) -> int:
    """The sum of the batch elements of `node`."""
    shape, batch = graph.dim(node)
    if batch == 1:
        return node
    parts = [
        graph.add_rows(REDUCE_OP, (node,) * len(rows), shape, list(rows), 1)
        for rows in _groups(range(batch))
    ]
    return _sum_tree(graph, parts, shape)


def _misfit(name: str, dims: list[Dim]) -> DimError:
    return DimError(
        explain(
            f"{name}: the dims of the operands differ",
            got=", ".join(map(str, dims)),
            expected="the same dims everywhere",
            fix="reshape them; + and cmult repeat an operand where its size is 1",
        )
    )


def esum(xs):
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
    """
    graph = current_graph()
    nodes = operands("esum", xs, graph)
    dims = [graph.dim(node) for node in nodes]
    if len({trim(dim.shape) for dim in dims}) > 1:
        raise _misfit("esum", dims)
    one_batch("esum", dims)
    return Expression(_sum(graph, nodes), graph.stamp)


def _sum(graph: ComputationGraph, nodes: list[int]) -> int:
    if len(nodes) == 1:
        return nodes[0]
    shape = graph.dim(nodes[0]).shape
    return _sum_tree(graph, [lane(graph, node, shape) for node in nodes], shape)


def average(xs):
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
    """
    graph = current_graph()
    nodes = operands("average", xs, graph)
    dims = [graph.dim(node) for node in nodes]
    if len({dim.shape for dim in dims}) > 1:
        raise _misfit("average", dims)
    one_batch("average", dims)
    return scale(Expression(_sum(graph, nodes), graph.stamp), 1 / len(nodes))


def sum_batches(x):
    """Sum of the batch elements.

    Args:
        x: any dims.
    Returns:
        The dims of `x`, not batched.
    Raises:
        TypeError: `x` is not an expression.
    Source: clab/dynet, ``dynet/nodes-arith-sum.cc``.
    """
    graph = current_graph()
    node = operand("sum_batches", x, graph)
    return Expression(_sum_rows(graph, node), graph.stamp)


def mean_batches(x):
    """Mean of the batch elements.

    Args:
        x: any dims.
    Returns:
        The dims of `x`, not batched.
    Raises:
        TypeError: `x` is not an expression.
    Source: clab/dynet, ``dynet/nodes-moments.cc``.
    """
    total = sum_batches(x)
    return scale(total, 1 / x.dim()[1])


def concatenate_to_batch(xs):
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
    """
    graph = current_graph()
    nodes = operands("concatenate_to_batch", xs, graph)
    dims = [graph.dim(node) for node in nodes]
    shape = dims[0].shape
    if any(dim.shape != shape for dim in dims):
        raise _misfit("concatenate_to_batch", dims)
    lanes = tuple([lane(graph, node, shape) for node in nodes])
    batch = sum(dim.batch for dim in dims)
    return Expression(graph.add_rows(GATHER_OP, lanes, shape, None, batch), graph.stamp)


def pick_batch_elem(x, v):
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
    """
    graph = current_graph()
    node = operand("pick_batch_elem", x, graph)
    row = index_below("pick_batch_elem", "v", v, graph.batch[node])
    return _rows(graph, node, [row])


def pick_batch_elems(x, vs):
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
    """
    graph = current_graph()
    node = operand("pick_batch_elems", x, graph)
    rows = indices_below("pick_batch_elems", "vs", vs, graph.batch[node])
    if not rows:
        raise ValueError(
            explain(
                "pick_batch_elems: vs is empty",
                got=vs,
                expected="at least one batch element",
                fix="leave the expression out",
            )
        )
    return _rows(graph, node, rows)


def _rows(graph: ComputationGraph, node: int, rows: list[int]) -> Expression:
    shape = graph.dim(node).shape
    source = lane(graph, node, shape)
    picked = graph.add_rows(GATHER_OP, (source,), shape, rows, len(rows))
    return Expression(picked, graph.stamp)
