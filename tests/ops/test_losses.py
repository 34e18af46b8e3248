"""Losses."""

import math

import numpy as np
import pytest
from laws import Case, Laws, both_tiers, close, rejects

import dynetjax as dy


def negative_log_softmax(x, v):
    return np.log(np.exp(x).sum(0, keepdims=True)) - x[v]


def huber(x, y, c=1.345):
    d = np.abs(x - y)
    return np.where(d < c, d * d / 2, c * (d - c / 2)).sum()[None]


def binary_log(x, y):
    return -np.sum(y * np.log(x) + (1 - y) * np.log(1 - x))[None]


CASES = [
    Case(dy.pickneglogsoftmax, lambda x, v: negative_log_softmax(x, v), x=(4,), v=2),
    Case(dy.squared_distance, lambda x, y: np.sum((x - y) ** 2)[None], x=(4,), y=(4,)),
    Case(
        dy.squared_distance,
        lambda x, y: np.sum((x[:, 0] - y) ** 2)[None],
        x=(4, 1),
        y=(4,),
    ),
    Case(dy.l1_distance, lambda x, y: np.abs(x - y).sum()[None], x=(2, 2), y=(2, 2)),
    Case(dy.huber_distance, huber, x=(8,), y=(8,)),
    Case(dy.huber_distance, huber, x=(4,), y=(4,), c=0.4),
    Case(dy.binary_log_loss, binary_log, x=(4,), y=(4,), low=0.1, high=0.9),
    Case(
        dy.pairwise_rank_loss,
        lambda x, y, m: np.maximum(0, m - x + y),
        x=(1, 4),
        y=(1, 4),
        m=0.7,
    ),
    Case(
        dy.poisson_loss,
        lambda rate, x: np.exp(rate) + math.lgamma(x + 1) - rate * x,
        log_lambda=(1,),
        x=3,
    ),
]
ONE_CLASS = (dy.pickneglogsoftmax, dy.poisson_loss)


@pytest.mark.parametrize("case", CASES, ids=str)
class TestEveryLoss(Laws):
    @both_tiers
    def test_batch(self, case, tier, monkeypatch):
        """A batch of three equals three runs of one, or needs a class for each."""
        if case.op not in ONE_CLASS:
            super().test_batch(case, tier, monkeypatch)
            return
        dy.renew_cg()
        batch = case.inputs(case.arrays(batch=3), batch=3)
        with pytest.raises(ValueError, match="x is batched, and v is one number"):
            case.call(case.op, batch)


CLASSES = [2, 0, 3]


def per_element(function):
    def every(x, vs, *m):
        return np.stack([function(x[:, k], v, *m) for k, v in enumerate(vs)], axis=-1)

    return every


BATCHES = [
    Case(
        dy.pickneglogsoftmax_batch,
        per_element(negative_log_softmax),
        x=(4,),
        vs=CLASSES,
        batch=3,
    ),
]


@pytest.mark.parametrize("case", BATCHES, ids=str)
class TestOneClassPerElement(Laws):
    pass


def gradient(function, *numbers):
    dy.renew_cg()
    p = dy.ParameterCollection().parameters_from_numpy(np.array(numbers))
    function(p).backward()
    return p.grad_as_array().tolist()


def test_gradient_between_equals():
    zero = np.zeros(2)
    assert gradient(lambda x: dy.l1_distance(x, dy.inputTensor(zero)), 0, 1) == [0, 1]


def test_large_scores():
    dy.renew_cg()
    loss = dy.pickneglogsoftmax(dy.inputVector([1e4, 0, -np.inf]), 1)
    close(loss.value(), 1e4)


def test_probabilities_of_zero_and_one():
    dy.renew_cg()
    x, y = dy.inputVector([0.0, 1.0, 1.0, 0.0]), dy.inputVector([1.0, 0.0, 1.0, 0.0])
    close(dy.binary_log_loss(x, y).value(), 2 * 87.3365)
    slopes = gradient(lambda x: dy.binary_log_loss(x, dy.inputVector([1, 0])), 1.0, 0.0)
    assert slopes == [0, 0]


def vector(*sizes):
    return [dy.inputVector([0.5] * n) for n in sizes]


def batch():
    return dy.inputTensor(np.ones((3, 2)), batched=True)


def matrix():
    return dy.inputTensor(np.ones((2, 2)))


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (lambda: dy.pickneglogsoftmax(*vector(3), 3), ValueError, "v is out of range"),
        (lambda: dy.pickneglogsoftmax(*vector(3), -1), OverflowError, "v is negative"),
        (lambda: dy.pickneglogsoftmax(matrix(), 0), ValueError, "not a vector of sco"),
        (lambda: dy.pickneglogsoftmax(batch(), 0), ValueError, "x is batched"),
        (lambda: dy.pickneglogsoftmax_batch(batch(), [0]), ValueError, "1 of them for"),
        (lambda: dy.pickneglogsoftmax_batch(batch(), [0, 3]), ValueError, "vs is out"),
        (lambda: dy.pickneglogsoftmax_batch(batch(), 0), TypeError, "not a sequence"),
        (lambda: dy.squared_distance(*vector(2, 3)), ValueError, "the dims of the ope"),
        (lambda: dy.l1_distance(*vector(2, 3)), ValueError, "l1_distance: the dims"),
        (lambda: dy.huber_distance(*vector(2, 3)), ValueError, "huber_distance: the"),
        (lambda: dy.huber_distance(*vector(2, 2), "c"), TypeError, "c is not a number"),
        (lambda: dy.binary_log_loss(*vector(2, 3)), ValueError, "binary_log_loss: the"),
        (lambda: dy.binary_log_loss(batch(), *vector(3)), ValueError, "batch size"),
        (lambda: dy.pairwise_rank_loss(*vector(2, 2)), ValueError, "x is not a row"),
        (lambda: dy.poisson_loss(*vector(2), 1), ValueError, "is not one number"),
        (lambda: dy.poisson_loss(*vector(1), -1), OverflowError, "x is negative"),
    ],
)
def test_refusals(function, error, message):
    rejects(function, error, message)


def test_set_index():
    dy.renew_cg()
    x = np.array([[0.5, -1.0], [2.0, 0.3], [-0.4, 1.1]])
    one = dy.pickneglogsoftmax(dy.inputVector(x[:, 0]), 0)
    two = dy.pickneglogsoftmax_batch(dy.inputTensor(x, batched=True), [0, 1])
    events = dy.poisson_loss(dy.scalarInput(0.5), 3)
    dy.forward([one, two, events])
    one.set_index(2)
    two.set_index([1, 2])
    events.set_index(1)
    close(one.value(), negative_log_softmax(x[:, 0], 2)[0])
    close(two.value(), [negative_log_softmax(x[:, k], k + 1)[0] for k in (0, 1)])
    close(events.value(), np.exp(0.5) - 0.5)
    with pytest.raises(ValueError, match="set_index: v is out of range"):
        one.set_index(3)
    with pytest.raises(ValueError, match="set_index: vs does not fit the batch"):
        two.set_index([1])


def test_numbers_of_events_in_turn():
    """An int that a node has as a float; of 0 both are the same bits."""
    for count in (0, 3, 0, 2):
        dy.renew_cg()
        rate = dy.scalarInput(0.5)
        found = dy.poisson_loss(rate, count).value()
        close(found, np.exp(0.5) + math.lgamma(count + 1) - 0.5 * count)
