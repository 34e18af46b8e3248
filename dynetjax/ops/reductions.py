"""Reductions of one expression: over its elements, a dimension, or the batch too."""

from functools import lru_cache
from typing import Any

from dynetjax.core.dims import Dim, DimError, Shape, trim
from dynetjax.core.errors import error_text
from dynetjax.core.expression import Expression
from dynetjax.core.lazy import jnp
from dynetjax.graph import ComputationGraph
from dynetjax.ops.arguments import axis_of, order_at_most, unsigned
from dynetjax.ops.arrays import listed
from dynetjax.ops.declare import in_pairs, op
from dynetjax.ops.largest import largest, log_of_sum
from dynetjax.ops.operands import graph_of
from dynetjax.ops.rows import sum_batches
from dynetjax.ops.shaping import without

__all__ = [
    "cumsum",
    "l2_norm",
    "logsumexp",
    "logsumexp_dim",
    "max_dim",
    "min_dim",
    "squared_norm",
    "sum_cols",
    "sum_dim",
    "sum_elems",
    "sum_rows",
]


def to_number(name: str, x: Dim, *static: Any) -> Shape:
    """One number per batch element."""
    del name, x, static
    return (1,)


@op(inputs="x", dim=to_number)
def sum_elems(x):
    """Sum of the elements.

        sum_i x_i

    Args:
        x: any dims.
    Returns:
        ``{1 X b}``.
    Source: clab/dynet, ``dynet/nodes-arith-sum.cc``.
    Examples:
        >>> x = dy.inputTensor([[1, 2], [3, 4]])
        >>> dy.sum_elems(x).value()
        10.0
    """
    return jnp.sum(x).reshape(1)


@op(inputs="x", dim=to_number)
def squared_norm(x):
    """Square of the Euclidean norm.

        sum_i x_i^2

    Args:
        x: any dims.
    Returns:
        ``{1 X b}``.
    Source: clab/dynet, ``dynet/nodes-norms.cc``.
    Examples:
        >>> dy.squared_norm(dy.inputVector([3, 4])).value()
        25.0
    """
    return jnp.sum(jnp.square(x)).reshape(1)


@op(inputs="x", dim=to_number)
def l2_norm(x):
    """Euclidean norm; its gradient is NaN where it is 0.

        sqrt(sum_i x_i^2)

    Args:
        x: any dims.
    Returns:
        ``{1 X b}``.
    Source: clab/dynet, ``dynet/nodes-norms.cc``.
    Examples:
        >>> print(dy.l2_norm(dy.inputVector([3, 4])).npvalue().round(3))
        [5.]
    """
    return jnp.sqrt(jnp.sum(jnp.square(x))).reshape(1)


def _axis(name, dims, d):
    return (axis_of(name, "d", d, dims[0]),), None, 1


def _axis_or_order(name, dims, d):
    axis = unsigned(name, "d", d)
    if axis != len(dims[0].shape):
        axis = axis_of(name, "d", axis, dims[0])
    return (axis,), None, 1


def _one_removed(name: str, x: Dim, d: int) -> Shape:
    del name
    return without(x.shape, d)


def _unchanged(name: str, x: Dim, d: int) -> Shape:
    del name, d
    return x.shape


@op(inputs="x", dim=_one_removed, accept=_axis)
def max_dim(x, d: int = 0):
    """Maximum over a dimension; the first one alone gets the gradient.

    Args:
        x: any dims.
        d: the dimension.
    Returns:
        The dims of `x` without `d`.
    Raises:
        DimError: `x` has no such dimension.
    Source: clab/dynet, ``dynet/nodes-minmax.cc``.
    Examples:
        >>> x = dy.inputTensor([[1, 5, 3], [4, 2, 6]])
        >>> dy.max_dim(x).value()
        [4.0, 5.0, 6.0]
        >>> dy.max_dim(x, 1).value()
        [5.0, 6.0]
    """
    return largest(x, d).reshape(without(x.shape, d))


@op(inputs="x", dim=_one_removed, accept=_axis)
def min_dim(x, d: int = 0):
    """Minimum over a dimension; the first one alone gets the gradient.

    Args:
        x: any dims.
        d: the dimension.
    Returns:
        The dims of `x` without `d`.
    Raises:
        DimError: `x` has no such dimension.
    Source: clab/dynet, ``dynet/nodes-minmax.cc``.
    Examples:
        >>> x = dy.inputTensor([[1, 5, 3], [4, 2, 6]])
        >>> dy.min_dim(x).value()
        [1.0, 2.0, 3.0]
        >>> dy.min_dim(x, 1).value()
        [1.0, 2.0]
    """
    return -largest(-x, d).reshape(without(x.shape, d))


@op(inputs="x", dim=_one_removed, accept=_axis)
def logsumexp_dim(x, d: int = 0):
    """Logarithm of the sum of exponentials over a dimension.

        log(sum_j exp(x_j))

    Args:
        x: any dims.
        d: the dimension.
    Returns:
        The dims of `x` without `d`.
    Raises:
        DimError: `x` has no such dimension.
    Source: clab/dynet, ``dynet/nodes-logsumexp.cc``.
    Examples:
        >>> x = dy.inputTensor(np.log([[1, 2], [3, 6]]))
        >>> print(np.exp(dy.logsumexp_dim(x).npvalue()).round(3))
        [4. 8.]
        >>> print(np.exp(dy.logsumexp_dim(x, 1).npvalue()).round(3))
        [3. 9.]
    """
    return log_of_sum(x, d).reshape(without(x.shape, d))


@op(inputs="x", dim=_unchanged, accept=_axis_or_order)
def cumsum(x, d: int = 0):
    """Running sum along a dimension, each element included in its own.

        y_i = x_0 + ... + x_i

    Args:
        x: any dims.
        d: the dimension; one past the last leaves `x` as it is.
    Returns:
        The dims of `x`.
    Raises:
        DimError: `d` is larger than the number of dimensions.
    Source: clab/dynet, ``dynet/nodes-cumulative.cc``.
    Examples:
        >>> dy.cumsum(dy.inputVector([1, 2, 3])).value()
        [1.0, 3.0, 6.0]
    """
    return x if d == x.ndim else jnp.cumsum(x, axis=d)


def _shape_of_first(name: str, *dims: Dim) -> Shape:
    shape = trim(dims[0].shape)
    if any(trim(dim.shape) != shape for dim in dims):
        raise DimError(
            error_text(
                f"{name}: the dims of the operands differ",
                got=", ".join(map(str, dims)),
                expected="the same dims everywhere",
                fix="reshape the operands",
            )
        )
    return shape


def _logsumexps(graph: ComputationGraph, operands: tuple[Any, ...]) -> tuple[Any, ...]:
    return in_pairs(graph, logsumexp.op, operands)


@op(inputs="*xs", dim=_shape_of_first, compose=_logsumexps)
def logsumexp(*xs):
    """Element-wise logarithm of the sum of the exponentials of a list.

        log(exp(x_1) + ... + exp(x_n))

    Args:
        xs: a list of expressions of the same dims, up to trailing ones.
    Returns:
        The dims of the first without trailing ones, and the largest batch.
    Raises:
        TypeError: `xs` is not a list of expressions.
        AssertionError: it is empty.
        DimError: the dims or batches do not fit.
    Source: clab/dynet, ``dynet/nodes-logsumexp.cc``.
    Examples:
        >>> xs = [dy.inputVector(np.log(v)) for v in ([1, 2], [3, 6])]
        >>> print(np.exp(dy.logsumexp(xs).npvalue()).round(3))
        [4. 8.]
    """
    shape = trim(xs[0].shape)
    return log_of_sum(jnp.stack([x.reshape(shape) for x in xs]), 0).reshape(shape)


def kept_shape(name: str, x: Dim, d: tuple[int, ...]) -> Shape:
    """``{r, c}`` -> ``{c}`` without dimension 0, and so on; ``{1}`` without any."""
    del name
    return tuple(n for axis, n in enumerate(x.shape) if axis not in d) or (1,)


def _axes(name, dims, d):
    del name, dims
    return (d,), None, 1


@op(inputs="x", dim=kept_shape, accept=_axes)
def sum_over(x, d: tuple[int, ...]):
    """Sum over the dimensions `d`, a tuple of them, in each batch element.

    Args:
        x: any dims.
        d: the dimensions.
    Returns:
        The dims of `x` without those in `d`, or ``{1 X b}``.
    Source: clab/dynet, ``dynet/nodes-arith-sum.cc``.
    """
    total = jnp.sum(x, axis=d)
    return total.reshape(total.shape or (1,))


def summed_dims(name: str, x: Expression, d: Any, b: bool) -> tuple[int, ...]:
    """The dimensions in `d`, checked.

    Raises:
        TypeError: `d` is not a list.
        DimError: `d` is empty without `b`, repeats itself, or names more than two
            dimensions or one that `x` has not; or `x` has more than three.
    """
    graph_of(name, x)
    d = listed(d)
    if not isinstance(d, list):
        raise TypeError(
            error_text(
                f"{name}: d is not a list",
                got=f"{d!r} ({type(d).__name__})",
                expected="a list of dimensions",
                fix="[d]",
            )
        )
    key = name, x.full_dim, tuple(d), bool(b)
    try:
        return _checked_axes(*key)
    except TypeError:  # of a list in the list, which the cache would not name
        return _checked_axes.__wrapped__(*key)


@lru_cache(maxsize=1 << 10)
def _checked_axes(name: str, x: Dim, d: tuple[Any, ...], b: bool) -> tuple[int, ...]:
    order_at_most(name, x, 3)
    axes = tuple([axis_of(name, "d", axis, x) for axis in d])
    if len(set(axes)) < len(axes) or len(axes) > 2 or not (axes or b):
        raise DimError(
            error_text(
                f"{name}: d is empty, repeats itself, or has more than two dimensions",
                got=list(d),
                expected="one or two different dimensions; none only with b=True",
                fix="name each dimension once; sum_elems sums over all",
            )
        )
    return axes


def total(x: Expression, axes: tuple[int, ...], b: bool) -> Expression:
    """The sum of `x` over dimensions, and over the batch if `b`."""
    per_element = sum_over(x, axes) if axes else x
    return sum_batches(per_element) if b else per_element


def sum_dim(x: Expression, d: list[int], b: bool = False, n: int = 0) -> Expression:
    """Sum over dimensions, and over the batch too if `b`.

    Args:
        x: any dims.
        d: a list of dimensions.
        b: sum over the batch too.
        n: without effect, as in DyNet.
    Returns:
        The dims of `x` without those in `d`, or ``{1}``.
    Raises:
        TypeError: `d` is not a list.
        DimError: `d` is empty without `b`, repeats itself, or names more than two
            dimensions or one that `x` has not; or `x` has more than three.
    Source: clab/dynet, ``dynet/nodes-arith-sum.cc``.
    Examples:
        >>> x = dy.inputTensor([[1, 2, 3], [4, 5, 6]], batched=True)
        >>> dy.sum_dim(x, [0]).value()
        [5.0, 7.0, 9.0]
        >>> dy.sum_dim(x, [], b=True).value()
        [6.0, 15.0]
        >>> dy.sum_dim(x, [0], b=True).value()
        21.0
    """
    del n
    return total(x, summed_dims("sum_dim", x, d, b), b)


def sum_rows(x: Expression) -> Expression:
    """Sum of the rows.

        sum_i x_ij

    Args:
        x: any dims.
    Returns:
        The dims of `x` without the first, or ``{1 X b}``.
    Raises:
        DimError: `x` has more than three dimensions.
    Source: clab/dynet, ``dynet/expr.cc``; Python's DyNet has it as ``sum_dim(x, [0])``.
    Examples:
        >>> x = dy.inputTensor([[1, 2, 3], [4, 5, 6]])
        >>> dy.sum_rows(x).value()
        [5.0, 7.0, 9.0]
    """
    return total(x, summed_dims("sum_rows", x, [0], False), False)


def sum_cols(x: Expression) -> Expression:
    """Sum of the columns.

        sum_j x_ij

    Args:
        x: two dimensions or three.
    Returns:
        The dims of `x` without the second.
    Raises:
        DimError: `x` has one dimension, or more than three.
    Source: clab/dynet, ``dynet/expr.cc``; Python's DyNet has it as ``sum_dim(x, [1])``.
    Examples:
        >>> x = dy.inputTensor([[1, 2, 3], [4, 5, 6]])
        >>> dy.sum_cols(x).value()
        [6.0, 15.0]
    """
    return total(x, summed_dims("sum_cols", x, [1], False), False)
