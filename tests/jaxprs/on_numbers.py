"""Operations on numbers one by one."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from choices import (
    ANY,
    Number,
    ends,
    fitted,
    like,
    operation,
    short,
    wide,
    with_axes,
    within,
)
from jax import lax
from numbers_in_numpy import NUMBER_BY_NUMBER

DOMAINS = {
    "abs": ANY, "acos": (-0.95, 0.95), "acosh": (1.1, 9), "asin": (-0.95, 0.95),
    "asinh": ANY, "atan": ANY, "atanh": (-0.95, 0.95), "cbrt": (0.1, 9), "ceil": ANY,
    "cos": ANY, "cosh": (-4, 4), "digamma": (0.3, 9), "erf": ANY, "erfc": (-3, 3),
    "erf_inv": (-0.95, 0.95), "exp": (-9, 4), "exp2": (-9, 5), "expm1": (-9, 4),
    "floor": ANY, "lgamma": (0.3, 9), "log": (0.05, 99), "log1p": (-0.8, 99),
    "logistic": ANY, "neg": ANY, "rsqrt": (0.05, 99), "sign": ANY, "sin": ANY,
    "sinh": (-4, 4), "sqrt": (0.02, 99), "square": (-9, 9), "tan": (-1.2, 1.2),
    "tanh": ANY, "one_minus_square": (-9, 9),
}  # fmt: skip
WITHOUT_SECOND = {"digamma"}  # JAX has no byte code for their derivative


def _unary(name, domain):
    ours, numpy = getattr(lax, name), NUMBER_BY_NUMBER[name]

    def run(r, v):
        v = within(r, v, *domain)
        x = lax.stop_gradient(v.x) if name in WITHOUT_SECOND else v.x
        return Number(ours(x), *ends(numpy, (v.low, v.high)))

    return run


for _name, _domain in DOMAINS.items():
    if hasattr(lax, _name):
        operation("f", 0.6, _name)(_unary(_name, _domain))

BINARY = {
    "add": (ANY, ANY), "sub": (ANY, ANY), "mul": ((-9, 9), (-9, 9)),
    "div": (ANY, (0.3, 9)), "max": (ANY, ANY), "min": (ANY, ANY),
    "pow": ((0.1, 5), (-3, 3)), "atan2": ((0.1, 30), ANY),
}  # fmt: skip


def _binary(name, domains):
    ours, numpy = getattr(lax, name), NUMBER_BY_NUMBER[name]

    def run(r, a, b):
        b = like(r, b, a)
        a, b = [within(r, v, *d) for v, d in zip((a, b), domains, strict=True)]
        bounds = ends(numpy, (a.low, a.high), (b.low, b.high))
        if r.chance(0.1):  # a literal
            b = b.over(
                lambda x: jnp.full((), short((b.low + b.high) / 2 + 0.25), x.dtype)
            )
        x, y = jnp.broadcast_arrays(a.x, b.x) if r.chance() else (a.x, b.x)
        x, y = (x, y) if x.shape == y.shape else jnp.broadcast_arrays(x, y)
        return Number(ours(x, y), *bounds)

    return run


for _name, _domains in BINARY.items():
    operation("ff", 1.5, _name)(_binary(_name, _domains))


@operation("ff")
def _swapped(r, a, b):
    """What is not commutative, the other way round."""
    a = like(r, a, b)
    if r.chance():
        return Number(a.x - b.x, *ends(np.subtract, (a.low, a.high), (b.low, b.high)))
    b = within(r, b, 0.3, 9)
    return Number(a.x / b.x, *ends(np.divide, (a.low, a.high), (b.low, b.high)))


@operation("ff", 0.5)
def _rem(r, a, b):
    b = within(r, like(r, b, a), 0.6, 9)
    x, y = jnp.broadcast_arrays(a.x, b.x)
    return Number(lax.rem(x, y), -b.high, b.high)


@operation("ff", 0.3)
def _nextafter(r, a, b):
    x, y = jnp.broadcast_arrays(a.x, like(r, b, a).x)
    x, y = [lax.stop_gradient(v).astype(jnp.float32) for v in (x, y)]
    return replace(a, x=jnp.nextafter(x, y).astype(wide()))


@operation("f", 0.6)
def _round(r, v):
    method = r.one(*lax.RoundingMethod)
    return v.over(lambda x: lax.round(x, method))


@operation("f")
def _integer_pow(r, v):
    y = r.number(-3, 7)
    v = within(r, v, *((0.4, 3) if y < 0 else (-2, 2)))
    return Number(lax.integer_pow(v.x, y), -200, 200)


@operation("f", 0.4)
def _polynomial(r, v):
    if not hasattr(lax, "polynomial"):
        v = within(r, v, -3, 3)
        return Number(jnp.polyval(jnp.array([0.5, -2.0, 1.0]), v.x), -15, 15)
    return Number(lax.polynomial(within(r, v, -3, 3).x, [1.0, -2.0, 0.5]), -15, 15)


@operation("fff", 0.7)
def _clamp(r, low, v, high):
    shape = r.one((), v.shape)
    low = within(r, fitted(r, low, shape), -9, 0)
    high = within(r, fitted(r, high, shape), 0, 9)
    if not shape:  # JAX has no derivative by these
        low, high = low.over(lax.stop_gradient), high.over(lax.stop_gradient)
    return Number(lax.clamp(low.x, v.x, high.x), -9, 9)


@operation("f", 0.4)
def _bits(r, v):
    """The absolute value, by way of bits."""
    bits = lax.bitcast_convert_type(
        lax.stop_gradient(v.x).astype(jnp.float32), jnp.int32
    )
    x = lax.bitcast_convert_type(bits & 0x7FFFFFFF, jnp.float32).astype(wide())
    return Number(x, 0, v.size)


@operation("f", 0.4)
def _is_finite(r, v):
    if r.chance():
        v = v.over(lambda x: jnp.where(x > 1, r.one(jnp.inf, -jnp.inf, jnp.nan), x))
    return Number(lax.is_finite(v.x), 0, 1)


@operation("ff", 0.8)
def _not_finite(r, v, other):
    """Numbers that are not finite, as far as a mask goes."""
    odd = r.one(np.inf, -np.inf, np.nan)
    masked = jnp.where(v.x > r.one(0.0, 1.0), odd, v.x)
    f = r.one(jnp.maximum, jnp.minimum, jnp.add, jnp.multiply, jnp.atan2)
    x = f(masked, like(r, other, v).x)
    bad = jnp.isnan(x) | jnp.isinf(x)
    y = jnp.where(bad, jnp.where(jnp.isnan(x), 2.0, 3.0), x)
    return within(r, Number(lax.stop_gradient(y), -900, 900), -30, 30)


@operation("ff", 1.5)
def _compare(r, a, b):
    f = r.one(lax.eq, lax.ne, lax.lt, lax.le, lax.gt, lax.ge)
    b = like(r, b, a)
    if r.chance(0.3):
        b = b.over(lambda y: jnp.where(y > 0, a.x, y))
    return Number(f(*jnp.broadcast_arrays(a.x, b.x)), 0, 1)


@operation("bas", 1.5)
def _select(r, which, a, b):
    b = like(r, b, a)
    which = like(r, which, a)
    bounds = min(a.low, b.low), max(a.high, b.high)
    if r.chance(0.2):
        which = fitted(r, which, ())
        x, y = jnp.broadcast_arrays(a.x, b.x)
        return Number(lax.select_n(which.x, x, y), *bounds)
    return Number(jnp.where(which.x, a.x, b.x), *bounds)


@operation("ifff", 0.6)
def _select_n(r, which, *cases):
    cases = [fitted(r, v, cases[0].shape) for v in cases]
    which = fitted(r, which, r.one((), cases[0].shape))
    bounds = min(v.low for v in cases), max(v.high for v in cases)
    return Number(lax.select_n(jnp.clip(which.x, 0, 2), *[v.x for v in cases]), *bounds)


@operation("f", 1.5)
def _of_several(r, v):
    """Functions that JAX makes of others."""
    name = r.one(
        "relu",
        "elu",
        "softplus",
        "gelu",
        "silu",
        "selu",
        "log_sigmoid",
        "leaky_relu",
        "soft_sign",
        "relu6",
        "hard_tanh",
        "celu",
        "mish",
    )
    return Number(getattr(jax.nn, name)(v.x), -v.size - 2, v.size + 2)


@operation("f")
def _softmax(r, v):
    v = with_axes(r, v, 1)
    axis = r.number(0, len(v.shape) - 1)
    f = r.one(jax.nn.softmax, jax.nn.log_softmax, jax.nn.standardize)
    if f is jax.nn.standardize:
        return Number(f(v.x, axis, epsilon=0.1), -9, 9)
    if f is jax.nn.softmax:
        return Number(f(v.x, axis), 0, 1)
    return Number(f(v.x, axis), v.low - v.high - 6, 0)


@operation("f", 0.7)
def _logsumexp(r, v):
    v = with_axes(r, v, 1)
    axes = r.some(len(v.shape), 1)
    x = jax.nn.logsumexp(v.x, axes, keepdims=r.chance(0.3))
    return Number(x, v.low, v.high + 6)


@operation("f", 0.8)
def _same(r, v):
    def barrier(x):
        return lax.optimization_barrier(x)

    def copy(x):
        return jnp.array(x, copy=True)

    return v.over(r.one(lax.stop_gradient, copy, barrier, jax.device_put))


# Ints and bools -----------------------------------------------------------------------

FULL = (-(2.0**31), 2.0**31)


@operation("ii", 2.0)
def _ints(r, a, b):
    f = r.one(lax.add, lax.sub, lax.mul, lax.max, lax.min, lax.div, lax.rem,
              lax.bitwise_and, lax.bitwise_or, lax.bitwise_xor)  # fmt: skip
    b = like(r, b, a)
    found = f(*jnp.broadcast_arrays(a.x, b.x))
    bound = a.size * max(b.size, 1) + a.size + b.size + 64
    return Number(found, -bound, bound) if bound < 2**31 else Number(found, *FULL)


@operation("uu", 1.0)
def _unsigned(r, a, b):
    f = r.one(lax.add, lax.sub, lax.mul, lax.max, lax.min, lax.div, lax.rem,
              lax.bitwise_and, lax.bitwise_or, lax.bitwise_xor)  # fmt: skip
    x, y = jnp.broadcast_arrays(a.x, like(r, b, a).x)
    return Number(f(x, y), 0, 2.0**32)


@operation("ii", 1.0)
def _shift(r, a, b):
    f = r.one(lax.shift_left, lax.shift_right_arithmetic, lax.shift_right_logical)
    dtype = r.one(jnp.int32, jnp.uint32)
    x, y = jnp.broadcast_arrays(a.x, jnp.abs(like(r, b, a).x) % r.one(8, 40))
    return Number(f(x.astype(dtype), y.astype(dtype)), *FULL)


@operation("i", 1.5)
def _int(r, v):
    f = r.one(
        lax.neg,
        lax.abs,
        lax.sign,
        lax.bitwise_not,
        lax.population_count,
        lax.clz,
        partial(lax.integer_pow, y=r.number(0, 4)),
        partial(lax.clamp, np.int32(-3), max=np.int32(r.number(-2, 6))),
    )
    if isinstance(f, partial) and "max" in f.keywords:
        return Number(lax.clamp(np.int32(-3), v.x, f.keywords["max"]), -3, 6)
    dtype = jnp.int32
    if f not in (lax.abs,) and r.chance(0.3):
        dtype = jnp.uint32
    bound = min(v.size**4 + 33, 2.0**31)
    found = f(v.x.astype(dtype))
    return Number(found, *(FULL if dtype == jnp.uint32 else (-bound, bound)))


@operation("ii", 1.0)
def _compared_ints(r, a, b):
    f = r.one(lax.eq, lax.ne, lax.lt, lax.le, lax.gt, lax.ge)
    x, y = jnp.broadcast_arrays(a.x, like(r, b, a).x)
    if r.chance(0.3):
        x, y = x.astype(jnp.uint32), y.astype(jnp.uint32)
    return Number(f(x, y), 0, 1)


@operation("bb", 1.0)
def _bools(r, a, b):
    f = r.one(lax.bitwise_and, lax.bitwise_or, lax.bitwise_xor, lax.eq, lax.ne,
              lax.max, lax.min, lax.lt, lax.ge)  # fmt: skip
    return Number(f(*jnp.broadcast_arrays(a.x, like(r, b, a).x)), 0, 1)


@operation("b", 0.6)
def _bool(r, v):
    if r.chance():
        return Number(~v.x, 0, 1)
    axes = r.some(len(v.shape))
    return Number(r.one(jnp.any, jnp.all)(v.x, axis=axes), 0, 1)


@operation("bii", 0.6)
def _select_ints(r, which, a, b):
    bounds = min(a.low, b.low), max(a.high, b.high)
    return Number(jnp.where(like(r, which, a).x, a.x, like(r, b, a).x), *bounds)


@operation("i", 0.8)
def _reduced_ints(r, v):
    v = with_axes(r, v, 1)
    axis = r.number(0, len(v.shape) - 1)
    f = r.one(jnp.sum, jnp.max, jnp.min, jnp.argmax, jnp.argmin, jnp.cumsum)
    count = v.shape[axis]
    found = f(v.x, axis=axis).astype(jnp.int32)
    bound = min(v.size * count + count, 2.0**31)
    return Number(found, -bound, bound)


@operation("ii", 0.6)
def _product_of_ints(r, a, b):
    a, b = with_axes(r, a, 1, 2), with_axes(r, b, 1, 2)
    b = fitted(r, b, (a.shape[-1], *b.shape[1:]))
    found = a.x @ b.x
    bound = min(a.size * b.size * a.shape[-1], 2.0**31)
    return Number(found, -bound, bound)


@operation("f", 0.3)
def _numbered(r, v):
    """Ints of a grid."""
    shape = v.shape or (r.number(1, 5),)
    dtype = r.one(jnp.int32, jnp.uint32)
    axis = r.number(0, len(shape) - 1)
    return Number(lax.broadcasted_iota(dtype, shape, axis), 0, 64)
