"""Gradients of tables: rows that come repeatedly are summed, padding is not."""

import jax.numpy as jnp
import numpy as np
import pytest

from dynetjax.trainers.sparse import Gradient, Rows, add_up, densify, squared_norm

SIZE = 6
CASES = {
    "none": [SIZE, SIZE],
    "once": [4, 0, 2],
    "padded": [4, SIZE, 0, SIZE + 9],
    "repeated": [3, 1, 3, SIZE, 3],
    "more than the table": [5, 0, 5, 1, 1, SIZE, 5, 0],
}


def gradient(rows, whole=None):
    """Random numbers, and NaN at the padding; with the same as a dense array."""
    rows = np.array(rows, np.int32)
    values = np.random.RandomState(0).randn(len(rows), 2).astype(np.float32)
    values[rows >= SIZE] = np.nan
    dense = np.zeros((SIZE, 2), np.float32) if whole is None else whole.copy()
    np.add.at(dense, rows[rows < SIZE], values[rows < SIZE])
    return Gradient(rows, jnp.asarray(values), whole), dense


@pytest.mark.parametrize("rows", CASES.values(), ids=CASES.keys())
class TestAddUp:
    def test_rows(self, rows):
        found, dense = gradient(rows)
        summed = add_up(found, SIZE)
        assert isinstance(summed, Rows)
        np.testing.assert_allclose(densify(summed, SIZE), dense, rtol=1e-6)
        np.testing.assert_allclose(squared_norm(summed), (dense**2).sum(), rtol=1e-6)
        touched = sorted({row for row in rows if row < SIZE})
        ids = np.asarray(summed.ids)
        assert sorted(ids[ids < SIZE]) == touched
        assert not np.asarray(summed.values)[ids >= SIZE].any()

    def test_whole(self, rows):
        found, dense = gradient(rows, whole=np.ones((SIZE, 2), np.float32))
        summed = add_up(found, SIZE)
        np.testing.assert_allclose(summed, dense, rtol=1e-6)
        np.testing.assert_allclose(squared_norm(summed), (dense**2).sum(), rtol=1e-6)
