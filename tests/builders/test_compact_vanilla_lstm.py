"""CompactVanillaLSTMBuilder: its equations, numbers of DyNet 2.1, weight noise."""

import numpy as np
import pytest

import dynetjax as dy

from .golden import fill_all, flat, x
from .laws import CellLaws, sigmoid


class TestCell(CellLaws):
    vectors = 2
    cells = (0.052284, 0.415668, -0.624795, -0.423955)
    numbers = (*cells, 0.024432, 0.267006, -0.284377, -0.158548)

    def make(self, model):
        return dy.CompactVanillaLSTMBuilder(2, 3, 2, model)

    def step(self, parameters, x, state):
        W_x, W_h, b = parameters
        c, h = state
        i, f, o, g = np.split(W_x @ x + W_h @ h + b, 4)
        c = sigmoid(f + 1) * c + sigmoid(i) * np.tanh(g)
        return [c, sigmoid(o) * np.tanh(c)]


def test_parameters():
    builder = dy.CompactVanillaLSTMBuilder(1, 3, 2, dy.ParameterCollection())
    (layer,) = builder.get_parameters()
    assert [p.shape() for p in layer] == [(8, 3), (8, 2), (8,)]
    names = [f"/compact-vanilla-lstm-builder/_{k}" for k in range(3)]
    assert [p.name() for p in layer] == names
    assert [bool(p.as_array().any()) for p in layer] == [True, True, False]
    assert builder.spec == (1, 3, 2)


class TestWeightNoise:
    @pytest.fixture
    def builder(self):
        dy.renew_cg()
        made = dy.CompactVanillaLSTMBuilder(1, 3, 2, dy.ParameterCollection())
        fill_all(made)
        return made

    def test_none(self, builder):
        expected = flat(builder.initial_state().add_input(x(0)).s())
        builder.set_weightnoise(0.5)
        builder.set_weightnoise(0)
        found = flat(builder.initial_state().add_input(x(0)).s())
        np.testing.assert_allclose(found, expected, rtol=1e-6)

    def test_little(self, builder):
        """The weights count: DyNet 2.1 leaves them out as soon as there is noise."""
        expected = flat(builder.initial_state().add_inputs([x(0), x(1)])[-1].s())
        builder.set_weightnoise(1e-4)
        found = flat(builder.initial_state().add_inputs([x(0), x(1)])[-1].s())
        np.testing.assert_allclose(found, expected, atol=5e-3)
        assert (found != expected).any()

    def test_deviation(self):
        """With one number at 1, W_x x + b deviates by sqrt(2) std; five deviations."""
        size, std = 500, 0.01
        dy.renew_cg()
        builder = dy.CompactVanillaLSTMBuilder(1, 1, size, dy.ParameterCollection())
        for p in builder.get_parameters()[0]:
            p.zero()
        builder.set_weightnoise(std)
        c, _ = builder.initial_state().add_input(dy.inputVector([1.0])).s()
        # sigmoid(0) tanh(z), to first order in z
        found = np.std(c.npvalue()) / (0.5 * np.sqrt(2) * std)
        assert abs(found - 1) < 5 / np.sqrt(2 * size)

    def test_drawn_at_every_step(self, builder):
        builder.set_weightnoise(0.5)
        root, one = builder.initial_state(), x(0)
        first, second = [flat(root.add_input(one).s()) for _ in range(2)]
        assert (first != second).all()

    def test_one_draw_for_a_batch(self, builder):
        builder.set_weightnoise(0.5)
        batch = dy.inputTensor(np.ones((3, 4)), batched=True)
        output = builder.initial_state().add_input(batch).output().npvalue()
        np.testing.assert_allclose(output, output[:, :1].repeat(4, 1), rtol=1e-6)

    def test_parameters_stay(self, builder):
        """And their gradients are those at the noisy weights."""
        before = [p.as_array() for p in builder.get_parameters()[0]]
        builder.set_weightnoise(0.5)
        state = builder.initial_state().add_inputs([x(0), x(1)])[-1]
        dy.squared_norm(state.output()).backward()
        for p, array in zip(builder.get_parameters()[0], before, strict=True):
            np.testing.assert_array_equal(p.as_array(), array)
            assert p.grad_as_array().any()

    def test_mistakes(self, builder):
        with pytest.raises(ValueError, match="set_weightnoise: std is too small"):
            builder.set_weightnoise(-0.1)
        with pytest.raises(TypeError, match="set_weightnoise: std is not a number"):
            builder.set_weightnoise("0.1")
