"""Rows are taken and put by their numbers, with nothing computed of these."""

import jax
import numpy as np
import pytest

from dynetjax.engine.xla import slices

ARRAY = np.arange(24, dtype=np.float32).reshape(6, 4)
ROWS = np.array([5, 0, 5], np.int32)

cut = pytest.param(lambda x, k: slices.cut(x, k[1], 2), ARRAY[:2], id="cut")
put = pytest.param(
    lambda x, k: slices.put(x, x[:2], k[0] - 3),
    ARRAY[[0, 1, 0, 1, 4, 5]],
    id="put",
)
take = pytest.param(slices.take, ARRAY[ROWS], id="take")
take_one = pytest.param(
    lambda x, k: slices.take(x, k[:1]), ARRAY[[5]], id="take a single one"
)
take_if_there = pytest.param(
    lambda x, k: slices.take_if_there(x, k + 1),
    np.stack([0 * ARRAY[0], ARRAY[1], 0 * ARRAY[0]]),
    id="take if there",
)
entry = pytest.param(lambda x, k: slices.entry(k, 2), ROWS[2], id="entry")
everything = [cut, put, take, take_one, take_if_there, entry]


@pytest.mark.parametrize(("function", "wanted"), everything)
def test_values(function, wanted):
    found = jax.jit(function)(ARRAY, ROWS)
    np.testing.assert_array_equal(found, wanted)
    assert found.shape == wanted.shape


@pytest.mark.parametrize(("function", "wanted"), everything)
def test_numbers_are_not_looked_at(function, wanted):
    del wanted
    text = str(jax.make_jaxpr(function)(ARRAY, ROWS))
    assert "select_n" not in text
    assert " lt " not in text
