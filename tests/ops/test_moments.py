"""Means, moments and standard deviations."""

import numpy as np
import pytest
from laws import Case, Laws, rejects

import dynetjax as dy


def number(function):
    return lambda x, *r: np.reshape(function(x, *r), (1,))


CASES = [
    Case(dy.mean_elems, number(np.mean), x=(2, 3)),
    Case(dy.std_elems, number(np.std), x=(2, 3)),
    Case(dy.moment_elems, number(lambda x, r: np.mean(x**r)), x=(4,), r=3),
    Case(dy.mean_dim, lambda x, d, b: x.mean(1), x=(3, 2), d=[1], b=False),
    Case(dy.mean_dim, lambda x, d, b, n: x.sum(0) / 5, x=(3, 2), d=[0], b=False, n=5),
    Case(dy.average_cols, lambda x: x.mean(1), x=(3, 2)),
    Case(dy.std_dim, lambda x, d, b: x.std(1), x=(2, 3), d=[1], b=False),
    Case(
        dy.moment_dim,
        lambda x, d, r, b: np.mean(x**2, axis=(0, 1)),
        x=(3, 2, 2),
        d=[0, 1],
        r=2,
        b=False,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
class TestEveryMoment(Laws):
    pass


BATCHES = [
    Case(dy.mean_dim, lambda x, d, b: x.mean((0, 2)), x=(3, 2), d=[0], b=True, batch=4),
    Case(dy.std_dim, lambda x, d, b: x.std((0, 2)), x=(3, 2), d=[0], b=True, batch=4),
    Case(
        dy.moment_dim,
        lambda x, d, r, b: np.mean(x**2, axis=-1),
        x=(3,),
        d=[],
        r=2,
        b=True,
        batch=4,
    ),
    Case(dy.std_batches, lambda x: x.std(-1), x=(3,), batch=4),
    Case(dy.moment_batches, lambda x, r: np.mean(x**r, -1), x=(3,), r=2, batch=4),
]


@pytest.mark.parametrize("case", BATCHES, ids=str)
class TestOverTheBatch(Laws):
    pass


def vector():
    return dy.inputVector([1.0, 2.0])


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (lambda: dy.moment_elems(vector(), 0), ValueError, "r is not an order"),
        (lambda: dy.moment_elems(vector(), -1), OverflowError, "r is negative"),
        (lambda: dy.mean_dim(vector(), [1], False), ValueError, "mean_dim: x has no"),
        (lambda: dy.average_cols(vector()), ValueError, "average_cols: x has no such"),
        (lambda: dy.std_dim(vector(), 0, False), TypeError, "std_dim: d is not a list"),
        (lambda: dy.moment_dim(vector(), [], 2, False), ValueError, "moment_dim: d is"),
    ],
)
def test_refusals(function, error, message):
    rejects(function, error, message)
