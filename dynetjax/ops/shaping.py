"""Shape and selection: where the numbers stand, never what they are.

Bounds of ranges are part of the program; indices are runtime data.
"""

from math import prod
from typing import Any

from dynetjax.core.dims import Dim, DimError, Shape, pad, to_shape, trim
from dynetjax.core.errors import error_text, named
from dynetjax.core.expression import Expression
from dynetjax.core.lazy import jnp, lax
from dynetjax.core.registry import Op
from dynetjax.graph import ComputationGraph
from dynetjax.ops.arguments import (
    Int,
    Ints,
    axis_of,
    index_below,
    indices_below,
    one_per_element,
    unsigned,
)
from dynetjax.ops.arrays import listed
from dynetjax.ops.declare import OF_NEXT, STATIC, below, function, op
from dynetjax.ops.operands import graph_of
from dynetjax.ops.rows import element

__all__ = [
    "concatenate",
    "concatenate_cols",
    "pick",
    "pick_batch",
    "pick_range",
    "pickrange",
    "reshape",
    "transpose",
]


def _axis(name, dims, d):
    del dims
    return (unsigned(name, "d", d),), None, 1


def _concatenated(name: str, *dims_and_axis) -> Shape:
    """Sizes agree but along `d`; the order is that of the first, or ``d + 1``."""
    *dims, d = dims_and_axis
    order = max(len(dims[0].shape), d + 1)
    shapes = [pad(trim(dim.shape), order) for dim in dims]
    others = {shape[:d] + shape[d + 1 :] for shape in shapes}
    if len(others) > 1:
        raise DimError(
            error_text(
                f"{name}: the dims of the operands do not fit",
                got=", ".join(map(str, dims)),
                expected=f"equal sizes but in dimension {d}",
                fix="reshape or transpose the operands",
            )
        )
    first = shapes[0]
    return (*first[:d], sum(shape[d] for shape in shapes), *first[d + 1 :])


def _one_each(xs: list[Expression], d: int) -> bool:
    """Whether each operand has size 1 along `d`, and some are rows."""
    kind = xs[0].signature.kind
    return (
        pad(kind.shape, d + 1)[d] == 1
        and not kind.ragged
        and any(x.lanes for x in xs)
        and all(x.signature.kind.shape == kind.shape for x in xs)
    )


@op(inputs="*xs", dim=_concatenated, accept=_axis, lengthens=_one_each)
def concatenate(*xs, d: int = 0):
    """The operands one after the other along dimension `d`.

    Args:
        xs: a list of expressions, of equal sizes but in dimension `d`.
        d: the dimension; it may be one that the operands do not have.
    Returns:
        The dims of the first, the size in `d` being the sum of all.
    Raises:
        TypeError: `xs` is not a list of expressions.
        AssertionError: it is empty.
        DimError: the sizes or batches do not fit.
        OverflowError: `d` is negative.
    Source: clab/dynet, ``dynet/nodes-concat.cc``.
    Examples:
        >>> xs = [dy.inputVector([1, 2]), dy.inputVector([3, 4])]
        >>> dy.concatenate(xs).value()
        [1.0, 2.0, 3.0, 4.0]
        >>> dy.concatenate(xs, d=1).dim()
        ((2, 2), 1)
    """
    order = max(xs[0].ndim, d + 1)
    return jnp.concatenate([x.reshape(pad(trim(x.shape), order)) for x in xs], axis=d)


@named
def concatenate_cols(xs: list[Expression]) -> Expression:
    """The operands side by side, as the columns of a matrix.

    Args:
        xs: a list of vectors or matrices with the same number of rows.
    Returns:
        ``{m,n X b}``, n being the number of columns of all.
    Raises:
        TypeError: `xs` is not a list of expressions.
        AssertionError: it is empty.
        DimError: the sizes or batches do not fit.
    Source: clab/dynet, ``dynet/nodes-concat.cc``.
    Examples:
        >>> xs = [dy.inputVector([1, 2]), dy.inputVector([3, 4])]
        >>> print(dy.concatenate_cols(xs).npvalue())
        [[1. 3.]
         [2. 4.]]
    """
    return concatenate(xs, 1)


def _permutation(name, dims, axes):
    del dims
    axes = listed(axes)
    if not isinstance(axes, list):
        raise TypeError(
            error_text(
                f"{name}: dims is not a list",
                got=f"{axes!r} ({type(axes).__name__})",
                expected="a list of ints",
                fix="list(...)",
            )
        )
    return (tuple([unsigned(name, "dims", axis) for axis in axes]),), None, 1


def _transposed(name: str, x: Dim, dims: tuple[int, ...]) -> Shape:
    """Sizes in the order of `dims`; a vector may stand along any of them."""
    order = len(dims)
    vector = sum(n != 1 for n in x.shape) == 1
    fits = order == len(x.shape) or (vector and order >= len(trim(x.shape)))
    if sorted(dims) != list(range(order)) or not fits:
        raise DimError(
            error_text(
                f"{name}: dims do not fit x",
                got=f"dims = {list(dims)}, x = {x}",
                expected="each dimension of x once",
                fix="name the new order of all dimensions of x",
            )
        )
    shape = pad(trim(x.shape), order)
    return tuple(shape[axis] for axis in dims)


@op(inputs="x", dim=_transposed, accept=_permutation)
def transpose(x, dims: list[int] = [1, 0]):  # noqa: B006
    """Dimensions in another order.

    Args:
        x: any dims.
        dims: a list; dimension i of the result is dimension ``dims[i]`` of `x`.
    Returns:
        The sizes of `x` in the new order; ``{n}`` becomes ``{1,n}``.
    Raises:
        TypeError: `dims` is not a list.
        DimError: it is not an order of the dimensions of `x`.
    Source: clab/dynet, ``dynet/nodes-linalg.cc``.
    Examples:
        >>> x = dy.inputTensor([[1, 2, 3], [4, 5, 6]])
        >>> print(dy.transpose(x).npvalue())
        [[1. 4.]
         [2. 5.]
         [3. 6.]]
        >>> dy.transpose(dy.inputVector([1, 2, 3])).dim()
        ((1, 3), 1)
    """
    return jnp.transpose(x.reshape(pad(trim(x.shape), len(dims))), dims)


def _as_given(name: str, x: Dim, shape: Shape) -> Shape:
    del name, x
    return shape


def _column_major(x, *, shape: Shape):
    return x.T.reshape(shape[::-1]).T


def _joined(*xs, shape: Shape):
    flat = jnp.concatenate([x.T.reshape(-1) for x in xs])
    return flat.reshape(shape[::-1]).T


def _piece(x, number, *, shape: Shape):
    pieces = x.T.reshape(-1, *shape[::-1])
    return lax.dynamic_index_in_dim(pieces, number, keepdims=False).T


RESHAPE_OP = Op("reshape", _column_major, _as_given, static=("shape",))
JOIN_OP = Op(
    "reshape",
    _joined,
    lambda name, *dims_and_shape: dims_and_shape[-1],
    static=("shape",),
)


def _in_order(
    graph: ComputationGraph, operands: tuple[Expression, ...]
) -> tuple[Expression, ...]:
    """A vector of the numbers that are cut, put in order once for all pieces."""
    (x,) = operands
    if len(x.true_shape) == 1:
        return operands
    return graph.rows((graph.part(RESHAPE_OP, (x,), ((prod(x.true_shape),),)),))


PIECE_OP = Op(
    "reshape", _piece, _as_given, static=("shape",), runtime="i", compose=_in_order
)


@function(1, [(STATIC, None), (STATIC, None)], by_batch=True)
def reshape(x: Expression, d: tuple[int, ...], batch_size: Int = 1) -> Expression:
    """The numbers of `x` with other dims, the first index running fastest.

    Where ``prod(d) * batch_size`` is the number of all numbers, batch included, the
    result has exactly these dims: a batch can become a dimension, and back.

    Args:
        x: any dims.
        d: a tuple of sizes.
        batch_size: batch size of the result.
    Returns:
        ``{d X batch_size}``; or ``{d X b}`` where `d` has as many numbers as one
        element of `x`, and `batch_size` is 1.
    Raises:
        TypeError: `d` is not a tuple.
        DimError: the number of numbers differs.
    Source: clab/dynet, ``dynet/nodes-flow.cc``.
    Examples:
        >>> x = dy.inputTensor([[1, 2, 3], [4, 5, 6]])
        >>> print(dy.reshape(x, (3, 2)).npvalue())
        [[1. 5.]
         [4. 3.]
         [2. 6.]]
        >>> dy.reshape(x, (2,), batch_size=3).dim()
        ((2,), 3)
    """
    graph = graph_of("reshape", x)
    old, shape = x.full_dim, _tuple_of_sizes(d)
    new = Dim(shape, unsigned("reshape", "batch_size", batch_size) or 1)
    if new.size == old.size and new.batch in (1, old.batch):
        return graph.add(RESHAPE_OP, (x,), (shape,))
    if new.size * new.batch == old.size * old.batch:
        return _regroup(graph, x, new)
    raise _other_size(old, new)


def _regroup(graph: ComputationGraph, x: Expression, new: Dim) -> Expression:
    """The numbers of all elements of `x` in a row, cut into those of `new`."""
    shape, batch = new
    if x.lanes > 1:
        flat = shape if batch == 1 else (new.size * batch,)
        elements = [element(graph, x, k) for k in range(x.lanes)]
        x = graph.add(JOIN_OP, tuple(elements), (flat,))
    if batch == 1:
        return x
    return graph.add(PIECE_OP, (x,), (shape,), list(range(batch)), batch)


def _tuple_of_sizes(d: Any) -> Shape:
    if not isinstance(d, tuple):
        raise TypeError(
            error_text(
                "reshape: d is not a tuple",
                got=f"{d!r} ({type(d).__name__})",
                expected="a tuple of ints",
                fix="tuple(...)",
            )
        )
    return to_shape("reshape", d)


def _other_size(old: Dim, new: Dim) -> DimError:
    return DimError(
        error_text(
            "reshape: the number of numbers differs",
            got=f"{old} to {new}",
            expected=f"{old.size} numbers, or {old.size * old.batch} with the batch",
            fix="check d and batch_size",
        )
    )


def _index_and_axis(name, dims, index, dim):
    axis = axis_of(name, "dim", dim, dims[0])
    return (axis,), index_below(name, "index", index, dims[0].shape[axis]), 1


def _new_index(dim: Dim, data: Any, value: Any, x: Dim) -> Any:
    size = x.size // dim.size
    if not isinstance(data, list):
        return index_below("set_index", "index", value, size)
    indices = indices_below("set_index", "indices", value, size)
    one_per_element("set_index", "indices", indices, len(data))
    return indices


def without(shape: Shape, axis: int) -> Shape:
    """`shape` without one of its sizes, at least one size long."""
    return shape[:axis] + shape[axis + 1 :] or (1,)


def _one_removed(name: str, e: Dim, dim: int) -> Shape:
    del name
    return without(e.shape, dim)


@op(
    inputs="e",
    runtime="index:i",
    dim=_one_removed,
    accept=_index_and_axis,
    reset=_new_index,
    usual={"index": below(OF_NEXT)},
)
def pick(e, index: Int = 0, dim: int = 0):
    """What stands at one index of a dimension, which goes away.

    Args:
        e: any dims.
        index: from 0 on; `.set_index(index)` changes it. Run-time: a new index never
            recompiles.
        dim: the dimension.
    Returns:
        The dims of `e` without `dim`; an element of a vector is ``{1 X b}``.
    Raises:
        DimError: `e` has no such dimension.
        ValueError: `index` is out of range.
        OverflowError: it is negative.
    Source: clab/dynet, ``dynet/nodes-select.cc``.
    Examples:
        >>> x = dy.inputTensor([[1, 2, 3], [4, 5, 6]])
        >>> dy.pick(x, 1).value()
        [4.0, 5.0, 6.0]
        >>> dy.pick(x, 2, dim=1).value()
        [3.0, 6.0]
    """
    picked = lax.dynamic_index_in_dim(e, index, dim, keepdims=False)
    return picked.reshape(without(e.shape, dim))


def pick_batch(e: Expression, indices: Ints, dim: int = 0) -> Expression:
    """What stands at one index of a dimension, another one per batch element.

    Args:
        e: any dims; one that is not batched is repeated.
        indices: one per batch element; `.set_index(indices)` changes them. Run-time.
        dim: the dimension.
    Returns:
        The dims of `e` without `dim`, with a batch of ``len(indices)``.
    Raises:
        DimError: `e` has no such dimension.
        ValueError: an index is out of range, or there are not as many as elements.
        OverflowError: an index is negative.
    Source: clab/dynet, ``dynet/nodes-select.cc``.
    Examples:
        >>> x = dy.inputTensor([[1, 2, 3], [4, 5, 6]], batched=True)
        >>> dy.pick_batch(x, [0, 1, 0]).value()
        [1.0, 5.0, 3.0]
    """
    name = "pick_batch"
    graph, x = graph_of(name, e), e.full_dim
    axis = axis_of(name, "dim", dim, x)
    data = indices_below(name, "indices", indices, x.shape[axis])
    if x.batch != 1 or not data:
        one_per_element(name, "indices", data, x.batch)
    return graph.add(pick.op, (e,), (axis,), data, len(data))


def _range_and_axis(name, dims, s, e, d):
    del dims
    bounds = unsigned(name, "s", s), unsigned(name, "e", e)
    return (*bounds, unsigned(name, "d", d)), None, 1


def _range_shape(name: str, x: Dim, s: int, e: int, d: int) -> Shape:
    axis = axis_of(name, "d", d, x)
    if not 0 <= s < e <= x.shape[axis]:
        raise DimError(
            error_text(
                f"{name}: the range is empty or outside x",
                got=f"[{s}, {e}) along dimension {axis} of {x}",
                expected=f"0 <= s < e <= {x.shape[axis]}",
                fix="count from 0; e itself is left out",
            )
        )
    return (*x.shape[:axis], e - s, *x.shape[axis + 1 :])


@op(inputs="x", dim=_range_shape, accept=_range_and_axis)
def pick_range(x, s: int, e: int, d: int = 0):
    """The part from `s` on and before `e` along dimension `d`.

    Args:
        x: any dims.
        s: the first index.
        e: the one after the last. The bounds are part of the program.
        d: the dimension.
    Returns:
        The dims of `x` with ``e - s`` in dimension `d`.
    Raises:
        DimError: the range is empty or out of bounds, or there is no dimension `d`.
        OverflowError: a bound is negative.
    Source: clab/dynet, ``dynet/nodes-select.cc``.
    Examples:
        >>> dy.pick_range(dy.inputVector([10, 20, 30, 40]), 1, 3).value()
        [20.0, 30.0]
        >>> dy.pick_range(dy.ones((2, 5)), 1, 4, d=1).dim()
        ((2, 3), 1)
    """
    return lax.slice_in_dim(x, s, e, axis=d)


@named
def pickrange(x: Expression, s: int, e: int) -> Expression:
    """`pick_range` along dimension 0, under its older name.

    Args:
        x: any dims.
        s: the first index.
        e: the one after the last.
    Returns:
        The dims of `x` with ``e - s`` in dimension 0.
    Raises:
        DimError: the range is empty or out of bounds.
    Source: clab/dynet, ``python/_dynet.pyx``.
    Examples:
        >>> dy.pickrange(dy.ones((5, 2)), 1, 4).dim()
        ((3, 2), 1)
    """
    return pick_range(x, s, e)
