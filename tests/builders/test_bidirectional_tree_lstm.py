"""BidirectionalTreeLSTMBuilder against DyNet's numbers and its equations."""

import numpy as np
import pytest

import dynetjax as dy

from .test_unidirectional_tree_lstm import lstm
from .trees import CHILDREN, RECORDED, check_gradients, fill_tree, numbers, outputs


@pytest.fixture
def builder():
    dy.renew_cg()
    made = dy.BidirectionalTreeLSTMBuilder(2, 4, 4, dy.ParameterCollection())
    fill_tree(made)
    return made


def test_dynet_numbers(builder):
    wanted = RECORDED["bidirectional outputs"]
    np.testing.assert_allclose(outputs(builder).ravel(), wanted, atol=1e-6)


def forward(layers, arrays, children):
    there, back = [layer[:3] for layer in layers], [layer[3:] for layer in layers]
    made = []
    for x, below in zip(arrays, children, strict=True):
        h = [made[k] for k in below]
        made.append(np.concatenate([lstm(there, [x, *h]), lstm(back, [x, *h[::-1]])]))
    return made


def test_equations(builder):
    layers = [[p.as_array() for p in layer] for layer in builder.get_parameters()]
    wanted = forward(layers, numbers(4), CHILDREN)
    np.testing.assert_allclose(outputs(builder), wanted, atol=1e-6)


def test_gradients(builder):
    check_gradients(builder, forward)


def test_parameters(builder):
    names = [p.name() for p in builder.param_collection().parameters_list()]
    own = "/bidirectional-tree-lstm-builder/vanilla-lstm-builder"
    both = [f"{own}/_", f"{own}_1/_"]
    assert names == [f"{one}{k}" for one in both for k in range(6)]


def test_sizes():
    make, m = dy.BidirectionalTreeLSTMBuilder, dy.ParameterCollection()
    with pytest.raises(ValueError, match="input_dim is not hidden_dim"):
        make(1, 2, 4, m)
    with pytest.raises(ValueError, match="hidden_dim is odd"):
        make(1, 3, 3, m)
