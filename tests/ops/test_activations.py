"""Activation functions."""

import numpy as np
import pytest
from laws import Case, Laws, close, rejects

import dynetjax as dy


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


CASES = [
    Case(dy.logistic, sigmoid, x=(4,)),
    Case(dy.log_sigmoid, lambda x: np.log(sigmoid(x)), x=(4,)),
    Case(dy.rectify, lambda x: np.maximum(x, 0), x=(4,)),
    Case(dy.elu, lambda x: np.where(x > 0, x, np.expm1(x)), x=(4,)),
    Case(dy.elu, lambda x, a: np.where(x > 0, x, a * np.expm1(x)), x=(4,), alpha=0.3),
    Case(
        dy.selu,
        lambda x: 1.05070099 * np.where(x > 0, x, 1.67326324 * np.expm1(x)),
        x=(4,),
    ),
    Case(dy.silu, lambda x: x * sigmoid(x), x=(4,)),
    Case(dy.silu, lambda x, beta: x * sigmoid(beta * x), x=(4,), beta=2.5),
    Case(dy.softsign, lambda x: x / (1 + np.abs(x)), x=(4, 1)),
]


@pytest.mark.parametrize("case", CASES, ids=str)
class TestEveryActivation(Laws):
    pass


@pytest.mark.parametrize(
    ("function", "slope"),
    [(dy.rectify, 0), (dy.elu, 1), (dy.selu, 1.7580993), (dy.softsign, 1)],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_slope_at_zero(function, slope):
    dy.renew_cg()
    p = dy.ParameterCollection().parameters_from_numpy(np.zeros(1))
    function(p).backward()
    close(p.grad_as_array(), [slope])


@pytest.mark.parametrize("function", [dy.elu, dy.selu, dy.log_sigmoid, dy.silu])
def test_large_numbers_have_finite_gradients(function):
    dy.renew_cg()
    p = dy.ParameterCollection().parameters_from_numpy(np.array([-100.0, 100.0]))
    dy.sum_elems(function(p)).backward()
    assert np.isfinite(p.grad_as_array()).all()


def test_softsign_of_a_matrix():
    x = np.ones((2, 2))
    message = r"softsign: x is not a vector\n  got:      \{2,2\}"
    rejects(lambda: dy.softsign(dy.inputTensor(x)), ValueError, message)


def test_a_constant_that_is_no_number():
    message = "elu: the constant is not a number"
    rejects(lambda: dy.elu(dy.inputVector([1.0]), "a"), TypeError, message)
