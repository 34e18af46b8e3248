"""Softmax and its logarithm."""

import numpy as np
import pytest
from laws import Case, Laws, close, rejects

import dynetjax as dy


def softmax(x, d=0):
    return np.exp(x) / np.exp(x).sum(d, keepdims=True)


CASES = [
    Case(dy.softmax, softmax, x=(4,)),
    Case(dy.softmax, softmax, x=(3, 2)),
    Case(dy.softmax, softmax, x=(3, 2), d=1),
    Case(dy.log_softmax, lambda x: np.log(softmax(x)), x=(4,)),
    Case(dy.log_softmax, lambda x: np.log(softmax(x)), x=(3, 2)),
]


@pytest.mark.parametrize("case", CASES, ids=str)
class TestEverySoftmax(Laws):
    pass


def test_restricted_to_some_rows():
    dy.renew_cg()
    numbers = np.array([1.0, -2.0, 0.5, 3.0])
    p = dy.ParameterCollection().parameters_from_numpy(numbers)
    y = dy.log_softmax(p, [0, 2])
    expected = np.log(softmax(numbers[[0, 2]]))
    close(y.npvalue()[[0, 2]], expected)
    assert y.npvalue()[[1, 3]].tolist() == [-np.inf] * 2
    dy.pick(y, 2).backward()
    chosen = np.exp(expected)
    close(p.grad_as_array(), [-chosen[0], 0, 1 - chosen[1], 0])


def test_restricted_to_one_row():
    dy.renew_cg()
    y = dy.log_softmax(dy.inputVector([100.0, -5.0]), restrict=[1])
    assert y.value() == [-np.inf, 0]


def tensor(*shape):
    return dy.inputTensor(np.ones(shape))


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (lambda: dy.softmax(tensor(2, 2, 2)), ValueError, "x has too many dimensions"),
        (lambda: dy.softmax(tensor(2), 1), ValueError, "softmax: x has no such dimens"),
        (lambda: dy.log_softmax(tensor(2, 2, 2)), ValueError, "log_softmax: x has too"),
        (lambda: dy.log_softmax(tensor(2), []), ValueError, "restrict is empty"),
        (
            lambda: dy.log_softmax(tensor(2), [2]),
            ValueError,
            "restrict is out of ran",
        ),
        (lambda: dy.log_softmax(tensor(2), (1,)), TypeError, "restrict is not a list"),
        (lambda: dy.log_softmax(tensor(2, 2), [1]), ValueError, "x is not a vector"),
    ],
)
def test_refusals(function, error, message):
    rejects(function, error, message)
