"""Dropout and noise: what holds for every draw, and means over many."""

import numpy as np
import pytest
from laws import close, covers, rejects

import dynetjax as dy

covers(dy.block_dropout, dy.dropout, dy.dropout_batch, dy.dropout_dim, dy.noise)

DROPOUTS = [dy.dropout, dy.dropout_batch, dy.block_dropout]


@pytest.fixture(autouse=True)
def _new_graph():
    dy.renew_cg()


@pytest.mark.parametrize("function", DROPOUTS)
def test_numbers_are_dropped_or_scaled(function):
    x = dy.inputTensor(np.ones((200, 20)), batched=True)
    y = function(x, 0.2).npvalue()
    assert set(np.unique(y)) <= {0, np.float32(1.25)}


def test_rate_is_that_of_dropping():
    y = dy.dropout(dy.inputTensor(np.ones(20000)), 0.2).npvalue()
    close(np.mean(y == 0), 0.2, atol=0.02)


def test_one_draw_per_batch_element():
    x = dy.inputTensor(np.ones((10, 200)), batched=True)
    y = dy.dropout_batch(x, 0.5).npvalue()
    assert (y == y[0]).all()
    assert 50 < np.sum(y[0] == 0) < 150


@pytest.mark.parametrize("d", [0, 1])
def test_mask_is_shared_along_a_dimension(d):
    y = dy.dropout_dim(dy.inputTensor(np.ones((50, 60))), d, 0.5).npvalue()
    assert (y == y.take([0], axis=d)).all()
    assert 0 < np.mean(y == 0) < 1


def test_nothing_or_all_dropped():
    x = dy.inputVector([1.0, 2.0])
    assert dy.dropout(x, 0).value() == [1, 2]
    assert dy.block_dropout(x, 1).value() == [0, 0]


NOTHING = {
    "dropout": lambda x: dy.dropout(x, 0),
    "dropout_batch": lambda x: dy.dropout_batch(x, 0.0),
    "dropout_dim": lambda x: dy.dropout_dim(x, 0, 0),
    "block_dropout": lambda x: dy.block_dropout(x, np.float32(0)),
    "noise": lambda x: dy.noise(x, 0.0),
}


@pytest.mark.parametrize("build", NOTHING.values(), ids=NOTHING)
def test_nothing_is_drawn_for_zero(build):
    """The operand is the result, and what is drawn later is as without the call."""
    found = []
    for function in build, lambda x: x:
        dy.reset_random_seed(3)
        dy.renew_cg()
        x = dy.inputVector([1.0, 2.0])
        y = function(x)
        assert y is x
        found.append(dy.noise(y, 1.0).value())
    assert found[0] == found[1]
    p = dy.ParameterCollection().parameters_from_numpy(np.array([1.0, 2.0]))
    assert build(p).value() == [1, 2]
    dy.renew_cg()
    with pytest.raises(ValueError, match="stale"):
        build(x)


def test_backward_uses_the_mask_of_the_value():
    p = dy.ParameterCollection().parameters_from_numpy(np.ones(100))
    y = dy.dropout(p, 0.5)
    mask = y.npvalue()
    dy.sum_elems(y).backward()
    close(p.grad_as_array(), mask)


def test_draws_differ_between_nodes_and_are_repeated_on_request():
    dy.reset_random_seed(5)
    x = dy.inputTensor(np.zeros(20))
    first, second = dy.noise(x, 1.0).npvalue(), dy.noise(x, 1.0).npvalue()
    assert (first != second).all()
    dy.reset_random_seed(5)
    dy.renew_cg()
    close(dy.noise(dy.inputTensor(np.zeros(20)), 1.0).npvalue(), first)


def test_noise_has_the_standard_deviation():
    y = dy.noise(dy.inputTensor(np.full(20000, 3.0)), 0.5).npvalue()
    close([y.mean(), y.std()], [3, 0.5], atol=0.02)


@pytest.mark.parametrize("function", DROPOUTS)
@pytest.mark.parametrize("p", [-0.1, 1.1, float("nan")])
def test_rates_out_of_range(function, p):
    message = f"{function.__name__}: the rate is out of range"
    rejects(lambda: function(dy.inputVector([1.0]), p), ValueError, message)


def test_other_refusals():
    def x():
        return dy.inputVector([1.0])

    rejects(lambda: dy.dropout(x(), 1), ValueError, "expected: 0 <= p < 1")
    rejects(lambda: dy.dropout(x(), "1"), TypeError, "dropout: p is not a number")
    rejects(lambda: dy.dropout_dim(x(), 1, 0.5), ValueError, "x has no such dimension")
    rejects(lambda: dy.noise(x(), -1), ValueError, "noise: stddev is too small")
