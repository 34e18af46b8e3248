"""UnidirectionalTreeLSTMBuilder against DyNet's numbers and its equations."""

import numpy as np
import pytest

import dynetjax as dy

from .trees import (
    CHILDREN,
    RECORDED,
    check_gradients,
    fill_tree,
    numbers,
    outputs,
    sigmoid,
)


@pytest.fixture
def builder():
    dy.renew_cg()
    made = dy.UnidirectionalTreeLSTMBuilder(2, 2, 2, dy.ParameterCollection())
    fill_tree(made)
    return made


def lstm(layers, xs):
    """The last output of an LSTM over vectors, in NumPy."""
    states = [(np.zeros(len(b) // 4), np.zeros(len(b) // 4)) for _, _, b in layers]
    for x in xs:
        for k, (W_x, W_h, b) in enumerate(layers):
            c, h = states[k]
            i, f, o, g = np.split(W_x @ x + W_h @ h + b, 4)
            c = sigmoid(f + 1) * c + sigmoid(i) * np.tanh(g)
            x = sigmoid(o) * np.tanh(c)
            states[k] = c, x
    return states[-1][1]


def test_dynet_numbers(builder):
    wanted = RECORDED["unidirectional outputs"]
    np.testing.assert_allclose(outputs(builder).ravel(), wanted, atol=1e-6)


def forward(layers, arrays, children):
    made = []
    for x, below in zip(arrays, children, strict=True):
        made.append(lstm(layers, [x, *[made[k] for k in below]]))
    return made


def test_equations(builder):
    layers = [[p.as_array() for p in layer] for layer in builder.get_parameters()]
    wanted = forward(layers, numbers(2), CHILDREN)
    np.testing.assert_allclose(outputs(builder), wanted, atol=1e-6)


def test_gradients(builder):
    check_gradients(builder, forward)


def test_parameters(builder):
    names = [p.name() for p in builder.param_collection().parameters_list()]
    inside = "/unidirectional-tree-lstm-builder/vanilla-lstm-builder/_"
    assert names == [f"{inside}{k}" for k in range(6)]
    assert builder.spec == (2, 2, 2)
    assert [len(layer) for layer in builder.get_parameters()] == [3, 3]


def test_sizes_differ():
    with pytest.raises(ValueError, match="input_dim is not hidden_dim"):
        dy.UnidirectionalTreeLSTMBuilder(1, 3, 2, dy.ParameterCollection())
