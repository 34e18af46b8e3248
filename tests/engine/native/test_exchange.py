"""Gradients of many parameters as one array, and back."""

import numpy as np
import pytest

from dynetjax.model.storage import DenseStorage
from dynetjax.native import core

SHAPES = [(3, 2), (1,), (4,)]
SIZES = [6, 1, 4]


@pytest.fixture
def storages():
    return [DenseStorage(f"/{n}", np.zeros(shape)) for n, shape in enumerate(SHAPES)]


def floats(*shape):
    return np.random.RandomState(0).randn(*shape).astype(np.float32)


def test_gather():
    arrays = [floats(3, 2), floats(0), floats(1), floats(2, 1, 2)]
    found = np.empty(11, np.float32)
    core.gather(found, arrays, 0.3)
    wanted = np.concatenate([x.ravel() for x in arrays]) * np.float32(0.3)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_scatter(storages, count):
    """The sum goes by the order of the arrays, as its bits do."""
    arrays = [floats(11) * 10**k for k in range(count)]
    storages[1].gradient = np.ones(1, np.float32)
    core.scatter(arrays, storages, SIZES, [1, 0, 2])
    total = arrays[0].copy()
    for array in arrays[1:]:
        total += array
    assert storages[1].gradient is None
    assert [s.has_gradient for s in storages] == [True, False, True]
    for k, part in (0, total[:6].reshape(3, 2)), (2, total[7:]):
        np.testing.assert_array_equal(storages[k].gradient, part)


def test_an_array_that_somebody_has_stays(storages):
    """One that nobody else has is written to."""
    mine = storages[0].gradient = np.ones((3, 2), np.float32)
    storages[2].gradient = np.ones(4, np.float32)
    place = storages[2].gradient.ctypes.data
    core.scatter([np.zeros(11, np.float32)], storages, SIZES, [1, 1, 1])
    assert mine.all()
    assert not storages[0].gradient.any()
    assert storages[2].gradient.ctypes.data == place


@pytest.mark.parametrize(
    "arrays",
    [[floats(10)], [floats(11), floats(12)], [floats(11).astype(np.float64)]],
)
def test_other_sizes(storages, arrays):
    storages[0].gradient = gradient = np.ones((3, 2), np.float32)
    with pytest.raises(ValueError, match="an array of another size or type"):
        core.scatter(arrays, storages, SIZES, [1, 1, 1])
    assert storages[0].gradient is gradient
    with pytest.raises(ValueError, match="an array of another size or type"):
        core.gather(np.empty(9, np.float32), arrays, 1)


def test_errors(storages):
    with pytest.raises(ValueError, match="an array of another size or type"):
        core.scatter([floats(11)], storages, [6, 9, -4], [1, 1, 1])
    with pytest.raises(ValueError, match="a gradient has another size"):
        core.scatter([floats(11)], storages, [5, 2, 4], [1, 1, 1])
    with pytest.raises(ValueError, match="no arrays"):
        core.scatter([], storages, SIZES, [1, 1, 1])
    with pytest.raises(TypeError, match="no Storage"):
        core.scatter([floats(11)], [1, 2, 3], SIZES, [1, 1, 1])
    with pytest.raises(IndexError):
        core.scatter([floats(11)], storages, SIZES, [1])
