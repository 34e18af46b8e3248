"""Convolutions and pools as byte code."""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from dynetjax.core.dims import Shape
from dynetjax.engine.native.lowering.arrays import Array, NotCoveredError, Pieces, Value
from dynetjax.engine.native.lowering.bytecode import Code
from dynetjax.native import core

Values = list[Value]
Lowering = Callable[[Code, Any, Values], Values]
MOST_AXES = 6


def convolve(code: Code, equation: Any, operands: Values) -> Values:
    """A convolution of any number of axes."""
    params, result = equation.params, equation.outvars[0].aval
    numbers, groups = params["dimension_numbers"], params["feature_group_count"]
    a, b = [code.array(x) for x in operands]
    if a.kind != "f" or b.kind != "f":
        raise NotCoveredError("a convolution of ints")
    a, b = a.transposed(numbers.lhs_spec), b.transposed(numbers.rhs_spec)
    batch, channels, *whole = a.shape
    made, reads, *window = b.shape
    batch_groups = params["batch_group_count"]
    if batch_groups > 1:  # the batch has groups instead of the channels
        a = code.contiguous(a)
        a = _split(code, a, (batch_groups, batch // batch_groups, channels, *whole))
        a = a.transposed([1, 0, *range(2, len(a.shape))])
        batch, groups = batch // batch_groups, batch_groups
    out = [result.shape[k] for k in numbers.out_spec]
    sizes = batch, groups, reads, made // groups
    axes = _axes(
        whole,
        window,
        out[2:],
        params["window_strides"],
        params["padding"],
        params["lhs_dilation"],
        params["rhs_dilation"],
    )
    extra = code.pool.note(*sizes, len(window), *axes)
    d = code.temporary(tuple(out), "f")
    a, b = code.contiguous(a), code.contiguous(b)
    size = {"n": batch * prod(out[2:]), "m": reads * prod(window), "k": made}
    code.emit("CONVOLVE", d, a, b, **size, extra=extra)
    return [d.transposed(np.argsort(numbers.out_spec).tolist())]


def _split(code: Code, x: Array, shape: Shape) -> Array:
    reshaped = x.reshaped(shape)
    assert reshaped is not None
    return reshaped


def _axes(
    whole: Sequence[int],
    window: Sequence[int],
    made: Sequence[int],
    steps: Sequence[int],
    padding: Sequence[tuple[int, int]],
    apart: Sequence[int],
    spread: Sequence[int],
) -> list[int]:
    """See windows.h."""
    if len(whole) > MOST_AXES:
        raise NotCoveredError("windows of more than six axes")
    before = [low for low, _ in padding]
    columns = whole, window, made, steps, before, apart, spread
    return [int(x) for axis in zip(*columns, strict=True) for x in axis]


def _pool(kind: str) -> Lowering:
    def lower(code: Code, equation: Any, operands: Values) -> Values:
        params, x = equation.params, code.contiguous(operands[0])
        if x.kind != "f":
            raise NotCoveredError("a pool of ints")
        d = code.temporary(equation.outvars[0].aval.shape, "f")
        window = params["window_dimensions"]
        axes = _axes(
            x.shape,
            window,
            d.shape,
            params["window_strides"],
            params["padding"],
            params["base_dilation"],
            params["window_dilation"],
        )
        extra = code.pool.note(core.POOLS[kind], len(x.shape), *axes)
        return [code.emit("POOL", d, x, n=d.size, m=prod(window), extra=extra)]

    return lower


def back_to_the_chosen(code: Code, equation: Any, operands: Values) -> Values:
    """Where the first of the largest numbers of each window is, what it gets."""
    params = equation.params
    source, x = [code.contiguous(v) for v in operands]
    ones = [1] * len(x.shape)
    window = params["window_dimensions"]
    steps, padding = params["window_strides"], params["padding"]
    axes = _axes(x.shape, window, source.shape, steps, padding, ones, ones)
    kind = {"ge": "MAX", "le": "MIN"}.get(params["select_prim"].name)
    if kind is None:
        raise NotCoveredError("a choice in a window by something else")
    extra = code.pool.note(core.POOLS[kind], len(x.shape), *axes)
    d = code.array(Pieces(x.shape, "f", []))
    size = {"n": source.size, "m": prod(window), "extra": extra}
    code.emit("POOL_BACK", d, x, source, **size)
    code.made.pop(d.buffer, None)
    return [d]


LOWERINGS: dict[str, Lowering] = {
    "conv_general_dilated": convolve,
    "select_and_scatter_add": back_to_the_chosen,
    **{f"reduce_window_{kind.lower()}": _pool(kind) for kind in core.POOLS},
}
