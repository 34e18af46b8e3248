"""Reductions of one expression, or element by element of a list."""

import numpy as np
import pytest
from laws import Case, Laws, close, rejects

import dynetjax as dy


def number(function):
    return lambda x: np.reshape(function(x), (1,))


def logsumexp(x, axis):
    return np.log(np.exp(x).sum(axis))


CASES = [
    Case(dy.sum_elems, number(np.sum), x=(2, 3)),
    Case(dy.squared_norm, number(lambda x: np.sum(x * x)), x=(2, 3)),
    Case(dy.l2_norm, number(np.linalg.norm), x=(4,)),
    Case(dy.max_dim, number(np.max), x=(4,)),
    Case(dy.max_dim, np.max, x=(3, 2), d=1),
    Case(dy.min_dim, lambda x: x.min(0), x=(3, 2)),
    Case(dy.min_dim, np.min, x=(2, 3, 2), d=2),
    Case(dy.logsumexp_dim, lambda x: logsumexp(x, 0), x=(3, 2)),
    Case(dy.logsumexp_dim, logsumexp, x=(4, 2), d=1),
    Case(dy.cumsum, lambda x: x.cumsum(0), x=(3, 2)),
    Case(dy.cumsum, np.cumsum, x=(3, 2), d=1),
    Case(dy.cumsum, lambda x, d: x, x=(3, 2), d=2),
    Case(dy.logsumexp, lambda xs: logsumexp(np.array(xs), 0), xs=[(3,), (3,), (3,)]),
    Case(dy.logsumexp, lambda xs: xs[0][:, 0], xs=[(3, 1)]),
    Case(dy.sum_rows, lambda x: x.sum(0), x=(3, 2)),
    Case(dy.sum_rows, lambda x: x.sum(0, keepdims=True), x=(3,)),
    Case(dy.sum_cols, lambda x: x.sum(1), x=(3, 2)),
    Case(dy.sum_cols, lambda x: x.sum(1), x=(3, 2, 2)),
    Case(dy.sum_dim, lambda x, d: x.sum(0), x=(3, 2), d=[0]),
    Case(dy.sum_dim, lambda x, d: x.sum(axis=(0, 2)), x=(3, 2, 2), d=[2, 0]),
    Case(dy.sum_dim, lambda x, d: np.array([x.sum()]), x=(3, 2), d=[0, 1]),
]


@pytest.mark.parametrize("case", CASES, ids=str)
class TestEveryReduction(Laws):
    pass


BATCHES = [
    Case(dy.sum_dim, lambda x, d, b: x.sum((1, 2)), x=(3, 2), d=[1], b=True, batch=4),
    Case(dy.sum_dim, lambda x, d, b: x.sum(-1), x=(3,), d=[], b=True, batch=2),
]


@pytest.mark.parametrize("case", BATCHES, ids=str)
class TestOverTheBatch(Laws):
    pass


@pytest.mark.parametrize("function", [dy.max_dim, dy.min_dim])
def test_the_first_of_equals_gets_the_gradient(function):
    dy.renew_cg()
    p = dy.ParameterCollection().parameters_from_numpy(np.array([2.0, 2.0, 2.0]))
    function(p).backward()
    close(p.grad_as_array(), [1, 0, 0])


def test_logsumexp_of_large_numbers():
    dy.renew_cg()
    x = dy.inputVector([1000.0, 1000.0])
    close(dy.logsumexp_dim(x).value(), 1000 + np.log(2))
    close(dy.logsumexp([x, x]).value(), [1000 + np.log(2)] * 2)


def matrix():
    return dy.inputTensor(np.ones((2, 3)))


def cube():
    return dy.inputTensor(np.ones((2, 3, 2)))


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (lambda: dy.max_dim(matrix(), 2), ValueError, "max_dim: x has no such dimens"),
        (lambda: dy.min_dim(matrix(), 2), ValueError, "min_dim: x has no such dimens"),
        (lambda: dy.logsumexp_dim(matrix(), 2), ValueError, "logsumexp_dim: x has no"),
        (lambda: dy.cumsum(matrix(), 3), ValueError, "cumsum: x has no such dimension"),
        (lambda: dy.sum_dim(matrix(), [2]), ValueError, "sum_dim: x has no such"),
        (
            lambda: dy.sum_dim(matrix(), [1, 1]),
            ValueError,
            "d is empty, repeats",
        ),
        (lambda: dy.sum_dim(matrix(), []), ValueError, "d is empty, repeats"),
        (lambda: dy.sum_cols(dy.inputVector([1.0])), ValueError, "sum_cols: x has no"),
        (lambda: dy.sum_dim(cube(), [0, 1, 2]), ValueError, "more than two dimensions"),
        (lambda: dy.sum_dim(matrix(), (1,)), TypeError, "sum_dim: d is not a list"),
        (
            lambda: dy.logsumexp([matrix(), dy.inputVector([1.0])]),
            ValueError,
            "logsumexp: the dims of the operands differ",
        ),
    ],
)
def test_refusals(function, error, message):
    rejects(function, error, message)
