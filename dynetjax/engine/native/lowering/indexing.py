"""Byte code of what is where numbers say: slices, sorting, gathering, random bits."""

from typing import Any

import numpy as np

from dynetjax.core.lazy import jax
from dynetjax.engine.native.lowering import blocks, further
from dynetjax.engine.native.lowering.arrays import (
    Array,
    Lowering,
    NotCoveredError,
    Values,
)
from dynetjax.engine.native.lowering.bytecode import INTS, LARGEST_FIRST, Code


def _starts(code: Code, operands: Values) -> Array:
    """Places along each axis, as one array."""
    d = code.temporary((len(operands),), "i")
    for k, x in enumerate(operands):
        code.copy(d.part((k,), (1,)), code.array(x).like((1,)))
    code.made.pop(d.buffer, None)
    return d


def _dynamic_slice(code: Code, equation: Any, operands: Values) -> Values:
    x = code.contiguous(operands[0])
    result = equation.outvars[0].aval
    at = _starts(code, operands[1:])
    axes = zip(result.shape, x.shape, x.strides, strict=True)
    extra = code.pool.note(len(x.shape), *[v for axis in axes for v in axis])
    d = code.temporary(result.shape, x.kind)
    return [code.emit("SLICE_AT", d, x, at, n=result.size, extra=extra)]


def _dynamic_update_slice(code: Code, equation: Any, operands: Values) -> Values:
    whole, block = operands[0], code.contiguous(operands[1])
    at = _starts(code, operands[2:])
    array = code.array(whole)
    d = code.copy(code.temporary(array.shape, array.kind), array)
    axes = zip(block.shape, d.shape, d.strides, strict=True)
    extra = code.pool.note(len(d.shape), *[v for axis in axes for v in axis])
    code.emit("PUT_AT", d, block, at, n=block.size, extra=extra)
    code.made.pop(d.buffer, None)
    return [d]


def _random_bits(code: Code, equation: Any, operands: Values) -> Values:
    result = equation.outvars[0].aval
    aval = equation.invars[0].aval
    is_threefry = str(aval.dtype) == "key<fry>" and not aval.shape
    partitionable = getattr(jax.config, "jax_threefry_partitionable", False)
    if not (is_threefry and partitionable):
        raise NotCoveredError("random bits of another generator")
    if equation.params["bit_width"] != 32:
        raise NotCoveredError("random numbers of another size than 32 bits")
    d = code.temporary(result.shape, "u")
    key = code.array(operands[0])
    return [code.emit("RANDOM_BITS", d, key, n=d.size)]


def _sort(code: Code, equation: Any, operands: Values) -> Values:
    params = equation.params
    axis = params["dimension"]
    arrays = [code.array(x) for x in operands]
    order = [*[k for k in range(len(arrays[0].shape)) if k != axis], axis]
    ready = [code.contiguous(x.transposed(order)) for x in arrays]
    places = further.order(code, ready[: params["num_keys"]], _taken)
    back = np.argsort(order).tolist()
    return [_taken(code, x, places).transposed(back) for x in ready]


def _order_of(code: Code, x: Array, flags: int = 0) -> Array:
    count = x.shape[-1]
    d = code.temporary(x.shape, "i")
    flags |= INTS if x.kind == "i" else 0
    return code.emit("SORT_ORDER", d, x, n=x.size // count, m=count, flags=flags)


def _taken(code: Code, x: Array, places: Array) -> Array:
    """Numbers of the last axis at these places of it."""
    count, room = places.shape[-1], x.shape[-1]
    d = code.temporary(places.shape, x.kind)
    places = code.contiguous(places)
    outer = places.size // count
    return code.emit("TAKE", d, code.contiguous(x), places, n=outer, m=count, k=room)


def _top_k(code: Code, equation: Any, operands: Values) -> Values:
    x, count = code.array(operands[0]), equation.params["k"]
    if x.kind != "f":
        raise NotCoveredError(f"top_k of type {x.kind}")
    axis = equation.params.get("axis", -1) % len(x.shape)
    order = [*[k for k in range(len(x.shape)) if k != axis], axis]
    ready = code.contiguous(x.transposed(order))
    places = _order_of(code, ready, LARGEST_FIRST)
    largest = places.part([0] * len(order), (*places.shape[:-1], count))
    largest = code.contiguous(largest)
    back = np.argsort(order).tolist()
    return [_taken(code, ready, largest).transposed(back), largest.transposed(back)]


def _gather(code: Code, equation: Any, operands: Values) -> Values:
    """Single numbers of the last axis, for each place of the axes before it."""
    params = equation.params
    x, places = [code.array(v) for v in operands]
    numbers = params["dimension_numbers"]
    lines = (
        tuple(numbers.operand_batching_dims),
        tuple(numbers.start_indices_batching_dims),
    )
    single = all(n == 1 for n in params["slice_sizes"]) and not numbers.offset_dims
    if not single or not _along_lines(x, places, numbers.collapsed_slice_dims, lines):
        return blocks.gather(code, equation, operands)
    which = code.contiguous(places.reshaped(places.shape[:-1]) or places)
    room, fill = x.shape[-1], params["fill_value"]
    if "FILL" not in str(params["mode"]):
        which = _clamped(code, which, room)
    elif x.kind != "f" or not (fill is None or np.isnan(fill)):
        return blocks.gather(code, equation, operands)
    outer = x.size // room
    d = code.temporary(equation.outvars[0].aval.shape, x.kind)
    x, count = code.contiguous(x), d.size // outer
    return [code.emit("TAKE", d, x, which, n=outer, m=count, k=room)]


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


def _scatter_add(code: Code, equation: Any, operands: Values) -> Values:
    """Single numbers added to places of the last axis."""
    params = equation.params
    x, places, updates = [code.array(v) for v in operands]
    numbers = params["dimension_numbers"]
    lines = (
        tuple(numbers.operand_batching_dims),
        tuple(numbers.scatter_indices_batching_dims),
    )
    along = _along_lines(x, places, numbers.inserted_window_dims, lines)
    if numbers.update_window_dims or x.kind != "f" or not along:
        return blocks.scatter(code, equation, operands)
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


LOWERINGS: dict[str, Lowering] = {
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "gather": _gather,
    "random_bits": _random_bits,
    "scatter-add": _scatter_add,
    "sort": _sort,
    "top_k": _top_k,
}
