"""BinaryTreeLSTMBuilder against the equations of the paper in NumPy."""

from functools import partial

import numpy as np
import pytest

import dynetjax as dy

from .trees import (
    BINARY,
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
    builder = dy.BinaryTreeLSTMBuilder(2, 3, 2, model, forget_bias)
    fill_tree(builder)
    return builder


def step_with(bias):
    def step(layer, x, below):
        W_i, U_i, b_i, W_f, U_f, b_f, W_o, U_o, b_o, W_u, U_u, b_u = layer
        nothing = np.zeros(2), np.zeros(2)
        (c_l, h_l), (c_r, h_r) = (*below, nothing, nothing)[:2]
        h = np.concatenate([h_l, h_r])
        i = sigmoid(W_i @ x + U_i @ h + b_i)
        f_l, f_r = sigmoid(np.tile(W_f @ x + b_f + bias, 2) + U_f @ h).reshape(2, 2)
        o = sigmoid(W_o @ x + U_o @ h + b_o)
        c = i * np.tanh(W_u @ x + U_u @ h + b_u) + f_l * c_l + f_r * c_r
        return c, o * np.tanh(c)

    return step


@pytest.mark.parametrize("bias", [0.0, 1.5])
def test_equations(bias):
    builder = make(bias)
    layers = [[p.as_array() for p in layer] for layer in builder.get_parameters()]
    wanted = run(step_with(bias), layers, numbers(3), BINARY)
    np.testing.assert_allclose(outputs(builder, BINARY), wanted, atol=1e-6)


@pytest.mark.parametrize("bias", [0.0, 1.5])
def test_gradients(bias):
    check_gradients(make(bias), partial(run, step_with(bias)), BINARY)


def test_no_left_child():
    """A lone child is the left one; None in its place makes it the right one."""
    builder = make()
    x = [dy.inputVector(v) for v in numbers(3)]
    child = builder.add_input(x[0])
    left = builder.add_input(x[1], child)
    again = builder.add_input(x[1], child, None)
    np.testing.assert_allclose(
        left.output().npvalue(), again.output().npvalue(), rtol=1e-6
    )
    right = builder.add_input(x[1], None, child)
    layers = [[p.as_array() for p in layer] for layer in builder.get_parameters()]
    states = []
    for k, layer in enumerate(layers):
        own, below = numbers(3)[:2] if k == 0 else states
        first = step_with(0.0)(layer, below if k else numbers(3)[0], [])
        nothing = np.zeros(2), np.zeros(2)
        second = step_with(0.0)(layer, own if k else numbers(3)[1], [nothing, first])
        states = [second[1], first[1]]
    np.testing.assert_allclose(right.output().npvalue(), states[0], atol=1e-6)


def test_too_many_children():
    builder = make()
    child = builder.add_input(dy.inputVector(numbers(3)[0]))
    with pytest.raises(ValueError, match="add_input: there are too many"):
        builder.add_input(None, child, child, child)


def test_parameters():
    builder = make()
    names = []
    for layer, size in zip(builder.get_parameters(), (3, 2), strict=True):
        gate, forget = [(2, size), (2, 4), (2,)], [(2, size), (4, 4), (2,)]
        assert [p.shape() for p in layer] == [*gate, *forget, *gate, *gate]
        names += [number(p) for p in layer]
    assert names == list(range(24))
    assert builder.spec == (2, 3, 2, 0.0)
