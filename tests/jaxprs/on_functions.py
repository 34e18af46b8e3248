"""Loops, branches and calls, of functions that are as random."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from choices import (
    OPERATIONS,
    Choices,
    Number,
    fitted,
    of_kind,
    operands_of,
    operation,
    small,
    with_axes,
    within,
)
from jax import lax

LIGHT = [
    "add", "mul", "sub", "max", "tanh", "sin", "logistic", "exp", "abs", "compare",
    "select", "reduce", "matmul", "slice", "concatenate", "reshape", "transpose", "pad",
    "take", "broadcast", "ints", "of_several", "scan_of_numbers", "put",
    "dynamic_slice", "softmax", "rev", "sort", "swapped", "dynamic_update_slice",
]  # fmt: skip


WITHIN = ["scan", "branch", "called", "vectorised", "while", "scan_of_two"]


def inner(r, values, names=LIGHT):
    """A few operations on values; the last result."""
    values = [*values]
    for _ in range(r.number(1, 3)):
        chosen = OPERATIONS[r.one(*(WITHIN if r.chance(0.06) else names))]
        drawn = [r.one(*values) for _ in chosen.kinds]
        operands = operands_of(r, chosen, drawn)
        values.append(small(r, chosen.run(r, *operands)))
    return of_kind(r, values[-1], "f")


def _inner_of(r, a, b):
    """(a function of two arrays, where it notes the bounds of its result)."""
    seed = r.number(0, 2**31)
    found = {}

    def function(x, y):
        made = inner(Choices(seed), [replace(a, x=x), replace(b, x=y)])
        found["bounds"] = made.low, made.high
        return made.x

    return function, found


@operation("ff", 1.2)
def _called(r, a, b):
    """A function that is compiled, computed again for the way back, or has its own."""
    function, found = _inner_of(r, a, b)
    way = r.number(0, 3)
    if way == 2:
        function = partial(_with_its_own_slope, function)
    wrapped = {0: jax.jit, 1: jax.checkpoint}.get(way, lambda f: f)(function)
    x = wrapped(a.x, b.x)
    return Number(x, *found["bounds"])


def _with_its_own_slope(function, x, y):
    own = jax.custom_vjp(function)

    def forth(x, y):
        return function(x, y), (x, y)

    def back(kept, g):
        return jax.tree.map(lambda v: v * 0.5 + jnp.sum(g), kept)

    own.defvjp(forth, back)
    return own(x, y)


@operation("ff", 1.2)
def _vectorised(r, a, b):
    """A function of each row of an axis."""
    a = with_axes(r, a, 1)
    axes = r.number(0, len(a.shape) - 1), None
    if r.chance():
        b = with_axes(r, b, 1)
        k = r.number(0, len(b.shape) - 1)
        shape = [*b.shape]
        shape[k] = a.shape[axes[0]]
        b, axes = fitted(r, b, shape), (axes[0], k)
    function, found = _inner_of(r, a, b)
    rank = len(a.shape) - 1
    x = jax.vmap(function, axes, r.one(0, 0, -1) if rank else 0)(a.x, b.x)
    return Number(x, *found["bounds"])


@operation("bff", 1.0)
def _branch(r, which, a, b):
    which = fitted(r, which, ())
    seeds = [r.number(0, 2**31) for _ in range(2)]
    shape = r.one(a, b).shape

    def branch(seed):
        def function(x, y):
            s = Choices(seed)
            made = inner(s, [replace(a, x=x), replace(b, x=y)])
            return fitted(s, within(s, made, -9, 9), shape).x

        return function

    if r.chance(0.3):
        which = lax.convert_element_type(which.x, jnp.int32) + r.one(0, 1)
        branches = [branch(s) for s in (*seeds, seeds[0] + 1)]
        return Number(lax.switch(which, branches, a.x, b.x), -9, 9)
    return Number(lax.cond(which.x, *map(branch, seeds), a.x, b.x), -9, 9)


@operation("fff", 1.5)
def _scan(r, carry, rows, held):
    """A recurrence over rows; what it lists, or what is left."""
    rows = with_axes(r, rows, 1)
    seed = r.number(0, 2**31)

    def step(state, row):
        s = Choices(seed)
        at, number = state
        state = Number(at, -9, 9)
        made = inner(s, [state, replace(rows, x=row), held])
        listed = s.one(made.x, at, row) if s.chance(0.5) else made.x
        new = fitted(s, within(s, made, -9, 9), at.shape).x
        if s.chance(0.2):
            new = at
        return (new, number + 1), listed

    start = within(r, carry, -9, 9).x
    begin = (start, jnp.zeros((), r.one(jnp.int32, jnp.uint32)))
    xs = rows.x
    (last, count), listed = lax.scan(step, begin, xs, reverse=r.chance(0.4))
    if r.chance(0.1):
        return Number(count, 0, 64)
    return Number(last, -9, 9) if r.chance() else Number(listed, -90, 90)


@operation("ff", 0.8)
def _scan_of_two(r, a, b):
    """What is handed on changes places."""
    b = within(r, fitted(r, b, a.shape), -9, 9)
    a = within(r, a, -9, 9)
    k = r.one(0, 1, 2)

    def step(state, _):
        x, y = state
        new = [(y, x * 0.5 + y * 0.25), (y * 0.5, x), (jnp.sin(y), x)][k]
        return new, x

    (x, y), listed = lax.scan(step, (a.x, b.x), length=r.number(1, 4))
    return Number(r.one(x, y, listed), -9, 9)


@operation("ffi", 0.7)
def _while(r, v, held, count):
    """As many trips as a number says; JAX has no way back through these."""
    trips = jnp.abs(fitted(r, count, ()).x) % 4
    seed = r.number(0, 2**31)
    start = lax.stop_gradient(within(r, v, -9, 9).x)
    held = held.over(lax.stop_gradient)

    def body(state):
        k, x = state
        s = Choices(seed)
        made = inner(s, [Number(x, -9, 9), held])
        return k + 1, fitted(s, within(s, made, -9, 9), x.shape).x

    _, found = lax.while_loop(lambda s: s[0] < trips, body, (0 * trips, start))
    return Number(found, -9, 9)


@operation("ff", 0.4)
def _associative_scan(r, a, b):
    a = with_axes(r, within(r, a, -2, 2), 1)
    x = lax.associative_scan(r.one(jnp.add, jnp.maximum), a.x, reverse=r.chance(0.3))
    return Number(x, -2 * a.shape[0], 2 * a.shape[0])


@operation("f", 1.0)
def _constant(r, v):
    """What goes together with numbers that are the same in every run."""
    rng = np.random.default_rng(r.number(0, 99))
    shape = r.one(v.shape, v.shape, v.shape[-1:], ())
    kind = r.number(0, 3)
    if kind == 0 and len(v.shape) == 1:
        matrix = rng.normal(size=(r.number(1, 5), *v.shape)).astype(np.float32)
        bound = 4 * v.size * v.shape[0]
        return Number(r.one(matrix, np.ones_like(matrix)) @ v.x, -bound, bound)
    array = np.float32(r.one(rng.normal(size=shape), np.ones(shape), np.zeros(shape)))
    if kind == 1:
        return Number(v.x * array, -4 * v.size, 4 * v.size)
    if kind == 2:
        places = rng.integers(0, 2, v.shape).astype(bool)
        return Number(jnp.where(places, v.x, array), v.low - 4, v.high + 4)
    return Number(v.x + array, v.low - 4, v.high + 4)


@operation("f", 0.4)
def _slope(r, v):
    """A derivative within a function."""
    v = within(r, v, -2, 2)
    f = r.one(jnp.tanh, jnp.sin, lambda x: x * x * x, jnp.exp)
    return Number(jax.grad(lambda x: f(x).sum())(v.x), -12, 12)
