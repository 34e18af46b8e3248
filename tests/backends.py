"""Which machine tests are about, and what one can promise."""

import jax
import numpy as np
import pytest

on_cpu = pytest.mark.skipif(
    jax.default_backend() != "cpu", reason="about a CPU, or what is done for one"
)


def assert_same(got, expected):
    """Every bit is; on a GPU, which adds up rows in any order, nearly."""
    if jax.default_backend() == "cpu":
        np.testing.assert_array_equal(got, expected)
    else:
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)
