"""Gathers and scatters as byte code: blocks, or numbers, at places that are data."""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from dynetjax.engine.native.lowering.arrays import (
    Array,
    NotCoveredError,
    Value,
    side_by_side,
)
from dynetjax.engine.native.lowering.bytecode import Code, Scattered
from dynetjax.native import core

Values = list[Value]


def _gather(code: Code, equation: Any, operands: Values) -> Values:
    """Of the first operand, what is at the places that the second names.

    Single numbers of the last axis, for each place of the axes before it, have an
    instruction of their own.
    """
    params = equation.params
    x, places = [code.array(v) for v in operands]
    numbers = params["dimension_numbers"]
    lines = (
        tuple(numbers.operand_batching_dims),
        tuple(numbers.start_indices_batching_dims),
    )
    single = all(n == 1 for n in params["slice_sizes"]) and not numbers.offset_dims
    if not single or not _along_lines(x, places, numbers.collapsed_slice_dims, lines):
        return _gather_blocks(code, equation, operands)
    which = code.contiguous(places.reshaped(places.shape[:-1]) or places)
    room, fill = x.shape[-1], params["fill_value"]
    if "FILL" not in str(params["mode"]):
        which = _clamped(code, which, room)
    elif x.kind != "f" or not (fill is None or np.isnan(fill)):
        return _gather_blocks(code, equation, operands)
    outer = x.size // room
    d = code.temporary(equation.outvars[0].aval.shape, x.kind)
    x, count = code.contiguous(x), d.size // outer
    return [code.emit("TAKE", d, x, which, n=outer, m=count, k=room)]


def _scatter_add(code: Code, equation: Any, operands: Values) -> Values:
    """The first operand with the third added, at places that the second names.

    Single numbers of the last axis have their own instruction; else it is `_scatter`.
    """
    params = equation.params
    x, places, updates = [code.array(v) for v in operands]
    numbers = params["dimension_numbers"]
    lines = (
        tuple(numbers.operand_batching_dims),
        tuple(numbers.scatter_indices_batching_dims),
    )
    along = _along_lines(x, places, numbers.inserted_window_dims, lines)
    alone = code.pool.number(x) == 0  # it may be the gradient of an operand
    if numbers.update_window_dims or x.kind != "f" or not along or alone:
        return _scatter(code, equation, operands)
    which = code.contiguous(places.reshaped(places.shape[:-1]) or places)
    room = x.shape[-1]
    if "CLIP" in str(params["mode"]):
        which = _clamped(code, which, room)
    d = code.copy(code.temporary(x.shape, "f"), x)
    outer = x.size // room
    updates = code.contiguous(updates)
    count = updates.size // outer
    code.emit("ADD_AT", d, which, updates, n=outer, m=count, k=room)
    code.made.pop(d.buffer, None)
    return [d]


def _along_lines(x: Array, places: Array, dropped: Any, lines: tuple) -> bool:
    """Whether each place is one of the last axis, and all others go side by side."""
    last = len(x.shape) - 1
    every = tuple(range(last))
    return (
        tuple(dropped) == (last,)
        and lines == (every, every)
        and places.shape[-1] == 1
        and places.kind in "iu"
        and (last == 0 or len(places.shape) == last + 2)
    )


def _clamped(code: Code, places: Array, room: int) -> Array:
    low, high = [
        code.pool.constant(np.full(places.shape, n, np.int32)) for n in (0, room - 1)
    ]
    raised = code.map("MAX_I", "i", places.shape, places, low)
    return code.map("MIN_I", "i", places.shape, raised, high)


def _gather_blocks(code: Code, equation: Any, operands: Values) -> Values:
    """Blocks of the first operand, at the places that the second names."""
    params = equation.params
    numbers, sizes = params["dimension_numbers"], params["slice_sizes"]
    x, places = [code.array(v) for v in operands]
    lines = numbers.operand_batching_dims, numbers.start_indices_batching_dims
    axes = [*numbers.start_index_map, *lines[0]]
    dropped = {*numbers.collapsed_slice_dims, *lines[0]}
    kept = [k for k in range(len(x.shape)) if k not in dropped]
    block = [sizes[k] for k in kept]
    where = _all_places(code, places, lines[1])
    extra = note_blocks(
        code, x, axes, [x.shape[k] - sizes[k] for k in axes], kept, block
    )
    d = code.temporary((*where.shape[:-1], *block), x.kind)
    flags = 0 if "FILL" in str(params["mode"]) else core.CLIPPED
    fill = _fill(code, params["fill_value"], x.kind)
    size = {"n": prod(where.shape[:-1]), "m": prod(block), "extra": extra}
    code.emit("GATHER", d, x, where, fill, **size, flags=flags)
    return [d.transposed(_order(len(d.shape), numbers.offset_dims, len(block)))]


def _scatter(code: Code, equation: Any, operands: Values) -> Values:
    """The first operand with blocks of the third, at places that the second names."""
    params, name = equation.params, equation.primitive.name
    combine = name.replace("_", "-").removeprefix("scatter").removeprefix("-").upper()
    combine = combine or "SET"
    numbers = params["dimension_numbers"]
    x, places, updates = [code.array(v) for v in operands]
    if combine == "SUB":
        op = "NEG" if x.kind == "f" else "NEG_I"
        updates, combine = code.map(op, x.kind, updates.shape, updates), "ADD"
    unsigned = x.kind in "ub" and combine in ("MIN", "MAX")
    if combine not in core.SCATTERS or unsigned:
        raise NotCoveredError(f"{name} of type {x.kind}")
    lines = numbers.operand_batching_dims, numbers.scatter_indices_batching_dims
    axes = [*numbers.scatter_dims_to_operand_dims, *lines[0]]
    dropped = {*numbers.inserted_window_dims, *lines[0]}
    kept = [k for k in range(len(x.shape)) if k not in dropped]
    block = [updates.shape[k] for k in numbers.update_window_dims]
    sizes = dict(zip(kept, block, strict=True))
    where = _all_places(code, places, lines[1])
    d = code.copy(code.temporary(x.shape, x.kind), x)
    last = [x.shape[k] - sizes.get(k, 1) for k in axes]
    extra = note_blocks(code, d, axes, last, kept, block)
    code.pool.note(core.SCATTERS[combine])
    order = _order(len(updates.shape), numbers.update_window_dims, len(block))
    ready = code.contiguous(updates.transposed(np.argsort(order).tolist()))
    flags = core.CLIPPED if "CLIP" in str(params["mode"]) else 0
    flags |= 0 if x.kind == "f" else core.INTS
    size = {"n": prod(where.shape[:-1]), "m": prod(block), "extra": extra}
    code.emit("SCATTER", d, ready, where, **size, flags=flags)
    code.made.pop(d.buffer, None)
    if combine == "ADD" and x.kind == "f" and code.pool.number(x) == 0:
        parts = Scattered(ready, where, size["n"], flags, extra)
        code.scattered[d.buffer] = parts
    return [d]


def _order(count: int, window: Sequence[int], size: int) -> list[int]:
    """Where axes of a result are: those of places come first, those of blocks last."""
    places, blocks = iter(range(count - size)), iter(range(count - size, count))
    return [next(blocks) if k in window else next(places) for k in range(count)]


def _all_places(code: Code, places: Array, lines: Sequence[int]) -> Array:
    """Places, with those that go along with the axes `lines` of what names them."""
    if places.kind == "u":  # what is too large stays so
        most = code.pool.constant(np.full(places.shape, 2**31 - 1, np.uint32))
        places = code.map("MIN_U", "i", places.shape, places, most)
    *shape, count = places.shape
    if not lines:
        return code.contiguous(places)
    d = code.temporary((*shape, count + len(lines)), "i")
    start = [0] * len(shape)
    if count:
        code.copy(d.part([*start, 0], places.shape), places)
    for k, axis in enumerate(lines, count):
        numbers = code.pool.constant(np.arange(shape[axis], dtype=np.int32))
        column = numbers.broadcast((*shape, 1), (axis,))
        code.copy(d.part([*start, k], column.shape), column)
    code.made.pop(d.buffer, None)
    return d


def _fill(code: Code, value: Any, kind: str) -> Array:
    """What stands where there is no place."""
    if value is None:
        none = {"f": np.nan, "i": np.iinfo(np.int32).min, "u": 2**32 - 1, "b": True}
        value = none[kind]
    dtype = {"f": np.float32, "i": np.int32, "u": np.uint32, "b": np.bool_}[kind]
    return code.pool.constant(np.array(value, dtype))


def note_blocks(
    code: Code,
    whole: Array,
    axes: Sequence[int],
    last: Sequence[int],
    kept: Sequence[int],
    block: Sequence[int],
) -> int:
    """The numbers that say how blocks are placed; see blocks.h."""
    if max(len(axes), len(kept)) > 8:
        raise NotCoveredError("more than eight axes")
    placed = [
        v for k, most in zip(axes, last, strict=True) for v in (most, whole.strides[k])
    ]
    sides = zip(kept, block, side_by_side(tuple(block)), strict=True)
    sizes = [v for k, n, apart in sides for v in (n, apart, whole.strides[k])]
    return code.pool.note(len(axes), *placed, len(kept), *sizes)


LOWERINGS = {
    "gather": _gather,
    **dict.fromkeys(
        [f"scatter{by}" for by in ("", "-mul", "-min", "-max", "-sub", "_sub", "_mul")],
        _scatter,
    ),
    "scatter-add": _scatter_add,
}
