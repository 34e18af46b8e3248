"""Arrays between processes, through JAX; with two of them in `test_launch.py`."""

import jax
import numpy as np
import pytest

from dynetjax.parallel.collectives import Collectives, connect


def test_a_process_by_itself_meets_itself():
    rows, ids = np.ones((2, 3), np.float32), np.array([4, 5], np.int32)
    (total,), (gathered, numbers) = Collectives().meet([rows], [rows, ids], 0.5)
    assert np.array_equal(total, rows / 2)
    assert np.array_equal(gathered, rows / 2)
    assert np.array_equal(numbers, ids)  # what is no float32 has no scale


def test_others_that_are_not_found(monkeypatch):
    def initialize(**where):
        raise RuntimeError(f"nobody at {where['coordinator_address']}")

    monkeypatch.setattr(jax.distributed, "initialize", initialize)
    with pytest.raises(RuntimeError, match=r"(?s)not found.*nobody at 10.*call first"):
        connect("call first", coordinator_address="10.0.0.1:1")
