"""FastLSTMBuilder: its equations, and stored numbers of DyNet 2.1."""

import numpy as np
import pytest

import dynetjax as dy

from .golden import flat, x
from .laws import CellLaws, sigmoid


class TestCell(CellLaws):
    vectors = 2
    cells = (0.042576, 0.188381, 0.355156, 0.139791)
    numbers = (*cells, 0.023135, 0.053349, 0.136447, 0.055033)

    def make(self, model):
        return dy.FastLSTMBuilder(2, 3, 2, model)

    def step(self, parameters, x, state):
        W_ix, W_ih, _, b_i, W_ox, W_oh, _, b_o, W_cx, W_ch, b_c = parameters
        c, h = state
        i = sigmoid(W_ix @ x + W_ih @ h + b_i)
        c = (1 - i) * c + i * np.tanh(W_cx @ x + W_ch @ h + b_c)
        o = sigmoid(W_ox @ x + W_oh @ h + b_o)
        return [c, o * np.tanh(c)]


def test_parameters():
    builder = dy.FastLSTMBuilder(1, 3, 2, dy.ParameterCollection())
    (layer,) = builder.get_parameters()
    shapes = [(2, 3), (2, 2), (2, 1), (2,)]
    assert [p.shape() for p in layer] == [*shapes, *shapes, *shapes[:2], (2,)]
    assert [p.name() for p in layer] == [f"/fast-lstm-builder/_{k}" for k in range(11)]
    assert all(bool(p.as_array().any()) is (len(p.shape()) > 1) for p in layer)


def test_no_dropout():
    """As in DyNet; a rate is answered by a warning."""
    dy.renew_cg()
    builder = dy.FastLSTMBuilder(1, 3, 2, dy.ParameterCollection())
    expected = flat(builder.initial_state().add_input(x(0)).s())
    with pytest.warns(RuntimeWarning, match="a FastLSTMBuilder drops nothing"):
        builder.set_dropout(0.9)
    dy.renew_cg()  # so that both are computed alike
    found = flat(builder.initial_state().add_input(x(0)).s())
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    builder.set_dropout(0)
    builder.disable_dropout()
    with pytest.raises(ValueError, match="set_dropout: the rate is out of range"):
        builder.set_dropout(1.5)


def test_can_be_saved(tmp_path):
    """DyNet's cannot: it has no spec."""
    builder = dy.FastLSTMBuilder(2, 3, 2, dy.ParameterCollection())
    dy.save(str(tmp_path / "fast"), [builder])
    (again,) = dy.load(str(tmp_path / "fast"), dy.ParameterCollection())
    assert again.spec == (2, 3, 2)
    for one, other in zip(
        builder.param_collection().parameters_list(),
        again.param_collection().parameters_list(),
        strict=True,
    ):
        np.testing.assert_array_equal(one.as_array(), other.as_array())
