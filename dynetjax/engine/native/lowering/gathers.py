"""Gathers and scatters as byte code: blocks at places that are data."""

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any, NamedTuple

import numpy as np

from dynetjax.core.dims import Shape
from dynetjax.engine.native.lowering.arrays import (
    Array,
    NotCoveredError,
    Value,
    side_by_side,
)
from dynetjax.engine.native.lowering.bytecode import ADDS, Code, Scattered
from dynetjax.native import core

Values = list[Value]


class Layout(NamedTuple):
    """How blocks are placed in an array.

    Attributes:
        axes: of the array, along which places say where a block begins.
        last: the last place along each of these.
        kept: axes of the array that a block has.
        block: its sizes along these.
    """

    axes: Sequence[int]
    last: Sequence[int]
    kept: Sequence[int]
    block: Sequence[int]

    def note(self, code: Code, whole: Array, *more: int) -> int:
        """Put it beside the byte code; see blocks.h."""
        if max(len(self.axes), len(self.kept)) > 8:
            raise NotCoveredError("more than eight axes")
        pairs = zip(self.axes, self.last, strict=True)
        placed = [v for k, most in pairs for v in (most, whole.strides[k])]
        sides = zip(self.kept, self.block, side_by_side(tuple(self.block)), strict=True)
        sizes = [v for k, n, apart in sides for v in (n, apart, whole.strides[k])]
        counts = len(self.axes), len(self.kept)
        return code.pool.note(counts[0], *placed, counts[1], *sizes, *more)


def one_block(whole: Shape, block: Shape) -> Layout:
    """Of a block that has all axes of an array, and a place along each."""
    every = range(len(whole))
    return Layout(
        every, [n - m for n, m in zip(whole, block, strict=True)], every, block
    )


def of_numbers(count: int) -> Layout:
    """Of single numbers of a vector of so many."""
    return Layout((0,), (count - 1,), (), ())


def gathered(
    code: Code, x: Array, where: Array, layout: Layout, fill: Array | None = None
) -> Array:
    """Blocks of `x` at places ``[..., axes]``.

    What begins nowhere is `fill`; without it, places are moved so that blocks are in x.
    """
    count, size = prod(where.shape[:-1]), prod(layout.block)
    d = code.temporary((*where.shape[:-1], *layout.block), x.kind)
    none = code.pool.constant(np.zeros((), np.int32)) if fill is None else fill
    flags, extra = core.CLIPPED if fill is None else 0, layout.note(code, x)
    about = {"n": count, "m": size, "flags": flags, "extra": extra}
    return code.emit("GATHER", d, x, where, none, **about)


class By(NamedTuple):
    """How a scatter changes numbers.

    Attributes:
        how: one of `core.SCATTERS`.
        clips: places are moved so that blocks are in the array; otherwise what begins
            nowhere changes nothing.
    """

    how: str = "SET"
    clips: bool = True


def scatter(
    code: Code, d: Array, blocks: Array, where: Array, layout: Layout, by: By
) -> Scattered:
    """Change `d` by blocks at places ``[..., axes]``; what was done."""
    count, extra = prod(where.shape[:-1]), layout.note(code, d, core.SCATTERS[by.how])
    flags = core.CLIPPED if by.clips else 0
    about = {"n": count, "m": blocks.size // count, "extra": extra}
    ints = 0 if d.kind == "f" else core.INTS
    code.emit("SCATTER", d, blocks, where, **about, flags=flags | ints)
    code.made.pop(d.buffer, None)
    return Scattered(blocks, where, count, flags, extra)


def scattered(
    code: Code, x: Array, blocks: Array, where: Array, layout: Layout, by: By
) -> Array:
    """`x`, changed by blocks: see `scatter`."""
    d = code.copy(code.temporary(x.shape, x.kind), x)
    parts = scatter(code, d, blocks, where, layout, by)
    sets_one = by.how == "SET" and parts.count == 1
    if (
        (by.how == "ADD" or sets_one) and x.kind == "f" and code.pool.number(x) == 0
    ):  # what may be a gradient may be added to one
        extra = layout.note(code, d, ADDS) if sets_one else parts.extra
        code.scattered[d.buffer] = replace(parts, extra=extra)
    return d


def _gather(code: Code, equation: Any, operands: Values) -> Values:
    """Blocks of the first operand, at the places that the second names."""
    params = equation.params
    numbers, sizes = params["dimension_numbers"], params["slice_sizes"]
    x, places = [code.array(v) for v in operands]
    lines = numbers.operand_batching_dims, numbers.start_indices_batching_dims
    axes = [*numbers.start_index_map, *lines[0]]
    dropped = {*numbers.collapsed_slice_dims, *lines[0]}
    kept = [k for k in range(len(x.shape)) if k not in dropped]
    block = [sizes[k] for k in kept]
    last = [x.shape[k] - sizes[k] for k in axes]
    where = _all_places(code, places, lines[1])
    fills = "FILL" in str(params["mode"])
    fill = _fill(code, params["fill_value"], x.kind) if fills else None
    d = gathered(code, x, where, Layout(axes, last, kept, block), fill)
    return [d.transposed(_order(len(d.shape), numbers.offset_dims, len(block)))]


def _scatter(code: Code, equation: Any, operands: Values) -> Values:
    """The first operand with blocks of the third, at places that the second names."""
    params, name = equation.params, equation.primitive.name
    how = name.replace("_", "-").removeprefix("scatter").removeprefix("-").upper()
    how = how or "SET"
    numbers = params["dimension_numbers"]
    x, places, updates = [code.array(v) for v in operands]
    if how == "SUB":
        op = "NEG" if x.kind == "f" else "NEG_I"
        updates, how = code.map(op, x.kind, updates.shape, updates), "ADD"
    unsigned = x.kind in "ub" and how in ("MIN", "MAX")
    if how not in core.SCATTERS or unsigned:
        raise NotCoveredError(f"{name} of type {x.kind}")
    lines = numbers.operand_batching_dims, numbers.scatter_indices_batching_dims
    axes = [*numbers.scatter_dims_to_operand_dims, *lines[0]]
    dropped = {*numbers.inserted_window_dims, *lines[0]}
    kept = [k for k in range(len(x.shape)) if k not in dropped]
    block = [updates.shape[k] for k in numbers.update_window_dims]
    sizes = dict(zip(kept, block, strict=True))
    last = [x.shape[k] - sizes.get(k, 1) for k in axes]
    where = _all_places(code, places, lines[1])
    order = _order(len(updates.shape), numbers.update_window_dims, len(block))
    ready = code.contiguous(updates.transposed(np.argsort(order).tolist()))
    by, layout = By(how, "CLIP" in str(params["mode"])), Layout(axes, last, kept, block)
    return [scattered(code, x, ready, where, layout, by)]


def _order(count: int, window: Sequence[int], size: int) -> list[int]:
    """Where axes of a result are: those of places come first, those of blocks last."""
    places, blocks = iter(range(count - size)), iter(range(count - size, count))
    return [next(blocks) if k in window else next(places) for k in range(count)]


def _all_places(code: Code, places: Array, lines: Sequence[int]) -> Array:
    """Places, with those that go along with the axes `lines` of what names them."""
    places = signed(code, places)
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


def signed(code: Code, places: Array) -> Array:
    """Places as ints; unsigned ones that are too large stay so."""
    if places.kind != "u":
        return places
    most = code.pool.constant(np.full(places.shape, 2**31 - 1, np.uint32))
    return code.map("MIN_U", "i", places.shape, places, most)


def _fill(code: Code, value: Any, kind: str) -> Array:
    """What stands where there is no place."""
    if value is None:
        none = {"f": np.nan, "i": np.iinfo(np.int32).min, "u": 2**32 - 1, "b": True}
        value = none[kind]
    dtype = {"f": np.float32, "i": np.int32, "u": np.uint32, "b": np.bool_}[kind]
    return code.pool.constant(np.array(value, dtype))


LOWERINGS = {
    "gather": _gather,
    **dict.fromkeys(
        [
            f"scatter{by}"
            for by in ("", "-add", "-mul", "-min", "-max", "-sub", "_sub", "_mul")
        ],
        _scatter,
    ),
}
