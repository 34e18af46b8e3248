"""Products of ints; `cases_of_indexing` has those of floats."""

import jax.numpy as jnp
import numpy as np
import pytest
from computed import check, of_ints, of_ints_in_numpy

pytestmark = pytest.mark.usefixtures("natively")

X = np.array([0.7, -1.3, 0.4, 1.1, -0.2, 2.6])
M = X.reshape(2, 3)


def test_products_of_ints():
    check(
        of_ints(lambda x, y: jnp.einsum("ij,kj->ki", x, y)),
        of_ints_in_numpy(lambda x, y: np.einsum("ij,kj->ki", x, y)),
        M,
        M[::-1].copy(),
        smooth=False,
    )


def test_products_of_a_vector_of_ints():
    check(
        of_ints(lambda x: jnp.outer(x, x) @ x),
        of_ints_in_numpy(lambda x: np.outer(x, x) @ x),
        X,
        smooth=False,
    )
