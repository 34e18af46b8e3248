"""Primitives that few functions need."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from computed import check
from jax import lax

pytestmark = pytest.mark.usefixtures("natively")

X = np.array([0.7, -1.3, 0.4, 1.1, -0.2, 2.6])
Y = np.array([1.0, 0.0, 1.0, 1.0, 0.0, 0.0])
M = X.reshape(2, 3)


def still(function):
    """A function without derivatives, of ints."""
    return lambda *xs: function(
        *[jnp.round(lax.stop_gradient(x) * 8).astype(jnp.int32) for x in xs]
    )


def ints(function):
    return lambda *xs: function(*[np.rint(x * 8).astype(np.int32) for x in xs])


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
        (lambda x: jnp.sort(x), np.sort),
        (
            lambda x: jnp.sort(x.astype(jnp.uint32)).astype(jnp.int32),
            lambda x: np.sort(x.astype(np.uint32)).astype(np.int32),
        ),
        (lambda x: jnp.outer(x, x) @ x, lambda x: np.outer(x, x) @ x),
        (
            lambda x: jnp.stack([lax.eq(x, x), x < x[::-1]]),
            lambda x: np.stack([x == x, x < x[::-1]]),
        ),
    ],
)
def test_ints(function, formula):
    check(still(function), ints(formula), X, smooth=False)


def test_products_of_ints():
    check(
        still(lambda x, y: jnp.einsum("ij,kj->ki", x, y)),
        ints(lambda x, y: np.einsum("ij,kj->ki", x, y)),
        M,
        M[::-1].copy(),
        smooth=False,
    )


def test_one_of_several_cases():
    def function(x):
        which = jnp.clip(jnp.floor(lax.stop_gradient(x)) + 1, 0, 3).astype(jnp.int32)
        return lax.select_n(which, x, x * x, jnp.sin(x), 2 * x)

    def formula(x):
        which = np.clip(np.floor(x) + 1, 0, 3).astype(int)
        return np.choose(which, [x, x * x, np.sin(x), 2 * x])

    check(function, formula, X)


def test_sort_by_several_keys():
    """First by what is equal for some, then by numbers."""
    check(
        lambda x: jnp.concatenate(lax.sort((Y, x), num_keys=2)),
        lambda x: np.concatenate([a[np.lexsort((x, Y))] for a in (Y, x)]),
        X,
    )
    check(lambda x: x[jnp.lexsort((x, Y))], lambda x: x[np.lexsort((x, Y))], X)


def test_total_order():
    """NaN comes after all: a search finds where it would go."""
    numbers = np.array([-np.inf, -1.0, 0.0, 1.0, np.inf, np.nan], np.float32)

    def function(x):
        asked = jnp.concatenate([lax.stop_gradient(x), numbers])
        return jnp.searchsorted(numbers, asked)

    check(
        function,
        lambda x: np.searchsorted(numbers, np.concatenate([x, numbers])),
        X,
        smooth=False,
    )


def test_copies_side_by_side():
    check(lambda x: jnp.tile(x, (2, 3)), lambda x: np.tile(x, (2, 3)), M)


def test_what_erf_leaves():
    from math import erfc

    check(
        lambda x: jax.scipy.special.erfc(3 * x) * 1e3,
        lambda x: np.vectorize(erfc)(3 * x) * 1e3,
        X,
        rtol=1e-3,
        atol=1e-3,
    )


def test_another_order_of_axes():
    check(lambda x: jnp.prod(x), lambda x: np.prod(x), M)
    check(lambda x: lax.reshape(x, (6,), (1, 0)), lambda x: x.T.reshape(6), M)


def test_a_sum_over_no_axis():
    check(lambda x: jnp.sum(x, axis=()), lambda x: x, X)


def test_key_of_a_known_seed():
    """Numbers are the same in every run: those of JAX."""
    drawn = np.asarray(jax.random.normal(jax.random.key(7), (6,)), np.float64)
    for key in jax.random.key, jax.random.PRNGKey:
        check(
            lambda x, k=key: x * jax.random.normal(k(7), (6,)), lambda x: x * drawn, X
        )
