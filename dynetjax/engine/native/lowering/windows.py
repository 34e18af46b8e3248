"""Convolutions and pools as byte code: windows are views, put side by side."""

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from dynetjax.core.dims import Shape
from dynetjax.engine.native.lowering.arrays import (
    Array,
    Lowering,
    NotCoveredError,
    Values,
    side_by_side,
)
from dynetjax.engine.native.lowering.bytecode import Code
from dynetjax.engine.native.lowering.gathers import By, gathered, of_numbers, scatter
from dynetjax.engine.native.lowering.products import product
from dynetjax.engine.native.lowering.views import padded


def _windows(
    x: Array, made: Shape, window: Shape, steps: Sequence[int], spread: Sequence[int]
) -> Array:
    """Windows over the last axes of `x`, ``[..., *made, *window]``.

    Args:
        made: how many there are along each axis.
        steps: from one to the next.
        spread: from one number of a window to the next.
    """
    first = len(x.shape) - len(window)
    apart = x.strides[first:]
    moves = [s * step for s, step in zip(apart, steps, strict=True)]
    inside = [s * step for s, step in zip(apart, spread, strict=True)]
    shape = (*x.shape[:first], *made, *window)
    return replace(x, shape=shape, strides=(*x.strides[:first], *moves, *inside))


def _around(
    code: Code,
    x: Array,
    number: float | np.float32,
    padding: Sequence[tuple[int, int]],
    apart: Sequence[int] = (),
) -> Array:
    """`x` with a number around its last axes, and between what these have."""
    pairs = zip(padding, apart or [1] * len(padding), strict=True)
    config = [(0, 0, 0)] * (len(x.shape) - len(padding))
    config += [(low, high, by - 1) for (low, high), by in pairs]
    if not any(map(any, config)):
        return x
    fill = code.pool.constant(np.array(number, np.float32))
    return code.array(padded(code, x, fill, config))


def _convolve(code: Code, equation: Any, operands: Values) -> Values:
    """A convolution of any number of axes, as a product for each group."""
    params, result = equation.params, equation.outvars[0].aval
    numbers, groups = params["dimension_numbers"], params["feature_group_count"]
    a, b = [code.array(x) for x in operands]
    if a.kind != "f" or b.kind != "f":
        raise NotCoveredError("a convolution of ints")
    a, b = a.transposed(numbers.lhs_spec), b.transposed(numbers.rhs_spec)
    made = tuple([result.shape[k] for k in numbers.out_spec])
    makes, reads, *window = b.shape
    steps, spread = params["window_strides"], params["rhs_dilation"]
    a = _around(code, a, 0, params["padding"], params["lhs_dilation"])
    views = _windows(a, made[2:], tuple(window), steps, spread)
    lines = params["batch_group_count"]
    batch = a.shape[0] // lines
    # the channels have groups, or the batch has
    axes = (lines, batch, groups, reads, *views.shape[2:])
    strides = views.strides
    far = batch * strides[0], strides[0], reads * strides[1], strides[1]
    views = replace(views, shape=axes, strides=(*far, *strides[2:]))
    count = len(window)
    last = [*range(4 + count, 4 + 2 * count)], [*range(4, 4 + count)]
    views = code.contiguous(views.transposed([0, 2, 3, *last[0], 1, *last[1]]))
    rows = _cast(views, (lines * groups, reads * prod(window), -1))
    filters = _cast(code.contiguous(b), (lines * groups, -1, reads * prod(window)))
    found = _cast(product(code, filters, rows), (makes, batch, *made[2:]))
    found = found.transposed([1, 0, *range(2, 2 + count)])
    return [found.transposed(np.argsort(numbers.out_spec).tolist())]


def _cast(x: Array, shape: Sequence[int]) -> Array:
    """What lies side by side in another shape, of which one size may be -1."""
    sizes = tuple([x.size // -prod(shape) if n < 0 else n for n in shape])
    return replace(x, shape=sizes, strides=side_by_side(sizes))


def _pool(op: str, none: float) -> Lowering:
    def lower(code: Code, equation: Any, operands: Values) -> Values:
        params, made = equation.params, equation.outvars[0].aval.shape
        x, window = code.array(operands[0]), tuple(params["window_dimensions"])
        if x.kind != "f":
            raise NotCoveredError("a pool of ints")
        x = _around(code, x, none, params["padding"], params["base_dilation"])
        steps, spread = params["window_strides"], params["window_dilation"]
        views = code.contiguous(_windows(x, made, window, steps, spread))
        d = code.temporary(made, "f")
        return [code.emit(op, d, views, n=d.size, m=prod(window), k=1)]

    return lower


def _back_to_the_chosen(code: Code, equation: Any, operands: Values) -> Values:
    """Where the first of the largest numbers of each window is, what it gets."""
    params = equation.params
    source, x = code.contiguous(operands[0]), code.array(operands[1])
    shape, padding = x.shape, params["padding"]
    chosen = _CHOICES.get(params["select_prim"].name)
    if chosen is None:
        raise NotCoveredError("a choice in a window by something else")
    op, nearer, none = chosen
    if any(map(any, padding)):  # what is around is not chosen, for it is infinite
        bound = code.pool.constant(np.sign(none) * _LARGEST).like(shape)
        x = code.map(nearer, "f", shape, x, bound)
    window, steps = tuple(params["window_dimensions"]), params["window_strides"]
    x = code.contiguous(_around(code, x, none, padding))
    views = _windows(x, source.shape, window, steps, [1] * len(window))
    count, size = source.size, prod(window)
    which = code.temporary((count, 1), "i")
    code.emit(op, which, code.contiguous(views), n=count, m=size, k=1)
    every = np.arange(x.size, dtype=np.int32).reshape(x.shape)
    ends = zip(source.shape, steps, strict=True)
    begin = every[tuple([slice(0, n * step, step) for n, step in ends])]
    inside = every[tuple([slice(n) for n in window])]
    first, offsets = [code.pool.constant(a.reshape(-1)) for a in (begin, inside)]
    offset = gathered(code, offsets, which, of_numbers(size))
    places = code.contiguous(code.map("ADD_I", "i", (count,), first, offset))
    d = code.temporary((x.size,), "f")
    code.copy(d, code.pool.constant(np.zeros(d.shape, np.float32)))
    where = _cast(places, (count, 1))
    scatter(code, d, source, where, of_numbers(x.size), By("ADD"))
    return [_cast(d, x.shape).part([low for low, _ in padding], shape)]


_LARGEST = np.finfo(np.float32).max
# By primitive: what finds the number, what keeps numbers finite, what is around them.
_CHOICES = {
    "ge": ("ARGMAX", "MAX", -np.float32(np.inf)),
    "le": ("ARGMIN", "MIN", np.float32(np.inf)),
}

LOWERINGS: dict[str, Lowering] = {
    "conv_general_dilated": _convolve,
    "reduce_window_max": _pool("LARGEST", -np.inf),
    "reduce_window_min": _pool("LEAST", np.inf),
    "reduce_window_sum": _pool("SUM", 0),
    "select_and_scatter_add": _back_to_the_chosen,
}
