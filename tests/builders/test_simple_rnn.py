"""SimpleRNNBuilder: its equation, stored numbers of DyNet 2.1, and lags."""

import numpy as np
import pytest

import dynetjax as dy

from .golden import fill_all, flat, x
from .laws import CellLaws


class TestCell(CellLaws):
    numbers = (-0.122914, -0.050297, 0.239151, 0.498584)

    def make(self, model):
        return dy.SimpleRNNBuilder(2, 3, 2, model)

    def step(self, parameters, x, state):
        W_x, W_h, b = parameters
        return [np.tanh(W_x @ x + W_h @ state[0] + b)]


def test_parameters():
    builder = dy.SimpleRNNBuilder(
        layers=2, input_dim=3, hidden_dim=2, model=dy.ParameterCollection()
    )
    first, second = builder.get_parameters()
    assert [p.shape() for p in first] == [(2, 3), (2, 2), (2,)]
    assert [p.shape() for p in second] == [(2, 2), (2, 2), (2,)]
    assert [p.name() for p in first] == [f"/simple-rnn-builder/_{k}" for k in range(3)]
    assert [bool(p.as_array().any()) for p in first] == [True, True, False]
    assert builder.spec == (2, 3, 2)


def test_recurrent_mask():
    """Every run is one of those with some of h' dropped, the others doubled."""
    builder = dy.SimpleRNNBuilder(1, 3, 2, dy.ParameterCollection())
    fill_all(builder)
    W_x, W_h, b = [p.as_array() for p in builder.get_parameters()[0]]
    x0, h0 = np.array([0.3, -0.5, 0.9]), np.array([0.6, -0.8])
    possible = [
        np.tanh(W_x @ x0 + W_h @ (2 * h0 * bits) + b) for bits in np.ndindex(2, 2)
    ]
    builder.set_dropouts(d=0.0, d_h=0.5)
    seen = set()
    for _ in range(20):
        dy.renew_cg()
        state = builder.initial_state_from_raw_vectors([h0])
        found = state.add_input(dy.inputVector(x0)).output().npvalue()
        errors = [np.abs(found - p).max() for p in possible]
        assert min(errors) < 1e-6
        seen.add(int(np.argmin(errors)))
    assert len(seen) > 1


class TestLags:
    """The numbers are those of tests/data/files/record_lags.cc."""

    AUX = (0.3, -0.6)

    @pytest.fixture
    def builder(self):
        dy.renew_cg()
        made = dy.SimpleRNNBuilder(2, 3, 2, dy.ParameterCollection(), support_lags=True)
        fill_all(made)
        return made

    def test_dynet_numbers(self, builder):
        aux = dy.inputVector(self.AUX)
        root = builder.initial_state()
        found = flat(root.add_auxiliary_input(x(0), aux).h())
        np.testing.assert_allclose(
            found, [0.775630, 0.197995, 0.309270, 0.641645], atol=2e-6
        )
        state = root.add_input(x(0))
        found = flat(state.add_auxiliary_input(x(1), aux).h())
        np.testing.assert_allclose(
            found, [0.653497, 0.221049, 0.557698, 0.768312], atol=2e-6
        )

    def test_result_is_a_state(self, builder):
        """DyNet's next input goes on from the state before it; ours from it."""
        W_x, W_h, b, _ = [p.as_array() for p in builder.get_parameters()[0]]
        before = builder.initial_state().add_input(x(0))
        lag = before.add_auxiliary_input(x(1), dy.inputVector(self.AUX))
        assert lag.prev() is before
        assert lag.output() is lag.h()[-1]
        after = lag.add_input(x(2))
        h = np.tanh(W_x @ x(2).npvalue() + W_h @ lag.h()[0].npvalue() + b)
        np.testing.assert_allclose(after.h()[0].npvalue(), h, rtol=1e-5)

    def test_gradient(self, builder):
        aux = dy.inputVector(self.AUX)
        state = builder.initial_state().add_auxiliary_input(x(0), aux)
        dy.squared_norm(state.output()).backward(full=True)
        assert aux.gradient().any()
        assert all(layer[3].grad_as_array().any() for layer in builder.get_parameters())

    def test_mask_of_the_input(self, builder):
        """The input is dropped as elsewhere, the auxiliary one never."""
        builder.set_dropouts(0.5, 0.0)
        seen = set()
        for _ in range(20):
            dy.renew_cg()
            zeros = dy.inputVector([0.0] * 3)
            state = builder.initial_state().add_auxiliary_input(
                zeros, dy.inputVector(self.AUX)
            )
            seen.add(tuple(np.round(state.h()[0].npvalue(), 5)))
        assert len(seen) == 1

    def test_parameters(self, builder):
        layers = builder.get_parameters()
        assert [[p.shape() for p in layer][3] for layer in layers] == [(2, 2), (2, 2)]
        names = [p.name() for layer in layers for p in layer]
        assert names == [f"/simple-rnn-builder/_{k}" for k in range(8)]
        again = dy.SimpleRNNBuilder.from_spec(builder.spec, dy.ParameterCollection())
        assert again.support_lags
        assert len(again.get_parameters()[0]) == 4

    def test_mistakes(self, builder):
        aux, state = dy.inputVector(self.AUX), builder.initial_state()
        with pytest.raises(TypeError, match="add_auxiliary_input: it is no Expression"):
            state.add_auxiliary_input(x(0), list(self.AUX))
        with pytest.raises(ValueError, match="add_auxiliary_input: it is no Express"):
            state.add_auxiliary_input(None, aux)
        with pytest.raises(ValueError, match="aux has 3 numbers, hidden_dim is 2"):
            state.add_auxiliary_input(x(0), x(0))
        dy.renew_cg()
        with pytest.raises(ValueError, match="add_auxiliary_input: the state is stale"):
            state.add_auxiliary_input(x(0), dy.inputVector(self.AUX))

    @pytest.mark.parametrize("make", [dy.SimpleRNNBuilder, dy.VanillaLSTMBuilder])
    def test_builders_without(self, make):
        dy.renew_cg()
        state = make(1, 3, 2, dy.ParameterCollection()).initial_state()
        with pytest.raises(ValueError, match="the builder has no weights for it"):
            state.add_auxiliary_input(x(0), dy.inputVector(self.AUX))

    def test_by_keyword_only(self):
        with pytest.raises(TypeError, match="positional"):
            dy.SimpleRNNBuilder(1, 3, 2, dy.ParameterCollection(), True)
