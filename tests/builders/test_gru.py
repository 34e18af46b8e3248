"""GRUBuilder: its equations, stored numbers of DyNet 2.1, and its own dropout."""

import numpy as np
import pytest

import dynetjax as dy

from .golden import fill_all, flat, x
from .laws import CellLaws, sigmoid


class TestCell(CellLaws):
    numbers = (-0.143227, -0.061615, -0.263050, -0.313169)

    def make(self, model):
        return dy.GRUBuilder(2, 3, 2, model)

    def step(self, parameters, x, state):
        W_zx, W_zh, b_z, W_rx, W_rh, b_r, W_hx, W_hh, b_h = parameters
        (h,) = state
        z = sigmoid(W_zx @ x + W_zh @ h + b_z)
        r = sigmoid(W_rx @ x + W_rh @ h + b_r)
        u = np.tanh(W_hx @ x + W_hh @ (r * h) + b_h)
        return [(1 - z) * h + z * u]


def test_parameters():
    builder = dy.GRUBuilder(1, 3, 2, dy.ParameterCollection())
    (layer,) = builder.get_parameters()
    assert [p.shape() for p in layer] == [(2, 3), (2, 2), (2,)] * 3
    assert [p.name() for p in layer] == [f"/gru-builder/_{k}" for k in range(9)]
    assert [bool(p.as_array().any()) for p in layer] == [True, True, False] * 3
    assert builder.spec == (1, 3, 2)


class TestDropout:
    @pytest.fixture
    def builder(self):
        dy.renew_cg()
        made = dy.GRUBuilder(1, 3, 2, dy.ParameterCollection())
        fill_all(made)
        return made

    def test_inputs(self, builder):
        """h is one of those with some inputs dropped; what it goes on from is not."""
        vector, h0 = np.array([0.3, -0.5, 0.9]), [0.4, -0.7]
        possible = []
        for bits in np.ndindex(2, 2, 2):
            state = builder.initial_state_from_raw_vectors([h0])
            state = state.add_input(dy.inputVector(2 * vector * bits))
            possible.append(flat(state.h()))
        builder.set_dropout(0.5)
        for _ in range(10):
            dy.renew_cg()
            state = builder.initial_state_from_raw_vectors([h0])
            found = flat(state.add_input(dy.inputVector(vector)).h())
            assert min(np.abs(found - p).max() for p in possible) < 1e-6

    def test_drawn_at_every_step(self, builder):
        """One input again and again, from one state."""
        builder.set_dropout(0.5)
        root, one = builder.initial_state(), x(0)
        found = [flat(root.add_input(one).h()) for _ in range(20)]
        assert len({tuple(np.round(h, 5)) for h in found}) > 1

    def test_output_is_dropped(self, builder):
        """And the state is not."""
        builder.set_dropout(0.5)
        ratios = []
        for _ in range(20):
            dy.renew_cg()
            state = builder.initial_state().add_input(x(0))
            assert state.output() is state.output()
            assert state.output() is not state.h()[-1]
            ratios.extend(state.output().npvalue() / state.h()[-1].npvalue())
        assert set(np.round(ratios, 4)) == {0, 2}

    def test_transduce_drops(self, builder):
        """How many numbers are zero is binomial; the bound is five deviations.

        The input is wide, for where all of it is dropped, the first output is zero.
        """
        wide = dy.GRUBuilder(1, 50, 100, dy.ParameterCollection())
        wide.set_dropout(0.3)
        outputs = wide.initial_state().transduce([dy.ones(50)] * 10)
        dropped = np.mean([e.npvalue() == 0 for e in outputs])
        assert abs(dropped - 0.3) < 5 * np.sqrt(0.3 * 0.7 / 1000)

    def test_off(self, builder):
        expected = flat(builder.initial_state().add_input(x(0)).h())
        builder.set_dropout(0.5)
        builder.disable_dropout()
        state = builder.initial_state().add_input(x(0))
        assert state.output() is state.h()[-1]
        np.testing.assert_allclose(flat(state.h()), expected, rtol=1e-6)

    def test_given_vectors_are_not_dropped(self, builder):
        builder.set_dropout(0.5)
        h = dy.inputVector([0.4, -0.7])
        assert builder.initial_state([h]).output() is h
        assert builder.initial_state().add_input(x(0)).set_h([h]).output() is h

    @pytest.mark.parametrize("rate", [-0.1, 1, np.nan])
    def test_rate_out_of_range(self, builder, rate):
        with pytest.raises(ValueError, match="set_dropout: the rate is out"):
            builder.set_dropout(rate)

    def test_rate_is_a_number(self, builder):
        with pytest.raises(TypeError, match="set_dropout: p is not a number"):
            builder.set_dropout("0.5")
