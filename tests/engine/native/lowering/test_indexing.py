"""Random numbers; `cases_of_indexing` has slices."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from bench import Run
from computed import check

from dynetjax.engine.ir.draws import Draws, keys_of

X = np.array([0.7, -1.3, 0.4, 1.1, -0.2, 2.6])


@pytest.mark.parametrize("count", [1, 5])
def test_random_bits(count):
    """Those that JAX draws with the same keys."""

    def draw(x, key):
        key = jax.random.wrap_key_data(key)
        return x + jax.random.uniform(key, (count,))

    run = Run(draw, (count,), [np.zeros((3, count))], data=[0], types="k")
    keys = keys_of(Draws(lambda: 7, []), np.array([0]), np.array([3]))
    for element in range(3):
        key = jax.random.wrap_key_data(jnp.array(keys[element]))
        expected = jax.random.uniform(key, (count,))
        np.testing.assert_array_equal(run.value[element], expected)


@pytest.mark.usefixtures("natively")
@pytest.mark.parametrize("seed", [0, 7])
def test_key_of_a_known_seed(seed):
    """Numbers are the same in every run: those of JAX.

    The words of the key of 0 are the same, which is no reason to keep only one.
    """
    drawn = np.asarray(jax.random.normal(jax.random.key(seed), (6,)), np.float64)
    for key in jax.random.key, jax.random.PRNGKey:
        check(
            lambda x, k=key: x * jax.random.normal(k(seed), (6,)),
            lambda x: x * drawn,
            X,
        )
