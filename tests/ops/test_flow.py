"""Gradient flow."""

import numpy as np
import pytest
from laws import close, covers, rejects

import dynetjax as dy
from dynetjax.ops.flow import flip_gradient, nobackprop, scale_gradient, to_device

covers(flip_gradient, nobackprop, scale_gradient, to_device)


@pytest.mark.parametrize(
    ("function", "slope"),
    [
        (nobackprop, 0),
        (flip_gradient, -1),
        (scale_gradient, 1),
        (lambda x: scale_gradient(x, 0.3), 0.3),
        (lambda x: to_device(x, "CPU"), 1),
    ],
)
@pytest.mark.parametrize("shape", [(3,), (2, 2)])
def test_value_stays_and_gradient_changes(function, slope, shape):
    dy.renew_cg()
    numbers = np.random.RandomState(0).rand(*shape)
    p = dy.ParameterCollection().parameters_from_numpy(numbers)
    y = function(p)
    close(y.npvalue(), numbers)
    dy.sum_elems(dy.square(y) + p).backward()
    close(p.grad_as_array(), 1 + slope * 2 * numbers)


def test_refusals():
    x = [1.0]
    message = "to_device: Invalid device name"
    rejects(lambda: to_device(dy.inputVector(x), "GPU:7"), RuntimeError, message)
    rejects(lambda: nobackprop(x), TypeError, "nobackprop: an operand is not an Expr")
