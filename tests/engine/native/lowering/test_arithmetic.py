"""Numbers one by one, and reductions, beside what `cases_of_numbers` has."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from bench import Run
from cases import number
from computed import check, of_ints, of_ints_in_numpy
from jax import lax

pytestmark = pytest.mark.usefixtures("natively")

X = np.array([0.7, -1.3, 0.4, 1.1, -0.2, 2.6])
M = X.reshape(2, 3)


@pytest.mark.parametrize(
    ("function", "formula"),
    [
        (
            lambda x: lax.population_count(x),
            np.vectorize(lambda n: bin(int(n) & 0xFFFFFFFF).count("1")),
        ),
        (
            lambda x: lax.clz(x),
            np.vectorize(lambda n: 32 - (int(n) & 0xFFFFFFFF).bit_length()),
        ),
        (lambda x: jnp.argmax(x), np.argmax),
        (lambda x: jnp.argmin(x), np.argmin),
        (lambda x: jnp.argmax(x > 0), lambda x: np.argmax(x > 0)),
        (
            lambda x: jnp.stack([lax.eq(x, x), x < x[::-1]]),
            lambda x: np.stack([x == x, x < x[::-1]]),
        ),
    ],
)
def test_ints(function, formula):
    check(of_ints(function), of_ints_in_numpy(formula), X, smooth=False)


def test_one_of_several_cases():
    def function(x):
        which = jnp.clip(jnp.floor(lax.stop_gradient(x)) + 1, 0, 3).astype(jnp.int32)
        return lax.select_n(which, x, x * x, jnp.sin(x), 2 * x)

    def formula(x):
        which = np.clip(np.floor(x) + 1, 0, 3).astype(int)
        return np.choose(which, [x, x * x, np.sin(x), 2 * x])

    check(function, formula, X)


def test_what_erf_leaves():
    from math import erfc

    check(
        lambda x: jax.scipy.special.erfc(3 * x) * 1e3,
        lambda x: np.vectorize(erfc)(3 * x) * 1e3,
        X,
        rtol=1e-3,
        atol=1e-3,
    )


def test_a_sum_over_no_axis():
    check(lambda x: jnp.sum(x, axis=()), lambda x: x, X)


def test_a_product_of_a_matrix():
    check(lambda x: jnp.prod(x), lambda x: np.prod(x), M)


ODD = np.array([0.0, -0.0, 1.5, -1.5, np.inf, -np.inf, np.nan, 1e-40], np.float32)


def special(name, ours, numpy):
    """On zeros, infinities, NaN and a number below the normal ones."""
    return pytest.param(ours, numpy, id=name)


def logistic(x):
    return 1 / (1 + np.exp(-x))


@pytest.mark.parametrize(
    ("ours", "numpy"),
    [
        special("exp", lax.exp, np.exp),
        special("log", lax.log, np.log),
        special("tanh", lax.tanh, np.tanh),
        special("logistic", lax.logistic, logistic),
        special("sqrt", lax.sqrt, np.sqrt),
        special("sign", lax.sign, np.sign),
        special("floor", lax.floor, np.floor),
        special("is_finite", lambda x: number(jnp.isfinite(x)), np.isfinite),
        special("max", lambda x: jnp.maximum(x, 1), lambda x: np.maximum(x, 1)),
        special("max of NaN", lambda x: lax.max(x[6], x), lambda x: x * np.nan),
        special("min", lambda x: jnp.minimum(1, x), lambda x: np.minimum(1, x)),
        special("eq", lambda x: number(x == x), lambda x: x == x),
        special("ne", lambda x: number(x != x), lambda x: x != x),
        special("lt", lambda x: number(x < 1), lambda x: x < 1),
        special("bool", lambda x: number(x.astype(bool)), lambda x: x.astype(bool)),
        special("reduce_max", lambda x: x[:6].max()[None], lambda x: [np.inf]),
        special("reduce_max of NaN", lambda x: x.max()[None], lambda x: [np.nan]),
        special("reduce_min", lambda x: x[:6].min()[None], lambda x: [-np.inf]),
        special("reduce_min of NaN", lambda x: x.min()[None], lambda x: [np.nan]),
        special("reduce_sum", lambda x: x[:5].sum()[None], lambda x: [np.inf]),
        special("argmax", lambda x: number(x.argmax()[None]), lambda x: [6]),
        special("argmin", lambda x: number(x.argmin()[None]), lambda x: [6]),
        special("argmax of infinity", lambda x: number(x[:6].argmax()[None]),
                lambda x: [4]),
        special("cumsum", lambda x: jnp.cumsum(x), np.cumsum),
        special("cumprod", lambda x: jnp.cumprod(x), np.cumprod),
        special("cummax", lambda x: lax.cummax(x), np.maximum.accumulate),
        special("cummin", lambda x: lax.cummin(x), np.minimum.accumulate),
        special("cummax back", lambda x: lax.cummax(x[::-1]),
                lambda x: np.maximum.accumulate(x[::-1])),
        special("cumlogsumexp", lambda x: lax.cumlogsumexp(x),
                lambda x: np.logaddexp.accumulate(x)),
        special("cumlogsumexp of nothing", lambda x: lax.cumlogsumexp(x[5:6]),
                lambda x: [-np.inf]),
    ],
)  # fmt: skip
def test_special_numbers(ours, numpy):
    with np.errstate(all="ignore"):
        expected = np.asarray(numpy(ODD), np.float32)
    run = Run(ours, expected.shape, [ODD[None]])
    np.testing.assert_allclose(run.value[0], expected, 1e-6)


def test_zeros_have_their_sign():
    run = Run(lambda x: 1 / lax.neg(x), (2,), [ODD[None, :2]])
    np.testing.assert_array_equal(run.value[0], [-np.inf, np.inf])


def test_numbers_too_large_for_ints():
    """They become the nearest, and NaN becomes 0, as XLA has it."""
    x = np.array([[3e9, -3e9, np.nan, 5e9, -1.0, 2.9, -2.9, np.inf]], np.float32)
    run = Run(lambda x: number(x.astype(jnp.int32) >> 1), (8,), [x])
    largest = 2**31 - 1 >> 1
    expected = [largest, -(2**30), 0, largest, -1, 1, -1, largest]
    np.testing.assert_array_equal(run.value[0], np.array(expected, np.float32))
    run = Run(lambda x: number(x.astype(jnp.uint32) >> 1), (8,), [x])
    largest = 2**32 - 1 >> 1
    expected = [1.5e9, 0, 0, largest, 0, 1, 0, largest]
    np.testing.assert_array_equal(run.value[0], np.array(expected, np.float32))


def test_the_least_int_by_minus_one():
    least = -(2**31)
    for f, expected in ((lax.div, least), (lax.rem, 0), (lax.mul, least)):
        run = Run(
            lambda x, f=f: number(f(x.astype(jnp.int32), jnp.full(1, -1))),
            (1,),
            [np.full((1, 1), least, np.float32)],
        )
        assert run.value[0] == expected
