"""Shapes, beside what `cases_of_views` has."""

import jax.numpy as jnp
import numpy as np
import pytest
from bench import Run
from computed import check
from jax import lax

pytestmark = pytest.mark.usefixtures("natively")

M = np.array([[0.7, -1.3, 0.4], [1.1, -0.2, 2.6]])


def test_copies_side_by_side():
    check(lambda x: jnp.tile(x, (2, 3)), lambda x: np.tile(x, (2, 3)), M)


def test_another_order_of_axes():
    check(lambda x: lax.reshape(x, (6,), (1, 0)), lambda x: x.T.reshape(6), M)


def test_what_is_around_keeps_its_sign():
    run = Run(
        lambda x: 1 / jnp.pad(x, 1, constant_values=-0.0), (4,), [np.ones((1, 2))]
    )
    np.testing.assert_array_equal(run.value[0], [-np.inf, 1, 1, -np.inf])
