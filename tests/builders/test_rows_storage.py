"""Parameters whose numbers a table has share its gradients, too."""

import jax.numpy as jnp
import numpy as np
import pytest

import dynetjax as dy
from dynetjax.builders.rows_storage import show_as_rows

VALUES = np.arange(18, dtype=np.float32).reshape(3, 3, 2)


@pytest.fixture(params=[np.asarray, jnp.asarray], ids=["NumPy", "JAX"])
def shown(request):
    """A parameter that is entry 1 of a table, with gradients of either kind."""
    m = dy.ParameterCollection()
    table, p = m.add_lookup_parameters((2, 3, 2)), m.add_parameters((3, 2))
    show_as_rows([p], table, 1)
    rows = np.array([1, 0, 1], np.int32)
    table.storage.add_row_gradients(rows, request.param(VALUES))
    return p, table


def test_gradient(shown):
    p, _ = shown
    np.testing.assert_array_equal(p.grad_as_array(), VALUES[0] + VALUES[2])


def test_scaled(shown):
    p, table = shown
    p.scale_gradient(2)
    np.testing.assert_array_equal(p.grad_as_array(), 2 * (VALUES[0] + VALUES[2]))
    np.testing.assert_array_equal(table.grad_as_array()[0], VALUES[1])


def test_taken_and_put_back(shown):
    p, table = shown
    gradient = p.storage.take_gradient()
    np.testing.assert_array_equal(gradient, VALUES[0] + VALUES[2])
    assert not p.grad_as_array().any()
    np.testing.assert_array_equal(table.grad_as_array()[0], VALUES[1])
    p.storage.put_gradient(gradient)
    np.testing.assert_array_equal(p.grad_as_array(), VALUES[0] + VALUES[2])


@pytest.mark.parametrize("as_array", [np.asarray, jnp.asarray])
def test_whole_table(as_array):
    m = dy.ParameterCollection()
    table, p = m.add_lookup_parameters((3, 3, 2)), m.add_parameters((3, 2))
    show_as_rows([p], table, 1)
    table.storage.gradient = as_array(VALUES)
    table.storage.has_gradient = True
    np.testing.assert_array_equal(p.storage.take_gradient(), VALUES[1])
    expected = VALUES.copy()
    expected[1] = 0
    np.testing.assert_array_equal(table.grad_as_array(), expected)
