"""VanillaLSTMBuilder: its equations, and stored numbers of DyNet 2.1."""

import numpy as np

import dynetjax as dy

from .golden import fill, fill_all, x
from .laws import CellLaws, sigmoid


class TestCell(CellLaws):
    vectors = 2
    forget_bias = 1.0
    numbers = (
        0.052284,
        0.415668,
        -0.624795,
        -0.423955,
        0.024432,
        0.267006,
        -0.284377,
        -0.158548,
    )

    def make(self, model):
        return dy.VanillaLSTMBuilder(2, 3, 2, model, forget_bias=self.forget_bias)

    def step(self, parameters, x, state):
        W_x, W_h, b = parameters
        c, h = state
        return self.cell(b + W_x @ x + W_h @ h, c)

    def cell(self, z, c, normalised=lambda c: c):
        """Cell and output."""
        i, f, o, g = np.split(z, 4)
        c = sigmoid(f + self.forget_bias) * c + sigmoid(i) * np.tanh(g)
        return c, sigmoid(o) * np.tanh(normalised(c))


class TestForgetBias(TestCell):
    forget_bias = 0.25
    numbers = (
        -0.050745,
        0.316523,
        -0.551913,
        -0.405475,
        -0.023371,
        0.206428,
        -0.260297,
        -0.156564,
    )


class TestNormalised(TestCell):
    """Without a state there is no product with one, and none to normalise."""

    zeros_are_nothing = False
    numbers = (
        -0.256882,
        0.468766,
        -0.546499,
        -1.206456,
        -0.335432,
        0.608386,
        0.141074,
        -0.542563,
    )

    def make(self, model):
        return dy.VanillaLSTMBuilder(2, 3, 2, model, ln_lstm=True)

    def fill(self, builder):
        fill_all(builder)
        norms = [p for layer in builder.all_parameters() for p in layer[3:]]
        for k, p in enumerate(norms):
            p.set_value((k % 2 == 0) + 0.5 * fill(6 + k, p.shape()))

    def layers(self, builder):
        return builder.all_parameters()

    def step(self, parameters, x, state):
        W_x, W_h, b, gain_h, bias_h, gain_x, bias_x, *of_cell = parameters
        c, h = state
        of_x = layer_norm(W_x @ x, gain_x, bias_x)
        of_h = layer_norm(W_h @ h, gain_h, bias_h)
        return self.cell(b + of_x + of_h, c, lambda c: layer_norm(c, *of_cell))


def layer_norm(a, gain, bias):
    return gain * (a - a.mean()) / (a.std() + 1e-8) + bias


def test_parameters():
    m = dy.ParameterCollection()
    builder = dy.VanillaLSTMBuilder(1, 3, 2, m, ln_lstm=True)
    (layer,) = builder.get_parameters()
    assert [p.shape() for p in layer] == [(8, 3), (8, 2), (8,)]
    assert not layer[2].as_array().any()
    names = [p.name() for p in m.parameters_list()]
    own = [f"/vanilla-lstm-builder/_{k}" for k in range(3)]
    assert names == own + [f"/_{k}" for k in range(6)]
    gains = [p.as_array() for p in m.parameters_list()[3:]]
    assert [g.shape for g in gains] == [(8,)] * 4 + [(2,)] * 2
    assert [float(g[0]) for g in gains] == [1, 0] * 3
    assert builder.spec == (1, 3, 2, True, 1.0)


def test_normalised_without_update():
    """The gains, too, are constants where no gradient is to reach the builder."""
    dy.renew_cg()
    m = dy.ParameterCollection()
    builder = dy.VanillaLSTMBuilder(1, 3, 2, m, ln_lstm=True)
    w = dy.ParameterCollection().add_parameters(3)
    output = builder.initial_state(update=False).add_input(w).output()
    dy.dot_product(output, output).backward()
    assert not any(p.grad_as_array().any() for p in m.parameters_list())


def test_nodes_of_a_step():
    """A step stays cheap to build: two products, their sum, and the cell."""
    graph = dy.renew_cg()
    builder = dy.VanillaLSTMBuilder(1, 3, 2, dy.ParameterCollection())
    state = builder.initial_state().add_inputs([x(0), x(1)])[-1]
    last = x(2)
    before = len(graph)
    state.add_input(last)
    assert len(graph) - before <= 17
