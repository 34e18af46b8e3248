"""Gathers and scatters of blocks as byte code: blocks begin at places that are data."""

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
from dynetjax.engine.native.lowering.bytecode import CLIPPED, INTS, Code

Values = list[Value]
_COMBINATIONS = {"": 0, "add": 1, "mul": 2, "min": 3, "max": 4}  # as in blocks.h


def gather(code: Code, equation: Any, operands: Values) -> Values:
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
    extra = _note(code, x, axes, [x.shape[k] - sizes[k] for k in axes], kept, block)
    d = code.temporary((*where.shape[:-1], *block), x.kind)
    flags = 0 if "FILL" in str(params["mode"]) else CLIPPED
    fill = _fill(code, params["fill_value"], x.kind)
    size = {"n": prod(where.shape[:-1]), "m": prod(block), "extra": extra}
    code.emit("GATHER", d, x, where, fill, **size, flags=flags)
    return [d.transposed(_order(len(d.shape), numbers.offset_dims, len(block)))]


def scatter(code: Code, equation: Any, operands: Values) -> Values:
    """The first operand with blocks of the third, at places that the second names."""
    params, name = equation.params, equation.primitive.name
    combine = name.replace("_", "-").removeprefix("scatter").removeprefix("-")
    numbers = params["dimension_numbers"]
    x, places, updates = [code.array(v) for v in operands]
    if combine == "sub":
        op = "NEG" if x.kind == "f" else "NEG_I"
        updates, combine = code.map(op, x.kind, updates.shape, updates), "add"
    if combine not in _COMBINATIONS or (x.kind in "ub" and combine in ("min", "max")):
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
    extra = _note(code, d, axes, last, kept, block)
    code.pool.note(_COMBINATIONS[combine])
    order = _order(len(updates.shape), numbers.update_window_dims, len(block))
    ready = code.contiguous(updates.transposed(np.argsort(order).tolist()))
    flags = CLIPPED if "CLIP" in str(params["mode"]) else 0
    flags |= 0 if x.kind == "f" else INTS
    size = {"n": prod(where.shape[:-1]), "m": prod(block), "extra": extra}
    code.emit("SCATTER", d, ready, where, **size, flags=flags)
    code.made.pop(d.buffer, None)
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


def _note(
    code: Code,
    whole: Array,
    axes: Sequence[int],
    last: Sequence[int],
    kept: Sequence[int],
    block: Sequence[int],
) -> int:
    """See blocks.h."""
    if max(len(axes), len(kept)) > 8:
        raise NotCoveredError("more than eight axes")
    placed = [
        v for k, most in zip(axes, last, strict=True) for v in (most, whole.strides[k])
    ]
    sides = zip(kept, block, side_by_side(tuple(block)), strict=True)
    sizes = [v for k, n, apart in sides for v in (n, apart, whole.strides[k])]
    return code.pool.note(len(axes), *placed, len(kept), *sizes)


LOWERINGS = {
    "gather": gather,
    **dict.fromkeys(
        [
            f"scatter{by}"
            for by in ("", "-add", "-mul", "-min", "-max", "-sub", "_sub", "_mul")
        ],
        scatter,
    ),
}
