"""CoupledLSTMBuilder against stored numbers and its equations in NumPy."""

import numpy as np

import dynetjax as dy

from .golden import fill_all, flat
from .laws import CellLaws, sigmoid


class TestCell(CellLaws):
    vectors = 2
    cells = (0.014127, 0.197915, 0.341598, 0.131509)
    numbers = (*cells, 0.007937, 0.053594, 0.123995, 0.045072)

    def make(self, model):
        return dy.CoupledLSTMBuilder(2, 3, 2, model)

    def step(self, parameters, x, state):
        W_ix, W_ih, W_ic, b_i, W_ox, W_oh, W_oc, b_o, W_cx, W_ch, b_c = parameters
        c, h = state
        i = sigmoid(W_ix @ x + W_ih @ h + W_ic @ c + b_i)
        c = (1 - i) * c + i * np.tanh(W_cx @ x + W_ch @ h + b_c)
        o = sigmoid(W_ox @ x + W_oh @ h + W_oc @ c + b_o)
        return [c, o * np.tanh(c)]


def test_is_the_lstm_builder():
    assert dy.LSTMBuilder is dy.CoupledLSTMBuilder


def test_parameters():
    m = dy.ParameterCollection()
    builder = dy.LSTMBuilder(layers=1, input_dim=3, hidden_dim=2, model=m)
    (layer,) = builder.get_parameters()
    shapes = [(2, 3), (2, 2), (2, 2), (2,)]
    assert [p.shape() for p in layer] == [*shapes, *shapes, *shapes[:2], (2,)]
    assert [p.name() for p in layer] == [f"/lstm-builder/_{k}" for k in range(11)]
    assert all(bool(p.as_array().any()) is (len(p.shape()) > 1) for p in layer)
    assert builder.spec == (1, 3, 2)


def test_dropout_leaves_the_carried_cell():
    """Masks fall on the input, on h' and on the cell that the peepholes read."""
    builder = dy.CoupledLSTMBuilder(1, 2, 2, dy.ParameterCollection())
    fill_all(builder)
    W_ix, W_ih, W_ic, b_i, W_ox, W_oh, W_oc, b_o, W_cx, W_ch, b_c = [
        p.as_array() for p in builder.get_parameters()[0]
    ]
    c0, h0, x0 = np.array([0.4, -0.7]), np.array([0.2, 0.9]), np.array([1.0, -0.5])

    def step(mask):
        read = mask * c0
        i = sigmoid(W_ix @ x0 + W_ih @ h0 + W_ic @ read + b_i)
        c = (1 - i) * c0 + i * np.tanh(W_cx @ x0 + W_ch @ h0 + b_c)
        o = sigmoid(W_ox @ x0 + W_oh @ h0 + W_oc @ (mask * c) + b_o)
        return np.concatenate([c, o * np.tanh(c)])

    possible = [step(2 * np.array(bits)) for bits in np.ndindex(2, 2)]
    builder.set_dropouts(0, 0, 0.5)
    for _ in range(6):
        dy.renew_cg()
        state = builder.initial_state_from_raw_vectors([c0, h0])
        found = flat(state.add_input(dy.inputVector(x0)).s())
        assert min(np.abs(found - p).max() for p in possible) < 1e-6
