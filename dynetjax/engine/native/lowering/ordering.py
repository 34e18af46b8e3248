"""Byte code of what follows from the order of numbers: sorting, the largest."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dynetjax.engine.native.lowering.arrays import (
    Array,
    Lowering,
    Values,
    side_by_side,
)
from dynetjax.engine.native.lowering.bytecode import Code
from dynetjax.engine.native.lowering.gathers import gathered, of_numbers
from dynetjax.native import core


def _sort(code: Code, equation: Any, operands: Values) -> Values:
    params = equation.params
    axis = params["dimension"]
    arrays = [code.array(x) for x in operands]
    order = [*[k for k in range(len(arrays[0].shape)) if k != axis], axis]
    ready = [code.contiguous(x.transposed(order)) for x in arrays]
    places = _order_by(code, ready[: params["num_keys"]])
    back = np.argsort(order).tolist()
    return [_taken(code, x, places).transposed(back) for x in ready]


def _order_by(code: Code, keys: Sequence[Array]) -> Array:
    """Places along the last axis that sort by the first key, then by the next."""
    places: Array | None = None
    for key in reversed(keys):
        if key.kind in "ub":
            key = _as_ints(code, key)
        now = key if places is None else _taken(code, key, places)
        d = _order_of(code, code.contiguous(now))
        places = d if places is None else _taken(code, places, d)
    assert places is not None
    return places


def _order_of(code: Code, x: Array) -> Array:
    count = x.shape[-1]
    d = code.temporary(x.shape, "i")
    flags = core.INTS if x.kind == "i" else 0
    return code.emit("SORT_ORDER", d, x, n=x.size // count, m=count, flags=flags)


def _taken(code: Code, x: Array, places: Array) -> Array:
    """Numbers of the last axis at these places of it."""
    *lines, room = x.shape
    first = np.arange(0, x.size, room, dtype=np.int32).reshape(lines)
    if first.size > 1:
        begin = code.pool.constant(first).broadcast(places.shape, range(len(lines)))
        places = code.map("ADD_I", "i", places.shape, places, begin)
    flat = code.contiguous(x).reshaped((x.size,))
    which = code.contiguous(places).reshaped((places.size, 1))
    assert flat is not None
    assert which is not None
    taken = gathered(code, flat, which, of_numbers(x.size))
    return replace(taken, shape=places.shape, strides=side_by_side(places.shape))


def _top_k(code: Code, equation: Any, operands: Values) -> Values:
    """The largest first, NaN before that; equal numbers stay as they come."""
    x, count = code.array(operands[0]), equation.params["k"]
    axis = equation.params.get("axis", -1) % len(x.shape)
    order = [*[k for k in range(len(x.shape)) if k != axis], axis]
    ready = code.contiguous(x.transposed(order))
    key = ready
    if x.kind == "f":  # -0 and 0 are equal
        zero = code.pool.constant(np.zeros(ready.shape, np.float32))
        key = code.map("ADD", "f", ready.shape, ready, zero)
    key = _as_ints(code, key)
    if x.kind == "f":
        is_number = code.map("EQ", "b", ready.shape, ready, ready)
        most = _number(code, 2**31 - 1, ready)
        key = code.map("SELECT", "i", ready.shape, is_number, key, most)
    places = _order_of(code, code.map("NOT_I", "i", ready.shape, key))
    largest = places.part([0] * len(order), (*places.shape[:-1], count))
    largest = code.contiguous(largest)
    back = np.argsort(order).tolist()
    return [_taken(code, ready, largest).transposed(back), largest.transposed(back)]


def _total_order(op: str) -> Lowering:
    """A comparison in which -0 is below 0, and NaN above all."""

    def lower(code: Code, equation: Any, operands: Values) -> Values:
        shape = equation.outvars[0].aval.shape
        ordered = []
        for x in [code.array(x).like(shape) for x in operands]:
            ordered.append(_as_ints(code, x))
        return [code.map(op, "b", shape, *ordered)]

    return lower


def _as_ints(code: Code, x: Array) -> Array:
    """Ints that are in the order of what they stand for."""
    if x.kind in "ib":
        return replace(x, kind="i")
    if x.kind == "u":
        return code.map("XOR", "i", x.shape, x, _number(code, -(2**31), x))
    sign = code.map("SHR_I", "i", x.shape, replace(x, kind="i"), _number(code, 31, x))
    others = code.map("AND", "i", x.shape, sign, _number(code, 2**31 - 1, x))
    return code.map("XOR", "i", x.shape, replace(x, kind="i"), others)


def _number(code: Code, number: int, like: Array) -> Array:
    return code.pool.constant(np.full(like.shape, number, np.int32))


LOWERINGS: dict[str, Lowering] = {
    "eq_to": _total_order("EQ_I"),
    "le_to": _total_order("LE_I"),
    "lt_to": _total_order("LT_I"),
    "sort": _sort,
    "top_k": _top_k,
}
