"""Shapes, beside what `cases_of_views` has."""

import jax.numpy as jnp
import numpy as np
import pytest
from computed import check
from jax import lax

pytestmark = pytest.mark.usefixtures("natively")

M = np.array([[0.7, -1.3, 0.4], [1.1, -0.2, 2.6]])


def test_copies_side_by_side():
    check(lambda x: jnp.tile(x, (2, 3)), lambda x: np.tile(x, (2, 3)), M)


def test_another_order_of_axes():
    check(lambda x: lax.reshape(x, (6,), (1, 0)), lambda x: x.T.reshape(6), M)
