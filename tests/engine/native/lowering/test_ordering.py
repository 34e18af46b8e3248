"""Sorting, the largest numbers, and comparisons in a total order."""

import jax.numpy as jnp
import numpy as np
import pytest
from bench import Run
from cases import number, still
from computed import check, of_ints, of_ints_in_numpy
from jax import lax

pytestmark = pytest.mark.usefixtures("natively")

X = np.array([0.7, -1.3, 0.4, 1.1, -0.2, 2.6])
Y = np.array([1.0, 0.0, 1.0, 1.0, 0.0, 0.0])
ODD = np.array([0.0, -0.0, 1.5, -1.5, np.inf, -np.inf, np.nan, 1e-40], np.float32)


@pytest.mark.parametrize(
    ("function", "formula"),
    [
        (jnp.sort, np.sort),
        (
            lambda x: jnp.sort(x.astype(jnp.uint32)).astype(jnp.int32),
            lambda x: np.sort(x.astype(np.uint32)).astype(np.int32),
        ),
    ],
)
def test_ints(function, formula):
    check(of_ints(function), of_ints_in_numpy(formula), X, smooth=False)


@pytest.mark.parametrize("kind", [jnp.int32, jnp.uint32])
def test_largest_ints(kind):
    """Of unsigned ints, too, of which some are negative otherwise."""
    numbers = np.array([5, -7, 0, 2**31 - 1, -(2**31), 5], np.int32)

    def function(x):
        return lax.top_k(lax.bitcast_convert_type(x, jnp.int32).astype(kind), 6)[1]

    run = Run(lambda x: number(function(x)), (6,), [numbers.view(np.float32)[None]])
    expected = np.argsort(-numbers.astype(kind).astype(np.int64), kind="stable")
    np.testing.assert_array_equal(run.value[0], expected)


@pytest.mark.parametrize(
    ("ours", "numpy"),
    [
        pytest.param(still(lax.sort), np.sort, id="sort"),
        pytest.param(
            lambda x: lax.top_k(x, 4)[0],
            lambda x: [np.nan, np.inf, 1.5, 1e-40],
            id="top_k",
        ),
        pytest.param(
            lambda x: number(lax.top_k(x, 8)[1]),
            lambda x: [6, 4, 2, 7, 0, 1, 3, 5],
            id="top_k places",
        ),
        pytest.param(
            lambda x: number(lax.top_k(-x, 8)[1]),
            lambda x: [6, 5, 3, 0, 1, 7, 2, 4],
            id="top_k places of the least",
        ),
    ],
)
def test_special_numbers(ours, numpy):
    expected = np.asarray(numpy(ODD), np.float32)
    run = Run(ours, expected.shape, [ODD[None]])
    np.testing.assert_allclose(run.value[0], expected, 1e-6)


def test_sort_by_several_keys():
    """First by what is equal for some, then by numbers."""
    check(
        lambda x: jnp.concatenate(lax.sort((Y, x), num_keys=2)),
        lambda x: np.concatenate([a[np.lexsort((x, Y))] for a in (Y, x)]),
        X,
    )
    check(lambda x: x[jnp.lexsort((x, Y))], lambda x: x[np.lexsort((x, Y))], X)


@pytest.mark.parametrize("method", ["scan", "sort", "compare_all"])
def test_total_order(method):
    """NaN comes after all: a search finds where it would go."""
    numbers = np.array([-np.inf, -1.0, 0.0, 1.0, np.inf, np.nan], np.float32)

    def function(x):
        asked = jnp.concatenate([lax.stop_gradient(x), numbers])
        return jnp.searchsorted(numbers, asked, method=method)

    check(
        function,
        lambda x: np.searchsorted(numbers, np.concatenate([x, numbers])),
        X,
        smooth=False,
    )
