"""Rounding and argmax, whose gradient is a choice."""

import numpy as np
import pytest
from laws import Case, Laws, close, rejects

import dynetjax as dy

ZERO, STRAIGHT = "zero_gradient", "straight_through_gradient"


def half_away_from_zero(x, mode):
    return np.sign(x) * np.floor(np.abs(x) + 0.5)


def one_hot_of_maximum(x, mode):
    return np.eye(len(x))[x.argmax()]


CASES = [
    Case(dy.round, half_away_from_zero, x=(4,), mode=ZERO, smooth=False),
    Case(dy.ceil, lambda x, mode: np.ceil(x), x=(4,), mode=ZERO, smooth=False),
    Case(dy.floor, lambda x, mode: np.floor(x), x=(2, 2), mode=ZERO, smooth=False),
    Case(
        dy.argmax,
        lambda x, mode: np.eye(4)[x.argmax()],
        x=(4,),
        mode=ZERO,
        smooth=False,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
class TestEveryRounding(Laws):
    pass


@pytest.mark.parametrize("function", [dy.round, dy.ceil, dy.floor, dy.argmax])
@pytest.mark.parametrize(("mode", "slope"), [(ZERO, 0), (STRAIGHT, 1)])
def test_gradient_is_what_the_mode_says(function, mode, slope):
    dy.renew_cg()
    p = dy.ParameterCollection().parameters_from_numpy(np.array([0.3, 1.7]))
    y = function(p, mode)
    dy.dot_product(y, dy.inputVector([2.0, 3.0])).backward()
    close(p.grad_as_array(), [2 * slope, 3 * slope])


def test_halves():
    dy.renew_cg()
    x = dy.inputVector([-2.5, -0.5, 0.5, 1.5, 0.49999997])
    assert dy.round(x, ZERO).value() == [-3, -1, 1, 2, 0]


def test_argmax_of_equals_is_the_first():
    dy.renew_cg()
    assert dy.argmax(dy.inputVector([1, 3, 3]), ZERO).value() == [0, 1, 0]


def test_bad_arguments():
    def x():
        return dy.inputVector([1.0])

    rejects(lambda: dy.round(x(), "soft"), ValueError, "round: there is no such grad")
    rejects(lambda: dy.round(x(), 1), TypeError, "round: gradient_mode is not a string")
    rejects(
        lambda: dy.argmax(dy.inputTensor(np.ones((2, 1))), ZERO),
        ValueError,
        "argmax: x is not a vector",
    )
