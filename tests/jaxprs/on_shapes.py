"""Operations along axes, and on shapes."""

from dataclasses import replace
from math import prod

import jax.numpy as jnp
import numpy as np
from choices import Number, fitted, of_kind, operation, with_axes, within
from jax import lax


@operation("f", 3.0)
def _reduce(r, v):
    axes = r.some(len(v.shape))
    kind = r.one("sum", "sum", "max", "min", "mean", "prod", "var")
    count = prod([v.shape[k] for k in axes])
    kept = r.chance(0.3)
    if kind == "prod":
        v = within(r, v, -1.5, 1.5)
        if count > 12:
            return v
        return Number(jnp.prod(v.x, axes, keepdims=kept), -(1.5**12), 1.5**12)
    found = getattr(jnp, kind)(v.x, axes, keepdims=kept)
    if kind in ("max", "min", "mean"):
        return replace(v, x=found)
    if kind == "var":
        return Number(found, 0, 4 * v.size**2)
    return Number(found, -v.size * count, v.size * count)


@operation("a", 2.5)
def _scan_of_numbers(r, v):
    v = with_axes(r, v, 1)
    axis, reverse = r.number(0, len(v.shape) - 1), r.chance(0.4)
    names = "cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"
    name = r.one(*names) if v.kind == "f" else "cumsum"
    if v.kind == "b":
        v = of_kind(r, v, "i")
    if name == "cumprod":
        v = within(r, v, -1.5, 1.5)
    found = getattr(lax, name)(v.x, axis=axis, reverse=reverse)
    bound = {"cumsum": v.size * v.shape[axis], "cumprod": 1.5 ** v.shape[axis]}
    bound = bound.get(name, v.size + 6)
    return Number(found, -bound, bound)


@operation("a", 1.0)
def _place_of_extreme(r, v):
    v = with_axes(r, v, 1)
    axis = r.number(0, len(v.shape) - 1)
    if v.kind == "u":
        v = of_kind(r, v, "i")
    found = r.one(jnp.argmax, jnp.argmin)(v.x, axis=axis, keepdims=r.chance(0.3))
    return Number(found.astype(jnp.int32), 0, v.shape[axis])


# Shapes -------------------------------------------------------------------------------


def factors(r, size):
    """A shape of so many numbers."""
    shape = []
    while size > 1:
        n = r.one(*[k for k in range(2, size + 1) if size % k == 0])
        shape.append(n)
        size //= n
    for _ in range(r.number(0, 2)):
        shape.insert(r.number(0, len(shape)), 1)
    return tuple(shape[:4]) + ((prod(shape[4:]),) if shape[4:] else ())


@operation("a", 2.0)
def _reshape(r, v):
    shape = factors(r, v.x.size)
    if r.chance(0.2) and v.x.ndim > 1:
        order = r.order(v.x.ndim)
        return v.over(lambda x: lax.reshape(x, shape, order))
    return v.over(lambda x: x.reshape(shape))


@operation("a", 2.0)
def _transpose(r, v):
    return v.over(lambda x: x.transpose(r.order(x.ndim)))


@operation("a", 1.5)
def _broadcast(r, v):
    rank = len(v.shape)
    shape = [r.number(2, 4) if n == 1 and r.chance(0.6) else n for n in v.shape]
    axes = [*range(rank)]
    for _ in range(r.number(0, 2)):
        if prod(shape) > 60:
            break
        at = r.number(0, len(shape))
        shape.insert(at, r.number(1, 4))
        axes = [k + (k >= at) for k in axes]
    return v.over(lambda x: lax.broadcast_in_dim(x, shape, axes))


@operation("a", 1.0)
def _squeeze(r, v):
    ones = [k for k, n in enumerate(v.shape) if n == 1]
    if ones and r.chance(0.7):
        axes = [ones[k] for k in r.some(len(ones), 1)]
        return v.over(lambda x: lax.squeeze(x, axes))
    at = r.number(0, len(v.shape))
    return v.over(lambda x: lax.expand_dims(x, (at,)))


@operation("a", 2.5)
def _slice(r, v):
    v = with_axes(r, v, 1)
    at = []
    for n in v.shape:
        first = r.number(0, n - 1)
        step = r.one(1, 1, 2, 3)
        if r.chance(0.2):
            at.append(first)
        elif r.chance(0.2):
            at.append(slice(None, None, -1))
        else:
            at.append(slice(first, r.number(first + 1, n), step))
    return v.over(lambda x: x[tuple(at)])


@operation("a", 0.8)
def _rev(r, v):
    axes = r.some(len(v.shape))
    return v.over(lambda x: lax.rev(x, axes))


@operation("a", 0.8)
def _split(r, v):
    v = with_axes(r, v, 1)
    axis = r.number(0, len(v.shape) - 1)
    n = v.shape[axis]
    cuts = sorted({r.number(0, n), r.number(0, n)} - {0, n})
    sizes = np.diff([0, *cuts, n]).tolist()
    parts = lax.split(v.x, sizes, axis)
    if r.chance(0.3) and v.kind != "b":
        parts = jnp.unstack(v.x, axis=axis)
        return Number(sum(parts[1:], parts[0]), -v.size * n, v.size * n)
    order = r.order(len(parts))[: r.number(1, 3)]
    return replace(v, x=jnp.concatenate([parts[k] for k in order], axis))


@operation("as", 2.5)
def _concatenate(r, a, b):
    a = with_axes(r, a, 1)
    axis = r.number(0, len(a.shape) - 1)
    shape = [*a.shape]
    shape[axis] = r.number(1, 4)
    b = fitted(r, b, shape)
    several = [r.one(a, b) for _ in range(r.number(0, 1))]
    several = [v.x for v in (a, b, *several)]
    bounds = min(a.low, b.low), max(a.high, b.high)
    return Number(lax.concatenate(several, axis), *bounds)


@operation("as", 1.0)
def _stack(r, a, b):
    b = fitted(r, b, a.shape)
    axis = r.number(0, len(a.shape))
    bounds = min(a.low, b.low), max(a.high, b.high)
    several = [a.x, b.x, *[a.x] * r.number(0, 1)]
    return Number(jnp.stack(several, axis), *bounds)


@operation("as", 2.0)
def _pad(r, v, fill):
    config, sizes = [], []
    for n in v.shape:
        between = r.one(0, 0, 0, 1, 2)
        count = (n - 1) * (between + 1) + 1
        low = r.number(-2, 3) if r.chance(0.4) else r.number(0, 2)
        high = r.number(-2, 3) if r.chance(0.4) else r.number(0, 2)
        if low + count < 1 or high + count < 1 or low + count + high < 1:
            low = high = 0
        config.append((low, high, between))
        sizes.append(low + count + high)
    value = r.one(0.0, 0.0, 1.5, None)
    if value is None:
        x = fitted(r, fill, ()).x
    else:
        fill, x = Number(None, 0, value), jnp.array(value, v.x.dtype)
    bounds = min(v.low, fill.low), max(v.high, fill.high)
    return Number(lax.pad(v.x, x, config), *bounds)


@operation("a", 0.6)
def _tile(r, v):
    reps = [r.one(1, 1, 2, 3) for _ in range(r.number(1, 3))]
    return v.over(lambda x: jnp.tile(x, reps))


@operation("a", 0.5)
def _roll(r, v):
    v = with_axes(r, v, 1)
    axis = r.number(0, len(v.shape) - 1)
    return v.over(lambda x: jnp.roll(x, r.number(-3, 3), axis))


@operation("f", 0.5)
def _triangle(r, v):
    v = with_axes(r, v, 2)
    f, k = r.one(jnp.tril, jnp.triu), r.number(-1, 2)
    v = replace(v, low=min(v.low, 0), high=max(v.high, 0))
    return v.over(lambda x: f(x, k))
