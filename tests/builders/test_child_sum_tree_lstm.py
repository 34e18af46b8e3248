"""ChildSumTreeLSTMBuilder against the equations of the paper in NumPy."""

from functools import partial

import numpy as np
import pytest

import dynetjax as dy

from .trees import (
    CHILDREN,
    check_gradients,
    fill_tree,
    number,
    numbers,
    outputs,
    run,
    sigmoid,
)


def make(forget_bias=0.0):
    dy.renew_cg()
    model = dy.ParameterCollection()
    builder = dy.ChildSumTreeLSTMBuilder(2, 3, 2, model, forget_bias)
    fill_tree(builder)
    return builder


def step_with(bias):
    def step(layer, x, below):
        W_i, U_i, b_i, W_f, U_f, b_f, W_o, U_o, b_o, W_u, U_u, b_u = layer
        total = sum((h for _, h in below), np.zeros(2))
        i = sigmoid(W_i @ x + U_i @ total + b_i)
        o = sigmoid(W_o @ x + U_o @ total + b_o)
        u = np.tanh(W_u @ x + U_u @ total + b_u)
        kept = [sigmoid(W_f @ x + U_f @ h + b_f + bias) * c for c, h in below]
        c = i * u + sum(kept)
        return c, o * np.tanh(c)

    return step


MANY = [[]] * 20 + [[0, 1, 2, 3, 4], list(range(20)), [20, 21]]


@pytest.mark.parametrize("bias", [0.0, 1.5])
@pytest.mark.parametrize("children", [CHILDREN, MANY], ids=["few", "many"])
def test_equations(bias, children):
    builder = make(bias)
    layers = [[p.as_array() for p in layer] for layer in builder.get_parameters()]
    arrays = numbers(3, len(children))
    wanted = run(step_with(bias), layers, arrays, children)
    xs = [dy.inputVector(x) for x in arrays]
    found = builder.transduce(list(zip(xs, children, strict=True)))
    np.testing.assert_allclose([e.npvalue() for e in found], wanted, atol=1e-6)


@pytest.mark.parametrize("bias", [0.0, 1.5])
def test_gradients(bias):
    check_gradients(make(bias), partial(run, step_with(bias)))


def test_order_does_not_matter():
    builder = make()
    other = [[], [], [1, 0], [], [2], [2, 4, 3]]
    np.testing.assert_allclose(outputs(builder, other), outputs(builder), atol=1e-6)


def test_parameters():
    builder = make()
    names = []
    for layer, size in zip(builder.get_parameters(), (3, 2), strict=True):
        assert [p.shape() for p in layer] == [(2, size), (2, 2), (2,)] * 4
        names += [number(p) for p in layer]
    assert names == list(range(24))
    fresh = dy.ChildSumTreeLSTMBuilder(1, 3, 2, dy.ParameterCollection())
    (layer,) = fresh.get_parameters()
    assert [bool(p.as_array().any()) for p in layer] == [True, True, False] * 4
    assert fresh.spec == (1, 3, 2, 0.0)
