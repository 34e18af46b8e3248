"""Mathematical functions."""

import math

import numpy as np
import pytest
from laws import Case, Laws, close, rejects

import dynetjax as dy

erf, lgamma = np.vectorize(math.erf), np.vectorize(math.lgamma)

CASES = [
    Case(dy.sin, np.sin, x=(4,)),
    Case(dy.cos, np.cos, x=(4,)),
    Case(dy.tan, np.tan, x=(4,), low=-1, high=1),
    Case(dy.asin, np.arcsin, x=(4,), low=-0.9, high=0.9),
    Case(dy.acos, np.arccos, x=(4,), low=-0.9, high=0.9),
    Case(dy.atan, np.arctan, x=(4,)),
    Case(dy.sinh, np.sinh, x=(4,)),
    Case(dy.cosh, np.cosh, x=(4,)),
    Case(dy.tanh, np.tanh, x=(2, 3)),
    Case(dy.asinh, np.arcsinh, x=(4,)),
    Case(dy.acosh, np.arccosh, x=(4,), low=1.2, high=3),
    Case(dy.atanh, np.arctanh, x=(4,), low=-0.8, high=0.8),
    Case(dy.exp, np.exp, x=(2, 1, 2)),
    Case(dy.log, np.log, x=(4,), low=0.3, high=3),
    Case(dy.sqrt, np.sqrt, x=(4,), low=0.3, high=3),
    Case(dy.square, np.square, x=(4,)),
    Case(dy.cube, lambda x: x**3, x=(4,)),
    Case(dy.erf, erf, x=(4,)),
    Case(dy.lgamma, lgamma, x=(4,), low=0.3, high=3),
    Case(dy.abs, np.abs, x=(4,)),
]


@pytest.mark.parametrize("case", CASES, ids=str)
class TestEveryFunction(Laws):
    pass


def slopes(function, numbers):
    dy.renew_cg()
    p = dy.ParameterCollection().parameters_from_numpy(np.array(numbers))
    dy.sum_elems(function(p)).backward()
    return p.grad_as_array()


def test_slopes_where_there_is_a_kink_or_a_pole():
    close(slopes(dy.abs, [-1.0, 0.0, 2.0]), [-1, 0, 1])
    assert slopes(dy.sqrt, [0.0, 4.0])[0] == np.inf


def test_outside_the_domain():
    dy.renew_cg()
    logs = dy.log(dy.inputVector([0.0, -1.0])).npvalue()
    assert logs[0] == -np.inf
    assert np.isnan(logs[1])


def test_a_number_is_no_operand():
    rejects(lambda: dy.tanh(1.0), TypeError, "tanh: an operand is not an Expression")
