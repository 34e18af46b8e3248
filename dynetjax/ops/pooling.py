"""Pooling: the largest numbers, or sums, of neighbours.

Of equal numbers, the first is the largest: it alone gets the gradient.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from dynetjax.core.dims import Dim, DimError, Shape, pad
from dynetjax.core.errors import error_text
from dynetjax.core.lazy import jnp, lax
from dynetjax.ops.arguments import axis_of, order_at_most, unsigned
from dynetjax.ops.convolution import Pair, margins, two_sizes, window_counts
from dynetjax.ops.declare import op
from dynetjax.ops.largest import largest

__all__ = ["fold_rows", "kmax_pooling", "kmh_ngram", "maxpooling2d"]

WHOLE = 0  # as a size of windows: that of the axis, whatever it is


def _in_windows(x, axis: int, size: int, join: Callable[..., Any]):
    """All windows along `axis`, joined into one each, from halves of windows."""
    if size == 1:
        return x
    half, n = size // 2, x.shape[axis]
    part = partial(lax.slice_in_dim, axis=axis)
    halves = _in_windows(x, axis, half, join)
    joined = join(part(halves, 0, n - 2 * half + 1), part(halves, half, n - half + 1))
    if size % 2:
        joined = join(part(joined, 0, n - size + 1), part(x, size - 1, n))
    return joined


def _larger(first, second):
    """The larger of two, or NaN; the first if they are equal."""
    return jnp.where((second > first) | jnp.isnan(second), second, first)


def _pooled(x, axis: int, size: int, stride: int, is_valid: bool):
    """The largest of each window along one axis."""
    if not is_valid:
        around = [(0, 0)] * x.ndim
        around[axis] = margins(x.shape[axis], size, stride)
        x = jnp.pad(x, around, constant_values=-jnp.inf)
    every = _in_windows(x, axis, size, _larger)
    return lax.slice_in_dim(every, 0, every.shape[axis], stride, axis)


def _window(name, dims, ksize, stride, is_valid):
    """Sizes and steps; windows as large as `x` are so whatever its size is."""
    if len(dims[0].shape) not in (2, 3):
        raise DimError(
            error_text(
                f"{name}: x is not an image",
                got=dims[0],
                expected="{H,W} or {H,W,C}",
                fix="reshape x",
            )
        )
    sizes = list(two_sizes(name, "ksize", ksize))
    steps = list(two_sizes(name, "stride", stride))
    for axis in (0, 1):
        if is_valid and sizes[axis] == dims[0].shape[axis]:
            sizes[axis], steps[axis] = WHOLE, 1
    return (tuple(sizes), tuple(steps), bool(is_valid)), None, 1


def _pooled_shape(
    name: str, x: Dim, ksize: Pair, stride: Pair, is_valid: bool
) -> Shape:
    sizes = ksize[0] or x.shape[0], ksize[1] or x.shape[1]
    return (*window_counts(name, x, sizes, stride, is_valid), *x.shape[2:])


@op(inputs="x", dim=_pooled_shape, accept=_window)
def maxpooling2d(x, ksize: Sequence[int], stride: Sequence[int], is_valid: bool = True):
    """The largest number in each window of an image.

        y_ab = max_ij x_(s a + i)(t b + j),  [s, t] = stride

    Args:
        x: ``{H,W X b}``, or ``{H,W,C X b}`` of channels that are pooled one by one.
        ksize: a list of the two sizes of a window, its rows and columns.
        stride: a list of two steps, down and across. Both are part of the program,
            but a window as large as `x` is no other where `x` has another size.
        is_valid: windows lie inside `x`; if not, there is one at every step, and what
            of it is outside does not count.
    Returns:
        As many dimensions as `x`: ``ceil((H - rows + 1) / s)`` windows down if
        `is_valid`, else ``ceil(H / s)``; across likewise. Of equal numbers, the first
        gets the gradient, in the first row that has one.
    Raises:
        DimError: `x` is not an image, or a window is larger and `is_valid`.
        TypeError: `ksize` or `stride` is not a sequence of numbers.
        ValueError: there are not two of them, or one is 0.
        OverflowError: one is negative.
    Source: clab/dynet, ``dynet/nodes-maxpooling2d.cc``.
    Examples:
        >>> x = dy.inputTensor([[1, 2, 3, 4], [5, 6, 7, 8]])
        >>> print(dy.maxpooling2d(x, [2, 2], [1, 2]).npvalue())
        [[6. 8.]]
    """
    for axis in (1, 0):  # columns first, so that the first row has the first of equals
        if ksize[axis] == WHOLE:
            x = largest(x, axis)
        else:
            x = _pooled(x, axis, ksize[axis], stride[axis], is_valid)
    return x


def _from_one_to(name: str, argument: str, value, size: int) -> int:
    """`value` as an int of ``1 <= value <= size``."""
    number = unsigned(name, argument, value)
    if not 1 <= number <= size:
        raise ValueError(
            error_text(
                f"{name}: {argument} is out of range",
                got=number,
                expected=f"1 <= {argument} <= {size}, the size of the dimension",
                fix=f"choose a smaller {argument}, or pad x",
            )
        )
    return number


def _k_and_axis(name, dims, k, d):
    axis = axis_of(name, "d", d, dims[0])
    return (_from_one_to(name, "k", k, dims[0].shape[axis]), axis), None, 1


def _k_of_axis(name: str, x: Dim, k: int, d: int) -> Shape:
    del name
    return (*x.shape[:d], k, *x.shape[d + 1 :])


@op(inputs="x", dim=_k_of_axis, accept=_k_and_axis)
def kmax_pooling(x, k: int, d: int = 1):
    """The k largest numbers along a dimension, in the order in which they stand.

    Args:
        x: any dims.
        k: how many; of equal numbers, the earlier ones. It is part of the program.
        d: the dimension.
    Returns:
        The dims of `x` with `k` in dimension `d`.
    Raises:
        DimError: `x` has no such dimension.
        ValueError: `k` is 0, or larger than the dimension.
        OverflowError: `k` or `d` is negative.
    Source: clab/dynet, ``dynet/nodes-conv.cc``.
    Examples:
        >>> print(dy.kmax_pooling(dy.inputTensor([[5, 1, 9, 2]]), 2).npvalue())
        [[5. 9.]]
    """
    lines = jnp.moveaxis(x, d, -1)
    _, largest = lax.top_k(lax.stop_gradient(lines), k)  # the earlier of equals
    chosen = jnp.take_along_axis(lines, jnp.sort(largest, axis=-1), axis=-1)
    return jnp.moveaxis(chosen, -1, d)


def _row_count(name, dims, nrows):
    del dims
    return (unsigned(name, "nrows", nrows),), None, 1


def _folded(name: str, x: Dim, nrows: int) -> Shape:
    order_at_most(name, x, 2)
    rows, columns = pad(x.shape, 2)
    if not nrows or rows % nrows:
        raise DimError(
            error_text(
                f"{name}: the rows of x are no multiple of nrows",
                got=f"nrows = {nrows}, x = {x}",
                expected="groups of nrows rows and no rest",
                fix="choose a divisor of the rows of x",
            )
        )
    return (rows // nrows, columns)


@op(inputs="x", dim=_folded, accept=_row_count)
def fold_rows(x, nrows: int = 2):
    """Sums of groups of rows that follow one another.

        y_ij = x_(n i)j + ... + x_(n i + n - 1)j,  n = nrows

    Args:
        x: a matrix ``{m,n X b}``; ``{m}`` is ``{m,1}``.
        nrows: rows per group, a divisor of m. It is part of the program.
    Returns:
        ``{m / nrows,n X b}``.
    Raises:
        DimError: `nrows` does not divide m, or `x` has more than two dimensions.
        OverflowError: `nrows` is negative.
    Source: clab/dynet, ``dynet/nodes-conv.cc``.
    Examples:
        >>> x = dy.inputTensor([[1, 2], [3, 4], [5, 6], [7, 8]])
        >>> print(dy.fold_rows(x).npvalue())
        [[ 4.  6.]
         [12. 14.]]
    """
    columns = pad(x.shape, 2)[1]
    return jnp.sum(x.reshape(-1, nrows, columns), axis=1)


def _columns_per_sum(name, dims, v):
    if len(dims[0].shape) != 2:
        raise DimError(
            error_text(
                f"{name}: x is not a matrix",
                got=dims[0],
                expected="{a,n}",
                fix="reshape x to a matrix",
            )
        )
    return (_from_one_to(name, "v", v, dims[0].shape[1]),), None, 1


def _summed(name: str, x: Dim, v: int) -> Shape:
    del name
    return (x.shape[0], x.shape[1] - v + 1)


@op(inputs="x", dim=_summed, accept=_columns_per_sum)
def kmh_ngram(x, v: int):
    """Sums of `v` columns that follow one another, at every column.

        y_ij = x_ij + ... + x_i(j + v - 1)

    Args:
        x: a matrix ``{a,n X b}``.
        v: columns per sum. It is part of the program.
    Returns:
        ``{a,n - v + 1 X b}``.
    Raises:
        DimError: `x` is not a matrix.
        ValueError: `v` is 0, or more than the columns of x.
        OverflowError: `v` is negative.
    Source: clab/dynet, ``dynet/nodes-conv.cc``.
    Examples:
        >>> print(dy.kmh_ngram(dy.inputTensor([[1, 2, 3, 4]]), 2).npvalue())
        [[3. 5. 7.]]
    """
    return _in_windows(x, 1, v, lax.add)
