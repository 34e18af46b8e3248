"""Operations on numbers one by one, and reductions."""

import jax
import jax.numpy as jnp
import numpy as np
from cases import BOX, Case, number, still
from jax import lax
from scipy import special

# JAX 0.11 has the first, JAX 0.12 the second, and older ones have not.
ONE_MINUS_SQUARE = [f for f in [getattr(lax, "one_minus_square", None)] if f]
POLYNOMIAL = [f for f in [getattr(lax, "polynomial", None)] if f]


def unary(ours, numpy, name=None, **about):
    """On rows whose number of numbers fills vectors, and does not."""
    return Case(name or ours.__name__, ours, numpy, (3, 7), **about)


def compared(name, ours, numpy):
    return Case(
        name,
        lambda x, y: number(ours(x, jnp.maximum(x, y))),
        lambda x, y: number(numpy(x, np.maximum(x, y))),
        (9,),
        (9,),
        smooth=False,
    )


def of_ints(name, ours, numpy, dtype=np.int32, low=-9.0, high=9.0, count=2):
    """An operation on integers."""

    def both(f):
        return lambda *xs: number(f(*[x.astype(dtype) for x in xs]))

    shapes = [(11,)] * count
    return Case(
        name, both(ours), both(numpy), *shapes, low=low, high=high, smooth=False
    )


def of_bools(name, ours, numpy, count=2):
    def both(f):
        return lambda *xs: number(f(*[x > 0 for x in xs]))

    return Case(name, both(ours), both(numpy), *[(4, 5)] * count, smooth=False)


def shifted(f, dtype):
    """The second operand is the number of bits."""
    return lambda x, y: f(x * 37, abs(y).astype(dtype) % 40)


def numpy_shift(left, dtype):
    def f(x, by):
        bits = x.astype(np.int64) & 0xFFFFFFFF
        moved = [
            (int(b) << int(n) if left else int(b) >> int(n)) & 0xFFFFFFFF
            if n < 32
            else 0
            for b, n in zip(bits, by, strict=True)
        ]
        return np.array(moved, np.uint32).astype(dtype)

    return f


def cumlogsumexp(x, axis):
    return np.logaddexp.accumulate(x, axis)


ELEMENTWISE = [
    unary(lax.abs, np.abs),
    unary(lax.acos, np.arccos, low=-0.9, high=0.9),
    unary(lax.acosh, np.arccosh, low=1.2, high=4),
    unary(lax.asin, np.arcsin, low=-0.9, high=0.9),
    unary(lax.asinh, np.arcsinh),
    unary(lax.atan, np.arctan),
    unary(lax.atanh, np.arctanh, low=-0.9, high=0.9),
    unary(lax.cbrt, np.cbrt, low=0.2),
    unary(lax.ceil, np.ceil),
    unary(lax.cos, np.cos),
    unary(lax.cosh, np.cosh),
    *[
        unary(still(lax.digamma), special.digamma, n, low=a, high=b, smooth=False)
        for n, a, b in (("digamma", 0.3, 9), ("digamma-", -2.9, -2.1))
    ],
    unary(lax.erf, special.erf),
    unary(lax.erf_inv, special.erfinv, low=-0.99, high=0.99),
    unary(lax.exp, np.exp),
    unary(lax.exp2, np.exp2),
    unary(lax.expm1, np.expm1),
    unary(lax.floor, np.floor),
    unary(lax.lgamma, special.gammaln, low=0.3, high=9),
    unary(lax.lgamma, special.gammaln, "lgamma-", low=-2.9, high=-2.1),
    unary(lax.log, np.log, low=0.2),
    unary(lax.log1p, np.log1p, low=-0.8),
    unary(lax.logistic, special.expit),
    unary(lax.neg, np.negative),
    unary(
        lambda x: lax.round(x), lambda x: np.sign(x) * np.floor(abs(x) + 0.5), "round"
    ),
    unary(
        lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN),
        np.rint,
        "round_even",
    ),
    unary(lax.rsqrt, lambda x: 1 / np.sqrt(x), low=0.2),
    unary(lax.sign, np.sign),
    unary(lax.sin, np.sin),
    unary(lax.sinh, np.sinh),
    unary(lax.sqrt, np.sqrt, low=0.2),
    unary(lax.square, np.square),
    *[unary(f, lambda x: 1 - x * x, "one_minus_square") for f in ONE_MINUS_SQUARE],
    *[
        unary(
            lambda x, f=f: f(x, [1.0, -2.0, 0.5]),
            lambda x: 1 - 2 * x + x * x / 2,
            "polynomial",
        )
        for f in POLYNOMIAL
    ],
    unary(lax.tan, np.tan, low=-1, high=1),
    unary(lax.tanh, np.tanh),
    unary(lambda x: number(lax.is_finite(x)), np.isfinite, "is_finite", smooth=False),
    unary(lambda x: lax.integer_pow(x, 1), lambda x: x, "integer_pow 1"),
    unary(lambda x: lax.integer_pow(x, 2), lambda x: x**2, "integer_pow 2"),
    unary(lambda x: lax.integer_pow(x, 7), lambda x: x**7, "integer_pow 7"),
    unary(lambda x: lax.integer_pow(x, -3), lambda x: x**-3, "integer_pow -3", low=0.5),
    unary(lambda x: lax.integer_pow(x, 0) * x, lambda x: x, "integer_pow 0"),
    unary(jax.nn.relu, lambda x: np.maximum(x, 0), "custom_jvp"),
    unary(jax.jit(jnp.tanh), np.tanh, "jit"),
    unary(jax.checkpoint(jnp.sin), np.sin, "checkpoint"),
    unary(lambda x: lax.stop_gradient(x) * x, np.square, "stop_gradient", smooth=False),
    unary(lambda x: lax.clamp(-0.5, x, 1.0), lambda x: np.clip(x, -0.5, 1), "clamp"),
    unary(
        lambda x: jnp.where(x > 0, x, 0.1 * x),
        lambda x: np.where(x > 0, x, 0.1 * x),
        "select_n",
    ),
    unary(
        lambda x: jnp.where(x[0] > 0, x, -x),
        lambda x: np.where(x[0] > 0, x, -x),
        "select_n by rows",
    ),
    unary(
        lambda x: jnp.where(x > 0, x[0, 0], x),
        lambda x: np.where(x > 0, x[0, 0], x),
        "select_n of a number",
    ),
    unary(
        lambda x: number(jnp.where(x > 0, (x > 0)[1, 1], x < -1)),
        lambda x: number(np.where(x > 0, (x > 0)[1, 1], x < -1)),
        "select_n of bools",
        smooth=False,
    ),
    unary(
        lambda x: lax.bitcast_convert_type(
            lax.bitcast_convert_type(x, jnp.int32) & 0x7FFFFFFF, jnp.float32
        ),
        np.abs,
        "bitcast",
        smooth=False,
    ),
    unary(lambda x: x * jnp.arange(7) + 1, lambda x: x * np.arange(7) + 1, "iota"),
    unary(lambda x: lax.neg(jnp.array(x, copy=True)), np.negative, "copy"),
    unary(lambda x: lax.optimization_barrier(x) * 2, lambda x: x * 2, "barrier"),
    Case("add", jnp.add, np.add, (13,), (13,)),
    Case("add numbers", lambda x, y: x + y[0], lambda x, y: x + y[0], (13,), (3,)),
    Case("sub", jnp.subtract, np.subtract, (13,), (13,)),
    Case("sub from", lambda x, y: y[1] - x, lambda x, y: y[1] - x, (13,), (3,)),
    Case("mul", jnp.multiply, np.multiply, (3, 5), (3, 5)),
    Case("mul rows", jnp.multiply, np.multiply, (3, 5), (5,)),
    Case("mul columns", jnp.multiply, np.multiply, (3, 1), (3, 5)),
    Case("div", jnp.divide, np.divide, (9,), (9,), low=0.5),
    Case("rem", lax.rem, np.fmod, (9,), (9,), low=0.6, smooth=False),
    Case("max", jnp.maximum, np.maximum, (9,), (9,)),
    Case("min", jnp.minimum, np.minimum, (9,), (9,)),
    Case("pow", lax.pow, np.power, (9,), (9,), low=0.4),
    Case(
        "pow of ints",
        lambda x: lax.pow(x, jnp.arange(9, dtype=jnp.int32)),
        lambda x: x ** np.arange(9),
        (9,),
        low=0.4,
        smooth=False,
    ),
    Case("atan2", lax.atan2, np.arctan2, (9,), (9,)),
    Case("nextafter", still(lax.nextafter), np.nextafter, (9,), (9,), smooth=False),
    compared("eq", lax.eq, np.equal),
    compared("ne", lax.ne, np.not_equal),
    compared("lt", lax.lt, np.less),
    compared("le", lax.le, np.less_equal),
    compared("gt", lax.gt, np.greater),
    compared("ge", lax.ge, np.greater_equal),
]
INT, UINT = np.int32, np.uint32


INTEGERS = [
    of_ints("abs i", lax.abs, np.abs, count=1),
    of_ints("neg i", lax.neg, np.negative, count=1),
    of_ints("sign i", lax.sign, np.sign, count=1),
    of_ints("not i", lax.bitwise_not, np.bitwise_not, count=1),
    of_ints("add i", lax.add, np.add),
    of_ints("sub i", lax.sub, np.subtract),
    of_ints("mul i", lax.mul, np.multiply),
    of_ints("div i", lambda x, y: lax.div(x, y | 1), lambda x, y: INT(x / (y | 1))),
    of_ints("div 0", lambda x, y: lax.div(x, y - y), lambda x, y: INT(x * 0 - 1)),
    of_ints("rem i", lambda x, y: lax.rem(x, y | 1), lambda x, y: np.fmod(x, y | 1)),
    of_ints("rem 0", lambda x, y: lax.rem(x, y - y), lambda x, y: x),
    of_ints("max i", lax.max, np.maximum),
    of_ints("min i", lax.min, np.minimum),
    of_ints("clamp i", lambda x: lax.clamp(-2, x, 3), lambda x: x.clip(-2, 3), count=1),
    of_ints("power i", lambda x: lax.integer_pow(x, 3), lambda x: x**3, count=1),
    of_ints("power 0", lambda x: lax.integer_pow(x, 0) + x, lambda x: x + 1, count=1),
    *[
        of_ints(f"{name} i", getattr(lax, name), f)
        for name, f in (
            ("eq", np.equal),
            ("ne", np.not_equal),
            ("lt", np.less),
            ("le", np.less_equal),
            ("gt", np.greater),
            ("ge", np.greater_equal),
            ("bitwise_and", np.bitwise_and),
            ("bitwise_or", np.bitwise_or),
            ("bitwise_xor", np.bitwise_xor),
        )
    ],
    of_ints("shl", shifted(lax.shift_left, INT), shifted(numpy_shift(True, INT), INT)),
    of_ints(
        "shr",
        shifted(lax.shift_right_logical, INT),
        shifted(numpy_shift(False, INT), INT),
    ),
    of_ints(
        "shr_a",
        shifted(lax.shift_right_arithmetic, INT),
        shifted(lambda x, n: x >> np.minimum(n, 31), INT),
    ),
    # the last of these are above 2^31
    *[
        of_ints(f"{name} u", f, g, UINT, 0, 4.2e9)
        for name, f, g in (
            ("div", lambda x, y: x // (y >> 8), lambda x, y: x // (y >> UINT(8))),
            ("rem", lambda x, y: x % (y >> 8), lambda x, y: x % (y >> UINT(8))),
            ("max", lax.max, np.maximum),
            ("min", lax.min, np.minimum),
            ("lt", lax.lt, np.less),
            ("le", lax.le, np.less_equal),
            ("gt", lax.gt, np.greater),
            ("ge", lax.ge, np.greater_equal),
            ("sign", lambda x, y: lax.sign(x), lambda x, y: np.sign(x)),
            ("signed", lambda x, y: x.astype(INT), lambda x, y: x.astype(INT)),
            ("bool", lambda x, y: x.astype(bool), lambda x, y: x != 0),
            (
                "of bools",
                lambda x, y: (x > y).astype(UINT),
                lambda x, y: (x > y) * UINT(1),
            ),
        )
    ],
    of_bools("and b", lax.bitwise_and, np.logical_and),
    of_bools("or b", lax.bitwise_or, np.logical_or),
    of_bools("xor b", lax.bitwise_xor, np.logical_xor),
    of_bools("not b", lax.bitwise_not, np.logical_not, count=1),
    of_bools("max b", lax.max, np.maximum),
    of_bools("min b", lax.min, np.minimum),
    of_bools("lt b", lax.lt, np.less),
    of_bools("all", lambda x: x.all(0), lambda x: x.all(0), count=1),
    of_bools("any", lambda x: x.any(1), lambda x: x.any(1), count=1),
    of_bools("reduce_max b", lambda x: x.max(0), lambda x: x.max(0), count=1),
    of_bools("reduce_min b", lambda x: x.min(0), lambda x: x.min(0), count=1),
    of_bools("int of bools", lambda x: x.astype(INT), lambda x: x.astype(INT), count=1),
    of_ints("reduce_max i", lambda x: x.max(0)[None], lambda x: x.max()[None], count=1),
    of_ints("reduce_min i", lambda x: x.min(0)[None], lambda x: x.min()[None], count=1),
    of_ints("reduce_sum i", lambda x: x.sum(0)[None], lambda x: x.sum()[None], count=1),
    of_ints("cumsum i", lambda x: jnp.cumsum(x), lambda x: np.cumsum(x), count=1),
    of_ints("sort i", lax.sort, np.sort, count=1),
    of_ints("bool of ints", lambda x: x.astype(bool), lambda x: x != 0, count=1),
]
REDUCTIONS = [
    Case(f"{ours.__name__} {axes}", lambda x, f=ours, a=axes: f(x, axis=a),
         lambda x, g=numpy, a=axes: g(x, axis=a), BOX, smooth=smooth)
    for ours, numpy, smooth in (
        (jnp.sum, np.sum, True),
        (jnp.max, np.max, True),
        (jnp.min, np.min, True),
        (jnp.prod, np.prod, True),
    )
    for axes in (0, 1, 2, (0, 1), (1, 2), (0, 2), (0, 1, 2))
] + [
    Case(
        f"{name} {axis}",
        lambda x, f=f, a=axis: number(f(x, axis=a)),
        lambda x, f=g, a=axis: number(f(x, axis=a)),
        BOX,
        smooth=False,
    )
    for name, f, g in (
        ("argmax", jnp.argmax, np.argmax),
        ("argmin", jnp.argmin, np.argmin),
    )
    for axis in (0, 1, 2)
] + [
    Case(
        f"{f.__name__} {axis} {reverse}",
        lambda x, f=f, a=axis, r=reverse: f(x, axis=a, reverse=r),
        lambda x, g=g, a=axis, r=reverse: (
            np.flip(g(np.flip(x, a), a), a) if r else g(x, a)
        ),
        BOX,
    )
    for f, g in (
        (lax.cumsum, np.cumsum),
        (lax.cumprod, np.cumprod),
        (lax.cummax, np.maximum.accumulate),
        (lax.cummin, np.minimum.accumulate),
        (lax.cumlogsumexp, cumlogsumexp),
    )
    for axis in (0, 1, 2)
    for reverse in (False, True)
]  # fmt: skip

CASES = [*ELEMENTWISE, *INTEGERS, *REDUCTIONS]
