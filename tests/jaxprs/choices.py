"""What operations of random functions choose from, and how operands come to fit.

An operation is a function of random choices `r` and of `Number`s, arrays with bounds of
their numbers; it makes a `Number`, too. It brings operands into shapes and ranges in
which it makes sense: a logarithm has no negative numbers to expect. Choices follow from
`r` alone, so that a function that is traced again is the same.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

MOST = 240  # numbers of an array
ANY = (-30.0, 30.0)


@dataclass(frozen=True)
class Number:
    """An array, and what its numbers lie between, as far as that is known."""

    x: Any
    low: float = -30.0
    high: float = 30.0

    @property
    def shape(self):
        return self.x.shape

    @property
    def size(self):
        return max(abs(self.low), abs(self.high))

    @property
    def kind(self):
        return np.dtype(self.x.dtype).kind

    def over(self, f):
        """What `f` makes of the array, of the same numbers."""
        return replace(self, x=f(self.x))


class Choices:
    """Choices that follow from a seed."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def one(self, *several):
        return several[self.rng.integers(len(several))]

    def number(self, low, high):
        """Of the ints from `low` to `high`."""
        return int(self.rng.integers(low, high + 1))

    def chance(self, share=0.5):
        return bool(self.rng.random() < share)

    def some(self, count, least=0):
        """Some of so many axes, in order."""
        chosen = self.rng.permutation(count)[: self.number(least, count)]
        return tuple(sorted(map(int, chosen)))

    def order(self, count):
        return tuple(map(int, self.rng.permutation(count)))

    def shape(self, axes=None, most=4):
        axes = self.number(0, 3) if axes is None else axes
        return tuple([self.number(1, most) for _ in range(axes)])


@dataclass(frozen=True)
class Operation:
    """`kinds` of operands: f, i, u, b; a: any; s: that of the one that may be any."""

    kinds: str
    weight: float
    run: Callable


OPERATIONS: dict[str, Operation] = {}


def operation(kinds, weight=1.0, name=None):
    """Have a function drawn; see `Operation`."""

    def note(run):
        OPERATIONS[name or run.__name__.removeprefix("_")] = Operation(
            kinds, weight, run
        )
        return run

    return note


# Operands that fit --------------------------------------------------------------------


def wide():
    """float32, or float64 where that is asked for."""
    return jnp.result_type(float)


def of_kind(r, v, kind):
    """Numbers of a kind, made of those of another."""
    if kind in (v.kind, "a"):
        return v
    if v.kind == "f":
        if kind == "b":
            return Number(v.x > r.one(0.0, 0.5, -0.5), 0, 1)
        scale = r.one(1, 2, 3)
        x = lax.round(within(r, v, -9, 9).x * scale).astype(jnp.int32)
        v = Number(x, -27, 27)
    if kind == "b":
        return Number(v.x > 0 if r.chance() else (v.x & 1) == 1, 0, 1)
    if kind == "i":
        return v.over(lambda x: x.astype(jnp.int32))
    if kind == "u":
        if v.low < 0:
            v = Number(v.x if r.chance(0.3) else jnp.abs(v.x), 0, 2**31)
        return v.over(lambda x: x.astype(jnp.uint32))
    x = v.x.astype(wide())
    return within(r, replace(v, x=x), -30, 30)


def short(number):
    """A number that is the same in float32 and in float64."""
    return float(np.float32(number))


def within(r, v, low, high):
    """Floats from `low` to `high`; others stay."""
    if v.kind != "f":
        return v
    if v.low >= low and v.high <= high:
        return v
    way, middle, half = r.number(0, 3), short((low + high) / 2), (high - low) / 2
    if way == 0:
        return Number(jnp.clip(v.x, low, high), low, high)
    if way == 1:
        return Number(middle + short(0.98 * half) * jnp.tanh(v.x), low, high)
    if way == 2:
        return Number(middle + short(0.98 * half) * jnp.sin(v.x), low, high)
    scale = 2.0 ** np.floor(np.log2(0.98 * half / max(v.high - v.low, 1e-3)))
    shift = short(middle - scale * (v.low + v.high) / 2)
    return Number(v.x * scale + shift, low, high)


def fitted(r, v, shape):
    """Numbers in another shape, by one way of many."""
    shape = tuple(shape)
    if v.shape == shape:
        return v
    x, size = v.x, prod(shape)
    if sorted(x.shape) == sorted(shape) and r.chance(0.7):
        rest, axes = [*x.shape], []
        for n in shape:
            axes.append(rest.index(n))
            rest[axes[-1]] = None
        return replace(v, x=x.transpose(axes))
    if x.ndim <= len(shape):
        pairs = zip(x.shape[::-1], shape[::-1], strict=False)
        if all(n in (1, m) for n, m in pairs) and r.chance(0.8):
            return replace(v, x=jnp.broadcast_to(x, shape))
    x = x.reshape(-1)
    if x.size > size:
        step = r.number(1, (x.size - 1) // max(1, size - 1)) if size > 1 else 1
        first = r.number(0, x.size - 1 - (size - 1) * step)
        x = x[first : first + (size - 1) * step + 1 : step]
    elif x.size < size:
        way = r.number(0, 2)
        if way == 0:
            x = jnp.tile(x, -(-size // x.size))[:size]
        elif way == 1 and v.kind != "b":
            low = r.number(0, size - x.size)
            x = jnp.pad(x, (low, size - x.size - low))
            v = replace(v, low=min(v.low, 0), high=max(v.high, 0))
        else:
            x = x[np.arange(size) * r.one(1, 3) % x.size]
    return replace(v, x=x.reshape(shape))


def small(r, v):
    """Not too many numbers, of not too many axes."""
    if v.x.ndim > 5:
        v = v.over(lambda x: x.reshape(*x.shape[:4], -1))
    if v.x.size > MOST:
        v = fitted(r, v, r.shape(r.number(1, 3), 5))
    return v


def like(r, v, other, share=0.4):
    """Numbers that go together with those of another array, number by number."""
    if r.chance(share):
        return fitted(r, v, other.shape)
    rank = len(other.shape)
    shape = [1 if r.chance(0.3) else n for n in other.shape[r.number(0, rank) :]]
    return fitted(r, v, shape)


def with_axes(r, v, least, most=4):
    """At least so many axes."""
    if least <= len(v.shape) <= most:
        return v
    return fitted(r, v, r.shape(r.number(least, min(most, max(least, 3)))))


def ends(f, *bounds):
    """(low, high) of what a NumPy function makes of numbers within bounds."""
    count = 33 if len(bounds) == 1 else 9
    grids = np.meshgrid(*[np.linspace(*b, count) for b in bounds])
    with np.errstate(all="ignore"):
        found = f(*grids)
    found = found[np.isfinite(found)]
    if not found.size:
        return ANY
    low, high = float(found.min()), float(found.max())
    rim = 0.1 * (high - low)
    return low - rim if low < 0 else low * 0.9, high + rim


def operands_of(r, chosen, values):
    """Values as an operation takes them."""
    found = []
    for v, kind in zip(values, chosen.kinds, strict=True):
        if kind == "s":
            kind = found[chosen.kinds.index("a")].kind
        found.append(of_kind(r, v, kind))
    return found


def names_by_weight():
    """The names of all operations, and how often each is drawn."""
    weights = np.array([o.weight for o in OPERATIONS.values()])
    return [*OPERATIONS], weights / weights.sum()


def shapes_of_input(r):
    """Of an input: few and small axes most of the time."""
    shape = [*r.shape(r.one(0, 1, 1, 2, 2, 2, 3, 4), 5)]
    while prod(shape) > 60:
        shape[int(np.argmax(shape))] -= 1
    if r.chance(0.05) and shape:
        shape = [1] * len(shape)
        shape[r.number(0, len(shape) - 1)] = r.one(17, 64)
    return tuple(shape)
