"""Products, windows, factors of matrices, and random numbers."""

from math import prod

import jax
import jax.numpy as jnp
import numpy as np
from choices import Number, fitted, operation, wide, with_axes, within
from jax import lax


@operation("ff", 4.0)
def _dot_general(r, a, b):
    lines, sums = r.number(0, 1), r.number(0, 2)
    a = fitted(r, a, [r.number(1, 4) for _ in range(lines + sums + r.number(0, 2))])
    own = r.order(len(a.shape))[: lines + sums]
    sizes = [a.shape[k] for k in own] + [*r.shape(r.number(0, 2))]
    order = r.order(len(sizes))
    b = fitted(r, b, [sizes[k] for k in order])
    others = [order.index(k) for k in range(lines + sums)]
    numbers = (own[lines:], others[lines:]), (own[:lines], others[:lines])
    found = lax.dot_general(a.x, b.x, numbers)
    bound = a.size * b.size * prod([a.shape[k] for k in own[lines:]])
    return Number(found, -bound, bound)


@operation("ff", 3.0)
def _matmul(r, a, b):
    a, b = with_axes(r, a, 1, 3), with_axes(r, b, 1, 2)
    b = fitted(r, b, (a.shape[-1], *b.shape[1:]))
    bound = a.size * b.size * a.shape[-1]
    if r.chance(0.3) and len(b.shape) > 1:
        return Number(b.x.T @ jnp.swapaxes(jnp.atleast_2d(a.x), -1, -2), -bound, bound)
    return Number(a.x @ b.x, -bound, bound)


@operation("ff", 0.8)
def _outer(r, a, b):
    a, b = fitted(r, a, r.shape(1)), fitted(r, b, r.shape(1))
    bound = a.size * b.size
    return Number(jnp.outer(a.x, b.x), -bound, bound)


@operation("ff", 1.5)
def _convolution(r, a, b):
    count = r.number(1, 2)
    groups = r.one(1, 1, 2)
    lines = r.one(1, 1, 2) if groups == 1 else 1
    reads, made = r.number(1, 2), groups * lines * r.number(1, 2)
    whole = [r.number(1, 5) for _ in range(count)]
    window = [r.number(1, 3) for _ in range(count)]
    spread = [r.one(1, 1, 2) for _ in range(count)]
    apart = [r.one(1, 1, 2) for _ in range(count)]
    steps = [r.one(1, 1, 2) for _ in range(count)]
    padding = []
    for n, m, s, t in zip(whole, window, spread, apart, strict=True):
        low, high = r.number(0, 2), r.number(-1, 2)
        lack = (m - 1) * s + 1 - ((n - 1) * t + 1 + low + high)
        padding.append((low, high + max(0, lack)))
    names = "NCHW"[: 2 + count], "OIHW"[: 2 + count], "NCHW"[: 2 + count]
    numbers = lax.conv_dimension_numbers(
        (lines * r.number(1, 2), reads * groups, *whole), (made, reads, *window), names
    )
    batch = lines * r.number(1, 2)
    orders = [r.order(2 + count) for _ in range(3)]
    numbers = lax.ConvDimensionNumbers(*orders)
    left, right = [0] * (2 + count), [0] * (2 + count)
    for axis, n in zip(orders[0], (batch, reads * groups, *whole), strict=True):
        left[axis] = n
    for axis, n in zip(orders[1], (made, reads, *window), strict=True):
        right[axis] = n
    a, b = fitted(r, a, left), fitted(r, b, right)
    found = lax.conv_general_dilated(
        a.x, b.x, steps, padding, lhs_dilation=apart, rhs_dilation=spread,
        dimension_numbers=numbers, feature_group_count=groups, batch_group_count=lines,
    )  # fmt: skip
    bound = a.size * b.size * reads * prod(window)
    return Number(found, -bound, bound)


@operation("f", 1.5)
def _pool(r, v):
    v = with_axes(r, v, 1, 3)
    name = r.one("max", "min", "sum")
    f, none = {
        "max": (lax.max, -jnp.inf), "min": (lax.min, jnp.inf), "sum": (lax.add, 0.0),
    }[name]  # fmt: skip
    window = [r.number(1, min(3, n)) for n in v.shape]
    steps = [r.one(1, 1, 2) for _ in v.shape]
    padding = [(r.number(0, m - 1), r.number(0, m - 1)) for m in window]
    kinds = {}
    if name == "sum" and r.chance(0.3):
        kinds = {"window_dilation": [1 if n < 4 else 2 for n in v.shape]}
        window = [min(m, 2) for m in window]
        padding = [(0, 1) if m > 1 else (0, 0) for m in window]
    found = lax.reduce_window(v.x, none, f, window, steps, padding, **kinds)
    bound = v.size * (prod(window) if name == "sum" else 1)
    return Number(found, -bound, bound)


# Matrices -----------------------------------------------------------------------------


def square(r, v, lead=()):
    n = r.number(1, 4)
    return within(r, fitted(r, v, (*lead, n, n)), -2, 2)


def regular(r, v):
    """Matrices that are far from having no inverse."""
    v = square(r, v, r.one((), (), (2,)))
    n = v.shape[-1]
    way = np.roll(np.eye(n), r.number(0, n - 1), -1) * (2 * n + 1)
    return Number(v.x + way.astype(np.float32), -2 * n - 3, 2 * n + 3)


@operation("f", 0.7)
def _cholesky(r, v):
    v = square(r, v, r.one((), (), (2,)))
    n = v.shape[-1]
    x = v.x @ jnp.swapaxes(v.x, -1, -2) + jnp.eye(n, dtype=v.x.dtype)
    x = lax.linalg.cholesky(x, symmetrize_input=r.chance())
    return Number(x, -9, 9)


@operation("ff", 0.7)
def _solve(r, a, b):
    a = regular(r, a)
    lead, n = a.shape[:-2], a.shape[-1]
    b = fitted(r, b, (*lead, n, r.number(1, 3)))
    return Number(jnp.linalg.solve(a.x, b.x), -2 * b.size, 2 * b.size)


@operation("ff", 0.8)
def _triangular_solve(r, a, b):
    a = square(r, a, r.one((), (), (2,)))
    lead, n = a.shape[:-2], a.shape[-1]
    x = a.x + 4 * jnp.eye(n, dtype=a.x.dtype)
    left, unit = r.chance(), r.chance(0.3)
    x = a.x * 0.4 if unit else x
    shape = (n, r.number(1, 3)) if left else (r.number(1, 3), n)
    b = fitted(r, b, (*lead, *shape))
    found = lax.linalg.triangular_solve(
        x, b.x, left_side=left, lower=r.chance(), transpose_a=r.chance(),
        unit_diagonal=unit,
    )  # fmt: skip
    return Number(found, -9 * b.size, 9 * b.size)


@operation("f", 0.6)
def _determinant(r, v):
    v = regular(r, v)
    way = r.number(0, 2)
    if way == 0:
        return Number(jnp.linalg.inv(v.x), -2, 2)
    sign, size = jnp.linalg.slogdet(v.x)
    return Number(size, -9, 15) if way == 1 else Number(sign, -1, 1)


@operation("f", 0.5)
def _factors(r, v):
    if r.chance():
        v = regular(r, v)
    else:  # which may have no slope
        v = within(r, fitted(r, v, r.shape(2)), -3, 3).over(lax.stop_gradient)
    factors, pivots, order = lax.linalg.lu(v.x)
    way = r.number(0, 2)
    if way == 0:
        return Number(factors, -9, 9)
    return Number(r.one(pivots, order), 0, 5)


# Random numbers -----------------------------------------------------------------------


@operation("f", 0.4)
def _noise(r, v):
    """Random numbers of a known seed."""
    key = jax.random.key(r.number(0, 9))
    if r.chance():
        key = jax.random.wrap_key_data(jax.random.key_data(key))
    f = r.one(jax.random.uniform, jax.random.normal, jax.random.gumbel)
    noise = f(key, v.shape, jnp.float32).astype(v.x.dtype)
    return Number(v.x + noise, v.low - 6, v.high + 20)


def drawn(r, key, shape):
    """Random numbers of a key that each lane has."""
    key = jax.random.wrap_key_data(key)
    f = r.one(jax.random.uniform, jax.random.normal)
    return Number(f(key, shape, jnp.float32).astype(wide()), -6, 6)
