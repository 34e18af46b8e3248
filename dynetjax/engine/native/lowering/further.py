"""Primitives that few functions need, made of the instructions of others."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dynetjax.core.lazy import jax
from dynetjax.engine.native.lowering.arrays import Array, NotCoveredError, Value
from dynetjax.engine.native.lowering.bytecode import INTS, Code

Values = list[Value]


def tile(code: Code, equation: Any, operands: Values) -> Values:
    """Copies side by side."""
    x, result = code.array(operands[0]), equation.outvars[0].aval
    reps = equation.params["reps"]
    shape = [n for pair in zip(reps, x.shape, strict=True) for n in pair]
    strides = [s for stride in x.strides for s in (0, stride)]
    repeated = replace(x, shape=tuple(shape), strides=tuple(strides))
    tiled = code.contiguous(repeated).reshaped(tuple(result.shape))
    assert tiled is not None
    return [tiled]


def select(code: Code, which: Array, cases: list[Array]) -> Array:
    """Of several cases the one that a number names, number by number."""
    selected, *others = cases
    for k, case in enumerate(others, 1):
        number = code.pool.constant(np.array(k, np.int32)).broadcast(which.shape, ())
        is_it = code.map("EQ_I", "b", which.shape, which, number)
        selected = code.map("SELECT", case.kind, which.shape, is_it, case, selected)
    return selected


def total_order(op: str) -> Callable[[Code, Any, Values], Values]:
    """A comparison in which -0 is below 0, and NaN above all."""

    def lower(code: Code, equation: Any, operands: Values) -> Values:
        shape = equation.outvars[0].aval.shape
        ordered = []
        for x in [code.array(x) for x in operands]:
            x = x if x.shape == tuple(shape) else x.broadcast(shape, ())
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


def order(code: Code, keys: Sequence[Array], taken: Callable[..., Array]) -> Array:
    """Places along the last axis that sort by the first key, then by the next."""
    places: Array | None = None
    for key in reversed(keys):
        if key.kind in "ub":
            key = _as_ints(code, key)
        now = key if places is None else taken(code, key, places)
        now = code.contiguous(now)
        count = now.shape[-1]
        flags = INTS if now.kind == "i" else 0
        d = code.temporary(now.shape, "i")
        code.emit("SORT_ORDER", d, now, n=now.size // count, m=count, flags=flags)
        places = d if places is None else taken(code, places, d)
    assert places is not None
    return places


def int_product(code: Code, a: Array, b: Array, shape: Sequence[int]) -> Array:
    """Of ints a[B, n, m] and b[B, m, k], in `shape`."""
    (batch, n, m), k = a.shape, b.shape[-1]
    sizes = batch, n, k, m
    left = a.broadcast(sizes, (0, 1, 3))
    right = b.transposed((0, 2, 1)).broadcast(sizes, (0, 2, 3))
    every = code.map("MUL_I", a.kind, sizes, left, right)
    d = code.temporary(tuple(shape), a.kind)
    return code.emit("SUM_I", d, code.contiguous(every), n=batch * n * k, m=m, k=1)


def random_seed(code: Code, equation: Any, operands: Values) -> Values:
    """The key of a seed that is known."""
    seed, result = code.pool.number(code.array(operands[0])), equation.outvars[0].aval
    if seed is None or str(result.dtype) != "key<fry>" or result.shape:
        raise NotCoveredError("a random key that is not of one known seed")
    words = np.asarray(jax.random.key_data(jax.random.key(int(seed))))
    return [replace(code.pool.constant(words), kind="k")]


LOWERINGS: dict[str, Callable[[Code, Any, Values], Values]] = {
    "eq_to": total_order("EQ_I"),
    "le_to": total_order("LE_I"),
    "lt_to": total_order("LT_I"),
    "random_seed": random_seed,
    "tile": tile,
}
