"""What holds for every builder that keeps its dropout masks for a graph."""

import numpy as np
import pytest

import dynetjax as dy
from dynetjax.graph import current_graph

from .golden import fill_all, flat, x

BUILDERS = [
    dy.SimpleRNNBuilder,
    dy.CoupledLSTMBuilder,
    dy.VanillaLSTMBuilder,
    dy.CompactVanillaLSTMBuilder,
    dy.SparseLSTMBuilder,
]
pytestmark = pytest.mark.parametrize("builder", BUILDERS, indirect=True)


@pytest.fixture
def builder(request):
    dy.renew_cg()
    made = request.param(2, 3, 2, dy.ParameterCollection())
    fill_all(made)
    return made


def test_off(builder):
    expected = flat(builder.initial_state().add_input(x(0)).s())
    builder.set_dropout(0.5)
    builder.disable_dropout()
    found = flat(builder.initial_state().add_input(x(0)).s())
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_masks_last_as_long_as_the_graph(builder):
    """All sequences of a graph share the masks; the next graph has others."""
    builder.set_dropout(0.5)
    seen = set()
    for _ in range(12):
        dy.renew_cg()
        runs = [
            flat(builder.initial_state().add_inputs([x(0), x(1)])[-1].s())
            for _ in range(2)
        ]
        np.testing.assert_allclose(runs[0], runs[1], atol=1e-6)
        seen.add(tuple(np.round(runs[0], 4)))
    assert len(seen) > 1


def test_input_masks(builder):
    """Every run is one of those with some inputs dropped, the others doubled."""
    one = type(builder)(1, 3, 2, dy.ParameterCollection())
    fill_all(one)
    vector = np.array([0.3, -0.5, 0.9])
    possible = [
        flat(one.initial_state().add_input(dy.inputVector(2 * vector * bits)).s())
        for bits in np.ndindex(2, 2, 2)
    ]
    one.set_dropouts(0.5, 0.0)
    for _ in range(10):
        dy.renew_cg()
        found = flat(one.initial_state().add_input(dy.inputVector(vector)).s())
        assert min(np.abs(found - p).max() for p in possible) < 1e-6


def test_elements_of_a_batch_differ(builder):
    builder.set_dropout(0.5)
    batch = dy.inputTensor(np.ones((3, 16)), batched=True)
    output = builder.initial_state().add_input(batch).output().npvalue()
    assert len({tuple(row) for row in np.round(output.T, 5)}) > 1


def test_shared_masks(builder):
    builder.set_dropout(0.5)
    state = builder.initial_state()
    builder.set_dropout_masks(batch_size=1)
    batch = dy.inputTensor(np.ones((3, 16)), batched=True)
    output = state.add_input(batch).output().npvalue()
    np.testing.assert_allclose(output, output[:, :1].repeat(16, 1), rtol=1e-5)


def test_other_batch_size(builder):
    builder.set_dropout(0.5)
    for size in 2, 3, 1:
        batch = dy.inputTensor(np.ones((3, size)), batched=True)
        output = builder.initial_state().add_input(batch).output()
        assert output.npvalue().size == 2 * size


def test_masks_need_a_graph(builder):
    with pytest.raises(ValueError, match="set_dropout_masks: the state is stale"):
        builder.set_dropout_masks()


@pytest.mark.parametrize("rate", [-0.1, 1, 1.5, np.nan])
def test_rate_out_of_range(builder, rate):
    with pytest.raises(ValueError, match="set_dropout: the rate is out"):
        builder.set_dropout(rate)
    with pytest.raises(ValueError, match="set_dropouts: the rate is out"):
        builder.set_dropouts(0.5, rate)


def test_rate_is_a_number(builder):
    with pytest.raises(TypeError, match="set_dropout: p is not a number"):
        builder.set_dropout("0.5")


def test_share_of_dropped(builder):
    """Of all masks at rate 0.3; the bound is five deviations of a binomial."""
    wide = type(builder)(2, 500, 200, dy.ParameterCollection())
    wide.set_dropout(0.3)
    wide.initial_state()
    wide.set_dropout_masks(3)
    ((_, layers),) = current_graph().sessions[wide].masks.items()
    masks = [mask.npvalue() for layer in layers for mask in layer]
    for mask in masks:
        assert set(np.round(np.unique(mask), 4)) == {0, np.round(1 / 0.7, 4)}
        assert abs((mask == 0).mean() - 0.3) < 5 * np.sqrt(0.3 * 0.7 / mask.size)
    sizes = [mask.shape for mask in masks]
    assert sizes[0] == (500, 3)
    assert set(sizes[1:]) == {(200, 3)}


def test_rates_changed_within_a_graph(builder):
    """0 switches the masks off, and another rate on again: they are not redrawn."""
    builder.set_dropout(0.5)
    state, one = builder.initial_state(), x(0)
    first = flat(state.add_input(one).s())
    builder.set_dropout(0.0)
    plain = flat(state.add_input(one).s())
    builder.set_dropout(0.9)
    again = flat(state.add_input(one).s())
    np.testing.assert_allclose(again, first, rtol=1e-5)
    dy.renew_cg()
    builder.disable_dropout()
    expected = flat(builder.initial_state().add_input(x(0)).s())
    np.testing.assert_allclose(plain, expected, rtol=1e-5)
