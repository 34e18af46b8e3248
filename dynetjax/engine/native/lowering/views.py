"""Byte code of what moves numbers, or only says where they are: shapes and slices."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from math import prod
from typing import Any

import numpy as np

from dynetjax.core.dims import Shape
from dynetjax.engine.native.lowering.arrays import (
    Array,
    Lowering,
    Pieces,
    Value,
    Values,
    kind_of,
    side_by_side,
)
from dynetjax.engine.native.lowering.bytecode import Code


def _reshape(code: Code, equation: Any, operands: Values) -> Values:
    x, shape = operands[0], equation.outvars[0].aval.shape
    order = equation.params.get("dimensions")
    if equation.primitive.name == "reshape" and order is not None:
        x = code.array(x).transposed(order)
    if isinstance(x, Pieces):
        reshaped = _pieces_reshaped(x, shape)
        if reshaped is not None:
            return [reshaped]
    array = code.array(x)
    return [array.reshaped(shape) or _cast(code.contiguous(array), shape)]


def _cast(x: Array, shape: Shape) -> Array:
    return replace(x, shape=tuple(shape), strides=side_by_side(shape))


def _pieces_reshaped(x: Pieces, shape: Shape) -> Pieces | None:
    """Blocks of what differs in axes of size 1 only; None if more does."""
    old_axes = [k for k, n in enumerate(x.shape) if n != 1]
    new_axes = [k for k, n in enumerate(shape) if n != 1]
    if [x.shape[k] for k in old_axes] != [shape[k] for k in new_axes]:
        return None
    blocks = []
    for start, block in x.blocks:
        place, size = [0] * len(shape), [1] * len(shape)
        for k, j in zip(old_axes, new_axes, strict=True):
            place[j], size[j] = start[k], block.shape[k]
        other = block.reshaped(tuple(size))
        if other is None:
            return None
        blocks.append((tuple(place), other))
    return Pieces(tuple(shape), x.kind, blocks)


def _broadcast(code: Code, equation: Any, operands: Values) -> Values:
    params = equation.params
    x = code.array(operands[0])
    return [x.broadcast(params["shape"], params["broadcast_dimensions"])]


def _transpose(code: Code, equation: Any, operands: Values) -> Values:
    axes, x = equation.params["permutation"], operands[0]
    if isinstance(x, Pieces):
        blocks = [
            (tuple([s[k] for k in axes]), b.transposed(axes)) for s, b in x.blocks
        ]
        return [Pieces(tuple([x.shape[k] for k in axes]), x.kind, blocks)]
    return [x.transposed(axes)]


def _slice(code: Code, equation: Any, operands: Values) -> Values:
    params = equation.params
    starts, steps = params["start_indices"], params["strides"]
    shape = equation.outvars[0].aval.shape
    x = operands[0]
    if isinstance(x, Pieces) and steps is None:
        for start, block in x.blocks:  # of a concatenation, a part of one block
            inside = [s - t for s, t in zip(starts, start, strict=True)]
            fits = zip(inside, shape, block.shape, strict=True)
            if all(at >= 0 and at + n <= m for at, n, m in fits):
                return [block.part(inside, shape)]
    return [code.array(x).part(starts, shape, steps)]


def _reverse(code: Code, equation: Any, operands: Values) -> Values:
    x = code.array(operands[0])
    axes = equation.params["dimensions"]
    offset, strides = x.offset, [*x.strides]
    for k in axes:
        offset += (x.shape[k] - 1) * strides[k]
        strides[k] = -strides[k]
    turned = replace(x, offset=offset, strides=tuple(strides))
    return [code.copy(code.temporary(x.shape, x.kind), turned)]


def _split(code: Code, equation: Any, operands: Values) -> Values:
    axis, sizes = equation.params["axis"], equation.params["sizes"]
    x = operands[0]
    parts: Values = []
    ends = [*accumulate(map(int, sizes))]
    whole = None
    for end, var in zip(ends, equation.outvars, strict=True):
        shape = var.aval.shape
        start = [0] * len(shape)
        start[axis] = end - shape[axis]
        if isinstance(x, Pieces):
            same = [b for s, b in x.blocks if s == tuple(start) and b.shape == shape]
            if same:
                parts.append(same[0])
                continue
        if whole is None:
            whole = code.array(x)
        parts.append(whole.part(start, shape))
    return parts


def _unstack(code: Code, equation: Any, operands: Values) -> Values:
    axis, x = equation.params["axis"], code.array(operands[0])
    parts: Values = []
    for k, var in enumerate(equation.outvars):
        start, shape = [0] * len(x.shape), [*x.shape]
        start[axis], shape[axis] = k, 1
        part = x.part(start, tuple(shape))
        strides = part.strides[:axis] + part.strides[axis + 1 :]
        parts.append(replace(part, shape=tuple(var.aval.shape), strides=strides))
    return parts


def _concatenate(code: Code, equation: Any, operands: Values) -> Values:
    axis, result = equation.params["dimension"], equation.outvars[0].aval
    blocks, at = [], 0
    for x in operands:
        for start, block in (
            x.blocks if isinstance(x, Pieces) else [((0,) * len(result.shape), x)]
        ):
            place = [*start]
            place[axis] += at
            if block.size:
                blocks.append((tuple(place), block))
        at += x.shape[axis]
    return [Pieces(tuple(result.shape), kind_of(result), blocks)]


def _stack(code: Code, equation: Any, operands: Values) -> Values:
    axis, result = equation.params["axis"], equation.outvars[0].aval
    blocks = []
    for k, x in enumerate(operands):
        array = code.array(x)
        place = [0] * len(result.shape)
        place[axis] = k
        shape = (*array.shape[:axis], 1, *array.shape[axis:])
        strides = (*array.strides[:axis], 0, *array.strides[axis:])
        blocks.append((tuple(place), replace(array, shape=shape, strides=strides)))
    return [Pieces(tuple(result.shape), kind_of(result), blocks)]


def _pad(code: Code, equation: Any, operands: Values) -> Values:
    x, fill = operands[0], code.array(operands[1])
    return [padded(code, x, fill, equation.params["padding_config"])]


def padded(
    code: Code, x: Value, fill: Array, config: Sequence[tuple[int, int, int]]
) -> Value:
    """`x` with a number around it.

    Args:
        config: how often before and behind each axis, which may be less than 0, and
            between what it has.
    """
    plain = all(low >= 0 and high >= 0 and not between for low, high, between in config)
    lows = tuple([int(low) for low, _, _ in config])
    pairs = [*zip(x.shape, config, strict=True)]
    shape = tuple(
        [n + int(a) + int(b) + max(n - 1, 0) * int(c) for n, (a, b, c) in pairs]
    )
    number = code.pool.number(fill)
    if plain and number == 0 and not np.signbit(number):
        blocks = x.blocks if isinstance(x, Pieces) else [((0,) * len(lows), x)]
        moved = [
            (tuple([a + b for a, b in zip(s, lows, strict=True)]), block)
            for s, block in blocks
            if block.size
        ]
        return Pieces(shape, x.kind, moved)
    d = code.temporary(shape, x.kind)
    code.copy(d, fill.like(shape))
    array = code.array(x)
    starts, places, sizes, steps = [], [], [], []
    for n, (low, high, between) in pairs:
        step = int(between) + 1
        first = max(0, -(int(low) // step)) if low < 0 else 0
        room = (n - 1) * step + 1 + int(low) + int(high)  # of the result
        places.append(int(low) + first * step)
        starts.append(first)
        sizes.append(max(0, min(n - first, -(-(room - places[-1]) // step))))
        steps.append(step)
    if prod(sizes):
        block = array.part(starts, tuple(sizes))
        code.copy(d.part(places, tuple(sizes), steps), block)
    code.made.pop(d.buffer, None)
    return d


def _tile(code: Code, equation: Any, operands: Values) -> Values:
    """Copies side by side."""
    x, result = code.array(operands[0]), equation.outvars[0].aval
    reps = equation.params["reps"]
    shape = [n for pair in zip(reps, x.shape, strict=True) for n in pair]
    strides = [s for stride in x.strides for s in (0, stride)]
    repeated = replace(x, shape=tuple(shape), strides=tuple(strides))
    tiled = code.contiguous(repeated).reshaped(tuple(result.shape))
    assert tiled is not None
    return [tiled]


LOWERINGS: dict[str, Lowering] = {
    "broadcast_in_dim": _broadcast,
    "concatenate": _concatenate,
    "pad": _pad,
    "reshape": _reshape,
    "rev": _reverse,
    "slice": _slice,
    "split": _split,
    "squeeze": _reshape,
    "stack": _stack,
    "tile": _tile,
    "transpose": _transpose,
    "unstack": _unstack,
}
