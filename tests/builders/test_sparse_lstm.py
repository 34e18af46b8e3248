"""SparseLSTMBuilder: its equations, numbers of DyNet 2.1, and its masks."""

import numpy as np
import pytest

import dynetjax as dy

from .golden import fill, flat, x
from .laws import CellLaws, sigmoid


def fill_sparse(builder):
    """The values of the stored numbers go to W_x, W_h and b."""
    parameters = [p for layer in builder.get_parameters() for p in layer[:3]]
    for n, p in enumerate(parameters):
        p.set_value(fill(n, p.shape()))


def masks(builder):
    layers = builder.get_parameters()
    return np.concatenate([M.as_array().ravel() for ps in layers for M in ps[3:]])


class TestCell(CellLaws):
    vectors = 2
    fixed = (3, 4)
    cells = (0.052284, 0.415668, -0.624795, -0.423955)
    numbers = (*cells, 0.024432, 0.267006, -0.284377, -0.158548)

    def make(self, model):
        return dy.SparseLSTMBuilder(2, 3, 2, model)

    def fill(self, builder):
        fill_sparse(builder)

    def step(self, parameters, x, state):
        W_x, W_h, b, M_x, M_h = parameters
        c, h = state
        i, f, o, g = np.split((W_x * M_x) @ x + (W_h * M_h) @ h + b, 4)
        c = sigmoid(f + 1) * c + sigmoid(i) * np.tanh(g)
        return [c, sigmoid(o) * np.tanh(c)]


class TestMaskedCell(TestCell):
    """The same with two weights of five left out."""

    def fill(self, builder):
        fill_sparse(builder)
        builder.set_sparsity(0.4)

    def test_dynet_numbers(self):
        """tests/builders/test_files.py has a builder that DyNet made sparse."""


@pytest.fixture
def builder():
    dy.renew_cg()
    made = dy.SparseLSTMBuilder(2, 3, 2, dy.ParameterCollection())
    fill_sparse(made)
    return made


def test_parameters(builder):
    first = builder.get_parameters()[0]
    assert [p.shape() for p in first] == [(8, 3), (8, 2), (8,), (8, 3), (8, 2)]
    names = [f"/vanilla-lstm-builder/_{k}" for k in (0, 1, 4, 2, 3)]
    assert [p.name() for p in first] == names
    assert builder.spec == (2, 3, 2, False, 1.0)
    assert (masks(builder) == 1).all()
    assert [p.is_updated() for p in first] == [True] * 3 + [False] * 2


def test_names_are_numbered_with_vanilla():
    m = dy.ParameterCollection()
    builders = dy.VanillaLSTMBuilder, dy.SparseLSTMBuilder, dy.VanillaLSTMBuilder
    names = [make(1, 2, 2, m).param_collection().name() for make in builders]
    assert names == [f"/vanilla-lstm-builder{end}/" for end in ("", "_1", "_2")]


def test_layer_norm_and_forget_bias():
    """With masks of ones it is a VanillaLSTMBuilder."""
    found = []
    for make in dy.SparseLSTMBuilder, dy.VanillaLSTMBuilder:
        dy.renew_cg()
        m = dy.ParameterCollection()
        builder = make(2, 3, 2, m, True, 0.25)
        fill_sparse(builder)
        own = {p.name() for p in builder.param_collection().parameters_list()}
        norms = [p for p in m.parameters_list() if p.name() not in own]
        assert [p.name() for p in norms] == [f"/_{k}" for k in range(12)]
        for k, p in enumerate(norms):
            p.set_value((k % 2 == 0) + 0.5 * fill(6 + k, p.shape()))
        found.append(flat(builder.initial_state().add_inputs([x(0), x(1)])[-1].s()))
    np.testing.assert_allclose(found[0], found[1], rtol=1e-6)


class TestSparsity:
    @pytest.mark.parametrize("part", [0, 0.01, 0.3, 0.5, 1])
    def test_the_smallest_are_left_out(self, builder, part):
        layers = builder.get_parameters()
        weights = np.concatenate(
            [W.as_array().ravel() for ps in layers for W in ps[:2]]
        )
        sizes = np.abs(weights)
        builder.set_sparsity(part)
        kept = masks(builder)
        assert (kept == 0).sum() == int(part * len(sizes))
        assert set(kept) <= {0, 1}
        if 0 < part < 1 and (kept == 0).any():
            assert sizes[kept == 0].max() <= sizes[kept == 1].min()
        for ps in layers:
            for p in ps[:2]:
                assert p.as_array().any()

    def test_left_out_weights_come_back(self, builder):
        builder.set_sparsity(0.5)
        before = masks(builder)
        builder.set_sparsity(0.2)
        after = masks(builder)
        assert (after[before == 1] == 1).all()
        assert (after == 0).sum() == int(0.2 * len(after))

    def test_what_was_left_out_stays_so(self, builder):
        """Even where it has become large meanwhile: W * M counts."""
        builder.set_sparsity(0.3)
        before = masks(builder)
        W_x, *_, M_x, _ = builder.get_parameters()[0]
        W_x.set_value(W_x.as_array() + 100 * (M_x.as_array() == 0))
        builder.set_sparsity(0.3)
        np.testing.assert_array_equal(masks(builder), before)

    def test_graph_keeps_its_masks(self, builder):
        before = flat(builder.initial_state().add_input(x(0)).s())
        builder.set_sparsity(0.9)
        again = flat(builder.initial_state().add_input(x(0)).s())
        np.testing.assert_allclose(again, before, rtol=1e-6)
        dy.renew_cg()
        assert (flat(builder.initial_state().add_input(x(0)).s()) != before).any()

    def test_training_leaves_masks_alone(self):
        """And weights under a zero, but for weight decay."""
        dy.reset_random_seed(5)
        m = dy.ParameterCollection()
        builder = dy.SparseLSTMBuilder(2, 3, 6, m)
        builder.param_collection().set_weight_decay(0.5)
        m.set_weight_decay(0.5)
        trainer = dy.AdamTrainer(m)
        builder.set_sparsity(0.5)
        before = masks(builder)
        for _ in range(2):
            dy.renew_cg()
            state = builder.initial_state().add_inputs([x(0), x(1)])[-1]
            dy.squared_norm(state.output()).backward()
            W_x, W_h, _, M_x, M_h = builder.get_parameters()[0]
            for W, M in (W_x, M_x), (W_h, M_h):
                gradient = W.grad_as_array()
                assert gradient.any()
                assert not gradient[M.as_array() == 0].any()
            trainer.update()
        np.testing.assert_array_equal(masks(builder), before)

    def test_expressions(self, builder):
        builder.set_sparsity(0.5)
        builder.initial_state()
        W_x, W_h, b, M_x, M_h = [p.as_array() for p in builder.get_parameters()[0]]
        found = [e.npvalue() for e in builder.get_parameter_expressions()[0]]
        for one, other in zip(found, [W_x * M_x, W_h * M_h, b], strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-6)

    def test_no_layers(self):
        dy.SparseLSTMBuilder(0, 3, 2, dy.ParameterCollection()).set_sparsity(0.5)

    @pytest.mark.parametrize("part", [-0.1, 1.1, np.nan])
    def test_out_of_range(self, builder, part):
        with pytest.raises(ValueError, match="set_sparsity: fraction is out of range"):
            builder.set_sparsity(part)

    def test_not_a_number(self, builder):
        with pytest.raises(TypeError, match="set_sparsity: fraction is not a number"):
            builder.set_sparsity("0.5")
