"""Programs: what a loop does to its weights beforehand."""

import numpy as np
import pytest

from dynetjax.engine.program import turn_over


@pytest.mark.parametrize("shape", [(16, 24), (8, 8), (6, 24), (24, 5)], ids=str)
def test_a_weight_turned_over_is_its_transpose(shape):
    weight = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    np.testing.assert_array_equal(turn_over(weight), weight.T)
