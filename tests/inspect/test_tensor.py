"""Tensors of values: searching them, and drawing from them."""

import numpy as np
import pytest

import dynetjax as dy

MATRIX = np.array([[1.0, 5, 2], [4, 2, 9]])
CUBE = np.arange(12.0).reshape(2, 3, 2)


@pytest.fixture(autouse=True)
def _new_graph():
    dy.renew_cg()


def tensor(array, batched=False):
    return dy.inputTensor(array, batched=batched).tensor_value()


def same(found, wanted):
    array = found.as_numpy()
    np.testing.assert_array_equal(array, wanted)
    assert array.dtype == np.asarray(wanted).dtype


def test_numbers():
    same(tensor(MATRIX), MATRIX)
    same(tensor(CUBE, batched=True), CUBE)
    assert str(tensor(MATRIX)) == "<Dynet Tensor:float>"
    t = tensor(MATRIX)
    t.as_numpy()[:] = 0
    same(t, MATRIX)


def test_argmax():
    t = tensor(MATRIX)
    same(t.argmax(), [[1, 0, 1]])
    same(t.argmax(1), [[1], [2]])
    same(tensor(CUBE, batched=True).argmax(1), np.full((2, 1, 2), 2))
    same(tensor(np.array([1.0, 2, 2])).argmax(), [1])
    assert str(t.argmax()) == "<Dynet Tensor:int>"


def test_topk():
    values, indices = tensor(MATRIX).topk(1, 2)
    same(values, [[5.0, 2], [9, 4]])
    same(indices, [[1, 2], [2, 0]])
    values, indices = tensor(CUBE, batched=True).topk(1, 2)
    same(values, CUBE[:, [2, 1]])
    same(indices, np.broadcast_to([[2], [1]], (2, 2, 2)))
    same(tensor(np.array([1.0, 2, 2])).topk(0, 2)[1], [1, 2])


def test_samples_follow_the_log_probabilities():
    dy.reset_random_seed(3)
    p = np.array([0.1, 0.6, 0.3])
    t = tensor(np.log(np.tile(p, (4000, 1)).T) + 7)
    draws = t.categorical_sample_log_prob().as_numpy()
    assert draws.shape == (1, 4000)
    rates = np.bincount(draws[0], minlength=3) / 4000
    np.testing.assert_allclose(rates, p, atol=0.04)


def test_samples_follow_from_the_seed():
    x = np.zeros((5, 50))
    drawn = []
    for seed in (3, 3, 4):
        dy.reset_random_seed(seed)
        drawn.append(tensor(x).categorical_sample_log_prob(1).as_numpy())
    assert np.array_equal(drawn[0], drawn[1])
    assert not np.array_equal(drawn[0], drawn[2])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda t: t.argmax(2), dy.DimError, "argmax: the tensor has no such dim"),
        (lambda t: t.argmax(-1), dy.DimError, "argmax: the tensor has no such dim"),
        (lambda t: t.argmax(num=2), ValueError, "argmax: num is not 1"),
        (lambda t: t.topk(0, 3), ValueError, "topk: num is out of range"),
        (lambda t: t.topk(0, 0), ValueError, "topk: num is out of range"),
        (lambda t: t.topk(2), dy.DimError, "topk: the tensor has no such dimension"),
        (
            lambda t: t.categorical_sample_log_prob(num=2),
            ValueError,
            "categorical_sample_log_prob: num is not 1",
        ),
    ],
)
def test_refusals(call, error, message):
    with pytest.raises(error, match=message):
        call(tensor(MATRIX))
