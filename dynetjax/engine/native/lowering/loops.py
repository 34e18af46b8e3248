"""Loops and branches of jaxprs as byte code.

What one trip hands to the next has a place, into which the results of a trip are
copied. The lanes of `scan` run together; in `while` and `cond` each lane goes its own
way, so that they run one by one. A loop that never ends cannot be interrupted.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from dynetjax.core.dims import Shape
from dynetjax.engine.native.lowering.arrays import (
    Array,
    NotCoveredError,
    Value,
    side_by_side,
)
from dynetjax.engine.native.lowering.bytecode import Code
from dynetjax.engine.native.lowering.gathers import By, Layout, gathered, scatter

Values = list[Value]
Inline = Callable[[Code, Any, Sequence[Any], Values], Values]
Run = Callable[[Code, Any, Values], Values]  # emits what a closed jaxpr does


def lowerings(inline: Inline) -> dict[str, Callable[[Code, Any, Values], Values]]:
    """By primitive; `inline` emits the instructions of a jaxpr."""

    def run(code: Code, closed: Any, given: Values) -> Values:
        return inline(code, closed.jaxpr, closed.consts, given)

    return {
        "cond": partial(_cond, run),
        "scan": partial(_scan, run),
        "while": partial(_while, run),
        **dict.fromkeys(("empty", "empty2"), _nothing),
        "platform_index": _platform,
    }


def _while(run: Run, code: Code, equation: Any, operands: Values) -> Values:
    params = equation.params
    first = params["cond_nconsts"]
    second = first + params["body_nconsts"]
    carries = [_place(code, x) for x in operands[second:]]
    with code.block() as condition:
        [goes_on] = run(code, params["cond_jaxpr"], [*operands[:first], *carries])
        on = which = code.contiguous(goes_on)
        if which.shape:  # loops that `vmap` has made one, of which some end first
            on = code.emit("ANY", code.temporary((), "b"), which, n=1, m=on.size, k=1)
    with code.block() as body:
        given = [*operands[first:second], *carries]
        results = run(code, params["body_jaxpr"], given)
        if which.shape:
            pairs = zip(carries, results, strict=True)
            results = [_where(code, which, x, place) for place, x in pairs]
        _hand_on(code, carries, results)
    code.control("WHILE", condition, body, on=on)
    return [*carries]


def _where(code: Code, which: Array, x: Value, otherwise: Array) -> Array:
    """What is new where a loop goes on, and what was there where it has ended."""
    shape = otherwise.shape
    mask = which.broadcast(shape, range(len(which.shape)))
    return code.map("SELECT", otherwise.kind, shape, mask, code.array(x), otherwise)


def _scan(run: Run, code: Code, equation: Any, operands: Values) -> Values:
    params = equation.params
    length, back = params["length"], params["reverse"]
    first, second = _parts_of_scan(equation)
    if not length:
        raise NotCoveredError("scan of nothing")
    carries = [_place(code, x) for x in operands[first:second]]
    lists = [_rows_of(code, x) for x in operands[second:]]
    begin = [length - 1 if back else 0, 0]
    at = _place(code, code.pool.constant(np.array(begin, np.int32)))
    with code.block() as body:
        rows = [_row(code, x, at) for x in lists]
        results = run(code, params["jaxpr"], [*operands[:first], *carries, *rows])
        new_rows = results[len(carries) :]  # which may be of what is handed on
        made = [_put_row(code, x, length, at) for x in new_rows]
        _hand_on(code, carries, results[: len(carries)])
        trip = at.part((0,), (1,))
        step = code.pool.constant(np.array([-1 if back else 1], np.int32))
        code.emit("ADD_I", trip, trip, step, n=1)
    code.control("LOOP", body, n=length)
    return [*carries, *made]


def _cond(run: Run, code: Code, equation: Any, operands: Values) -> Values:
    which, branches = code.array(operands[0]), equation.params["branches"]
    known = code.pool.number(which)
    if known is not None:
        chosen = branches[min(max(int(known), 0), len(branches) - 1)]
        return run(code, chosen, operands[1:])
    places: list[Array] = []
    blocks = []
    for branch in branches:
        with code.block() as block:
            results = [code.array(x) for x in run(code, branch, operands[1:])]
            places = places or [code.temporary(x.shape, x.kind) for x in results]
            for place, x in zip(places, results, strict=True):
                _write(code, place, x)
        blocks.append(block)
    code.control("BRANCH", *blocks, n=len(blocks), on=which)
    return [*places]


def _platform(code: Code, equation: Any, operands: Values) -> Values:
    """Which branch is for a CPU: the first that says so, or that is for all."""
    for number, names in enumerate(equation.params["platforms"]):
        if names is None or "cpu" in names:
            return [code.pool.constant(np.array(number, np.int32))]
    raise NotCoveredError("a function that is for other devices")


def _parts_of_scan(equation: Any) -> tuple[int, int]:
    """Where what it hands on begins among its operands, and what it goes over."""
    inner = equation.params["jaxpr"]
    inner = getattr(inner, "jaxpr", inner)
    pairs = zip(equation.outvars, inner.outvars, strict=True)
    carries = sum(x.aval.shape == y.aval.shape for x, y in pairs)
    pairs = zip(equation.invars, inner.invars, strict=True)
    held = sum(x.aval.shape == y.aval.shape for x, y in pairs)
    return held - carries, held


def _nothing(code: Code, equation: Any, operands: Values) -> Values:
    """What a branch that is not taken would have left: numbers that nobody reads."""
    result = equation.outvars[0].aval
    return [code.pool.constant(np.zeros(result.shape, result.dtype))]


def _write(code: Code, place: Array, x: Array) -> None:
    """Copy to where others write, too."""
    code.copy(place, x)
    code.made.pop(place.buffer, None)


def _place(code: Code, x: Value) -> Array:
    """A new place that begins as `x`."""
    array = code.array(x)
    if array.kind == "k":
        raise NotCoveredError("a loop that hands on random keys")
    place = code.temporary(array.shape, array.kind)
    _write(code, place, array)
    return place


def _hand_on(code: Code, carries: list[Array], results: Values) -> None:
    """Copy the results of a trip to their places, of which some may be parts."""
    own = {place.buffer for place in carries}
    pairs = []
    for place, x in zip(carries, results, strict=True):
        array = code.array(x)
        if array.buffer is place.buffer and array.is_whole:
            continue
        pairs.append((place, _place(code, array) if array.buffer in own else array))
    for place, array in pairs:
        _write(code, place, array)


def _rows_of(code: Code, x: Value) -> Array:
    """A list over which a loop goes, row by row: one for all, or side by side."""
    array = code.array(x)
    return array if not array.strides[0] else code.contiguous(array)


def _row(code: Code, x: Array, at: Array) -> Array:
    length, *shape = x.shape
    if not x.strides[0]:
        return replace(x, shape=tuple(shape), strides=x.strides[1:])
    rows = replace(x, shape=(length, x.size // length), strides=(x.size // length, 1))
    row = gathered(code, rows, at.like((1,)), _of_rows(rows.shape))
    return replace(row, shape=tuple(shape), strides=side_by_side(tuple(shape)))


def _put_row(code: Code, x: Value, length: int, at: Array) -> Array:
    """Note a row of a new list; the list."""
    row = code.contiguous(x)
    d = code.temporary((length, *row.shape), row.kind)
    rows = replace(d, shape=(length, row.size), strides=(row.size, 1))
    scatter(code, rows, row, at.like((1,)), _of_rows(rows.shape), By())
    return d


def _of_rows(shape: Shape) -> Layout:
    """Of a row of a matrix, whose number is the place."""
    length, size = shape
    return Layout((0,), (length - 1,), (1,), (size,))
