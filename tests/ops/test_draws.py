"""Random numbers: dims, statistics, and when they are drawn anew."""

import math

import numpy as np
import pytest
from laws import close, covers, rejects

import dynetjax as dy

covers(dy.random_bernoulli, dy.random_gumbel, dy.random_normal, dy.random_uniform)

EULER = 0.5772156649
# Each with its mean and standard deviation.
DRAWS = [
    (lambda *dim: dy.random_normal(*dim), 0, 1),
    (lambda d, *b: dy.random_normal(d, 2, 0.5, *b), 2, 0.5),
    (lambda d, *b: dy.random_uniform(d, -1, 3, *b), 1, 4 / math.sqrt(12)),
    (lambda d, *b: dy.random_bernoulli(d, 0.3, 2.0, *b), 0.6, 2 * math.sqrt(0.21)),
    (lambda d, *b: dy.random_gumbel(d, 0, 1, *b), EULER, math.pi / math.sqrt(6)),
]


@pytest.fixture(autouse=True)
def _new_graph():
    dy.renew_cg()
    dy.reset_random_seed(11)


@pytest.mark.parametrize(("draw", "mean", "deviation"), DRAWS)
def test_statistics(draw, mean, deviation):
    numbers = draw((200, 100)).npvalue()
    error = 5 * deviation / math.sqrt(numbers.size)
    close(numbers.mean(), mean, atol=error)
    close(numbers.std(), deviation, rtol=0.05)


@pytest.mark.parametrize(("draw", "mean", "deviation"), DRAWS[1:])
def test_every_batch_element_and_node_has_its_own(draw, mean, deviation):
    x, y = draw(50, 2), draw(50, 2)
    assert x.dim() == ((50,), 2)
    a, b = x.npvalue(), y.npvalue()
    assert not np.array_equal(a[:, 0], a[:, 1])
    assert not np.array_equal(a, b)


@pytest.mark.parametrize(("draw", "mean", "deviation"), DRAWS)
def test_drawn_anew_when_recomputed_and_by_the_seed(draw, mean, deviation):
    x = draw(50)
    after = dy.square(x)
    first = x.npvalue()
    close(after.npvalue(), first**2)
    assert np.array_equal(x.npvalue(), first)
    assert not np.array_equal(x.npvalue(recalculate=True), first)
    dy.reset_random_seed(11)
    dy.renew_cg()
    assert np.array_equal(draw(50).npvalue(), first)


def test_reset_in_the_middle_of_a_graph():
    """What is drawn after it does not depend on what was there before."""
    draws = []
    for seed in (7, 8, 7):
        dy.square(dy.inputVector([1.0]))
        dy.reset_random_seed(seed)
        x = dy.random_normal(20)
        y = dy.dropout(dy.ones(20), 0.5) + dy.random_normal(20)
        draws.append([*x.value(), *y.value()])
    close(draws[0], draws[2])
    assert not np.allclose(draws[0], draws[1])
    x, y = dy.random_normal(20), dy.random_normal(20)
    dy.forward([x, y])
    assert x.value() != y.value()


def test_values_of_bernoulli_and_bounds_of_uniform():
    assert set(dy.random_bernoulli(100, 0.5, -2).value()) == {0, -2}
    assert set(dy.random_bernoulli(20, 1).value()) == {1}
    assert set(dy.random_bernoulli(20, 0).value()) == {0}
    assert set(dy.random_uniform(20, 3, 3).value()) == {3}
    narrow = dy.random_uniform(5000, 1, 1 + 2**-22).npvalue()
    assert narrow.min() >= 1
    assert narrow.max() < 1 + 2**-22


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (lambda: dy.random_normal("a"), TypeError, "random_normal: dim is not a num"),
        (lambda: dy.random_normal(2, stddev=-1), ValueError, "stddev is too small"),
        (lambda: dy.random_normal(2, "a"), TypeError, "random_normal: mean is not a"),
        (lambda: dy.random_uniform(2, 1, 0), ValueError, "right is too small"),
        (lambda: dy.random_uniform(2, 0, "a"), TypeError, "right is not a number"),
        (lambda: dy.random_bernoulli(2, 1.5), ValueError, "p is out of range"),
        (lambda: dy.random_gumbel(2, 1.0), ValueError, "only the standard distrib"),
        (lambda: dy.random_gumbel(0), ValueError, "random_gumbel: dim has no numbers"),
        (lambda: dy.random_normal(2, batch_size=-1), OverflowError, "batch_size is ne"),
        (lambda: dy.random_normal(2, device="X"), RuntimeError, "Invalid device name"),
    ],
)
def test_refusals(function, error, message):
    rejects(function, error, message)
