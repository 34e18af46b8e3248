"""Convolutions: filters laid over an image or a sentence, without flipping them.

The windows of the operand are put side by side as the rows of a matrix, so that a
convolution is one matrix product, forward and backward. On a CPU that is about as fast
as `lax.conv_general_dilated`; and where filters are as high as the image, as those over
sentences are, its backward is a hundred times faster.
"""

from collections.abc import Sequence
from typing import Any

from dynetjax.core.dims import Dim, DimError, Shape, pad
from dynetjax.core.errors import error_text
from dynetjax.core.lazy import jnp, lax
from dynetjax.core.precision import PRECISION
from dynetjax.ops.arguments import MAX_UNSIGNED, indices_below, misfit
from dynetjax.ops.declare import op

__all__ = ["conv2d", "conv2d_bias", "filter1d_narrow"]

Pair = tuple[int, int]


def two_sizes(name: str, argument: str, values: Any) -> Pair:
    """`values` as ``(rows, columns)``, each at least 1.

    Raises:
        TypeError: `values` is not a sequence of numbers.
        ValueError: there are not two of them, or one is 0.
        OverflowError: one is negative.
    """
    sizes = indices_below(name, argument, values, MAX_UNSIGNED + 1)
    if len(sizes) != 2 or 0 in sizes:
        raise ValueError(
            error_text(
                f"{name}: {argument} is not two numbers from 1 on",
                got=values,
                expected="[rows, columns]",
                fix="pass one number for each dimension, [1, 1] say",
            )
        )
    return sizes[0], sizes[1]


def window_counts(
    name: str, x: Dim, sizes: Shape, stride: Pair, is_valid: bool
) -> Shape:
    """How many windows there are, down and across.

    Raises:
        DimError: windows must lie inside `x`, and one is larger than it.
    """
    counts = []
    for n, size, step in zip(x.shape[:2], sizes, stride, strict=True):
        if is_valid and size > n:
            raise DimError(
                error_text(
                    f"{name}: a window is larger than x",
                    got=f"{sizes[0]} by {sizes[1]}, x = {x}",
                    expected=f"at most {x.shape[0]} by {x.shape[1]}",
                    fix="pad x, or pass is_valid=False",
                )
            )
        starts = n - size + 1 if is_valid else n
        counts.append(-(-starts // step))
    return tuple(counts)


def margins(n: int, size: int, stride: int) -> Pair:
    """Numbers to add before and after `n` of them, so that all are in windows."""
    count = -(-n // stride)
    missing = max((count - 1) * stride + size - n, 0)
    return missing // 2, missing - missing // 2


def _windows(x, axis: int, size: int, stride: int):
    """Windows along `axis`, which becomes two: which window, and where in it."""
    starts = range(0, x.shape[axis] - size + 1, stride)
    if len(starts) <= size:
        parts = [lax.slice_in_dim(x, s, s + size, axis=axis) for s in starts]
        return jnp.stack(parts, axis)
    reach = starts[-1] + 1
    parts = [lax.slice_in_dim(x, k, k + reach, stride, axis) for k in range(size)]
    return jnp.stack(parts, axis + 1)


def _correlate(x, f, stride: Sequence[int], is_valid: bool):
    """``{H,W,C}`` and ``{FH,FW,C,O}`` to ``{YH,YW,O}``."""
    if not is_valid:
        around = [margins(x.shape[a], f.shape[a], stride[a]) for a in (0, 1)]
        x = jnp.pad(x, [*around, (0, 0)])
    rows = _windows(x, 0, f.shape[0], stride[0]).transpose(0, 2, 1, 3)
    patches = _windows(rows, 1, f.shape[1], stride[1])
    down, across = patches.shape[:2]
    weights = f.transpose(1, 0, 2, 3).reshape(-1, f.shape[3])
    patches = patches.reshape(down, across, -1)
    return jnp.dot(patches, weights, precision=PRECISION.of_products)


def _stride_and_padding(name, dims, stride, is_valid):
    del dims
    return (two_sizes(name, "stride", stride), bool(is_valid)), None, 1


def _filtered(name: str, x: Dim, f: Dim, stride: Pair, is_valid: bool) -> Shape:
    """``{YH,YW,O}``, whatever the order of `x`."""
    image = pad(x.shape, 3)
    if len(x.shape) not in (2, 3) or len(f.shape) != 4 or image[2] != f.shape[2]:
        raise misfit(
            name,
            [x, f],
            "x of {H,W} or {H,W,C}, and f of {FH,FW,C,O}; C is 1 for {H,W}",
            "reshape x, or give f as many input channels as x has",
        )
    windows = window_counts(name, x, f.shape[:2], stride, is_valid)
    return (*windows, f.shape[3])


@op(inputs="x f", dim=_filtered, accept=_stride_and_padding, contraction=True)
def conv2d(x, f, stride: Sequence[int], is_valid: bool = True):
    """Two-dimensional convolution, as neural networks have it: a cross-correlation.

        y_abo = sum_ijc x_(s a + i)(t b + j)c f_ijco,  [s, t] = stride

    Args:
        x: an image ``{H,W,C X b}``, or ``{H,W X b}`` of one channel.
        f: filters, ``{FH,FW,C,O}``.
        stride: a list of two steps, down and across. It is part of the program.
        is_valid: windows lie inside `x`; if not, zeros around `x` make room for one
            at every step, the odd one below and to the right.
    Returns:
        ``{YH,YW,O X b}``: ``ceil((H - FH + 1) / s)`` windows down if `is_valid`, else
        ``ceil(H / s)``; across likewise.
    Raises:
        DimError: the dims do not fit, or f is larger than x and `is_valid`.
        TypeError: `stride` is not a sequence of numbers.
        ValueError: there are not two of them, or one is 0.
        OverflowError: one is negative.
    Source: clab/dynet, ``dynet/nodes-conv2d.cc``.
    Examples:
        >>> x = dy.inputTensor([[1, 2, 3], [4, 5, 6], [7, 8, 9]])
        >>> sums = dy.ones((2, 2, 1, 1))
        >>> print(dy.conv2d(x, sums, [1, 1]).npvalue()[:, :, 0])
        [[12. 16.]
         [24. 28.]]
        >>> dy.conv2d(x, sums, [1, 1], is_valid=False).dim()
        ((3, 3, 1), 1)
    """
    return _correlate(x.reshape(pad(x.shape, 3)), f, stride, is_valid)


def _filtered_with_bias(name: str, x: Dim, f: Dim, b: Dim, *static) -> Shape:
    shape = _filtered(name, x, f, *static)
    if b.shape != shape[2:]:
        raise misfit(
            name,
            [x, f, b],
            f"a bias of {{{shape[2]}}}, one number per output channel",
            "reshape b to a vector of as many numbers as f has filters",
        )
    return shape


@op(
    inputs="x f b",
    dim=_filtered_with_bias,
    accept=_stride_and_padding,
    contraction=True,
)
def conv2d_bias(x, f, b, stride: Sequence[int], is_valid: bool = True):
    """`conv2d`, and a bias for each output channel.

        y_abo = sum_ijc x_(s a + i)(t b + j)c f_ijco + b_o,  [s, t] = stride

    Args:
        x: an image ``{H,W,C X b}``, or ``{H,W X b}`` of one channel.
        f: filters, ``{FH,FW,C,O}``.
        b: the bias, ``{O}``.
        stride: a list of two steps, down and across. It is part of the program.
        is_valid: windows lie inside `x`; if not, zeros around `x` make room for one
            at every step, the odd one below and to the right.
    Returns:
        ``{YH,YW,O X b}``, as of `conv2d`.
    Raises:
        DimError: the dims do not fit, or f is larger than x and `is_valid`.
        TypeError: `stride` is not a sequence of numbers.
        ValueError: there are not two of them, or one is 0.
        OverflowError: one is negative.
    Source: clab/dynet, ``dynet/nodes-conv2d.cc``.
    Examples:
        >>> x, f = dy.ones((2, 2)), dy.ones((2, 2, 1, 3))
        >>> b = dy.inputVector([0, 10, 20])
        >>> print(dy.conv2d_bias(x, f, b, [1, 1]).npvalue())
        [[[ 4. 14. 24.]]]
    """
    return _correlate(x.reshape(pad(x.shape, 3)), f, stride, is_valid) + b


def _narrowed(name: str, x: Dim, y: Dim) -> Shape:
    rows, width, filters, *more = pad(y.shape, 3)
    if len(x.shape) != 2 or more or rows != x.shape[0] or width > x.shape[1]:
        raise misfit(
            name,
            [x, y],
            "x of {d,n}, and y of {d,k} or {d,k,F} with k <= n",
            "give y the rows of x, and x at least as many columns as y",
        )
    return (filters, x.shape[1] - width + 1)


@op(inputs="x y", dim=_narrowed, contraction=True)
def filter1d_narrow(x, y):
    """Filters as high as the matrix, laid over its columns.

        z_fj = sum_it x_i(j + t) y_itf

    Args:
        x: a matrix ``{d,n X b}``.
        y: one filter ``{d,k}``, or F of them ``{d,k,F}``.
    Returns:
        ``{F,n - k + 1 X b}``.
    Raises:
        DimError: the dims do not fit, or y has more columns than x.
    Source: clab/dynet, ``dynet/nodes-conv.cc``.
    Examples:
        >>> x = dy.inputTensor([[1, 2, 3], [4, 5, 6]])
        >>> print(dy.filter1d_narrow(x, dy.ones((2, 2))).npvalue())
        [[12. 16.]]
        >>> dy.filter1d_narrow(x, dy.ones((2, 2, 5))).dim()
        ((5, 2), 1)
    """
    filters = y.reshape(pad(y.shape, 3))
    result = _correlate(x[:, :, None], filters[:, :, None], (1, 1), True)
    return result[0].T
