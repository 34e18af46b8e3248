"""First values: bounds, moments, order, and what is refused."""

import numpy as np
import pytest

from dynetjax.model import initializers as init
from dynetjax.model import random


@pytest.mark.parametrize(
    ("dims", "bound"),
    [
        ((5,), np.sqrt(3 / 5)),
        ((5, 7), np.sqrt(6 / 12)),
        ((5, 7, 2), np.sqrt(9 / 14)),
        ((5, 7, 2, 3), np.sqrt(6 / (35 * 5))),
    ],
    ids=str,
)
def test_glorot_bound(dims, bound):
    assert init.GlorotInitializer().bound(dims) == pytest.approx(bound)
    assert init.GlorotInitializer(gain=2).bound(dims) == pytest.approx(2 * bound)
    lookup = init.GlorotInitializer(is_lookup=True)
    assert lookup.bound((*dims, 1000)) == pytest.approx(bound)


def test_glorot_fills_columns_first():
    random.reset_random_seed(4)
    matrix = init.GlorotInitializer().fill((2, 3))
    random.reset_random_seed(4)
    flat = random.uniform(6, -np.sqrt(6 / 5), np.sqrt(6 / 5))
    np.testing.assert_array_equal(matrix, flat.reshape((2, 3), order="F"))


def test_normal_takes_the_variance():
    numbers = init.NormalInitializer(3, 4).fill((10000,))
    assert numbers.mean() == pytest.approx(3, abs=0.1)
    assert numbers.std() == pytest.approx(2, abs=0.1)


def test_uniform():
    numbers = init.UniformInitializer(0.5).fill((1000,))
    assert -0.5 <= numbers.min() < -0.4
    assert 0.4 < numbers.max() <= 0.5


def test_const():
    assert init.ConstInitializer(2).fill((2, 2)).tolist() == [[2, 2], [2, 2]]


def test_identity():
    assert init.IdentityInitializer().fill((2, 2)).tolist() == [[1, 0], [0, 1]]


def test_saxe_is_orthonormal():
    matrix = init.SaxeInitializer(2.0).fill((4, 4)) / 2
    np.testing.assert_allclose(matrix @ matrix.T, np.eye(4), atol=1e-6)


def test_numpy_goes_column_by_column():
    matrix = init.NumpyInitializer([[1, 2, 3], [4, 5, 6]]).fill((3, 2))
    assert matrix.ravel(order="F").tolist() == [1, 4, 2, 5, 3, 6]


def test_from_file(tmp_path):
    path = tmp_path / "values.txt"
    path.write_text("1 2\n3 4\n")
    filler = init.FromFileInitializer(str(path).encode())
    assert filler.fill((2, 2)).tolist() == [[1, 3], [2, 4]]
    with pytest.raises(ValueError, match="FromFileInitializer: the count of numbers"):
        filler.fill((3,))


@pytest.mark.parametrize("kind", [init.IdentityInitializer, init.SaxeInitializer])
@pytest.mark.parametrize("dims", [(2, 3), (4,), (2, 2, 2)], ids=str)
def test_not_square(kind, dims):
    with pytest.raises(RuntimeError, match="the tensor is no square matrix"):
        kind().fill(dims)


def test_refused_arguments():
    with pytest.raises(AssertionError, match="it is abstract"):
        init.PyInitializer()
    with pytest.raises(ValueError, match="scale is 0"):
        init.UniformInitializer(0)
    with pytest.raises(ValueError, match="the variance is negative"):
        init.NormalInitializer(0, -1)
    with pytest.raises(TypeError, match="fname is not bytes"):
        init.FromFileInitializer("values.txt")
    with pytest.raises(ValueError, match="NumpyInitializer: the count of numbers"):
        init.NumpyInitializer([1, 2]).fill((3,))


def test_names():
    def chosen(value, rows=(8,)):
        return init.initializer(value, rows, scale=2.0, mean=1.0, std=3.0)

    assert isinstance(chosen(None), init.GlorotInitializer)
    assert chosen("uniform").scale == 2
    assert (chosen("normal").mean, chosen("normal").std) == (1, 3)
    assert chosen("he").std == pytest.approx(0.25)
    for two in np.float64(2), np.float32(2), np.int64(2):
        assert chosen(two).c == 2
    for wrong in "saxe", "Uniform", [1]:
        with pytest.raises(ValueError, match="init: it is no initialiser"):
            chosen(wrong)
    with pytest.raises(IndexError):
        chosen("he", ())
