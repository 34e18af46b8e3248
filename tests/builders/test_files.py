"""Builders that DyNet itself has saved; see tests/data/files/record_builders.py."""

import pathlib

import numpy as np
import pytest

import dynetjax as dy

from .golden import x

FILES = pathlib.Path(__file__).parent.parent / "data" / "files"
CLASSES = {
    "SimpleRNNBuilder": (2, 3, 2),
    "GRUBuilder": (2, 3, 2),
    "CompactVanillaLSTMBuilder": (2, 3, 2),
    "SparseLSTMBuilder": (2, 3, 2, False, 0.5),
    "BiRNNBuilder": (2, 3, 4, dy.GRUBuilder, None),
}

# With random_seed=3, one after the other, biases of zero left out.
FIRST = {
    dy.SimpleRNNBuilder: [-0.91611, 1.00465],
    dy.GRUBuilder: [-3.20661, -1.76204, -2.30049, -0.48675, 1.81072, -0.90757],
    dy.FastLSTMBuilder: [
        *(-0.90918, -0.21117, 1.69108),
        *(-0.47024, 0.18545, -0.00653),
        *(1.66333, -0.13108),
    ],
    dy.CompactVanillaLSTMBuilder: [-0.59677, -1.8998],
    dy.SparseLSTMBuilder: [0.74216, -1.74891, 24, 16],
}
BOTH_WAYS = [
    *(-2.3836, 1.69845, -1.41569, 0.87344),
    *(-0.93481, -1.08144, 0.10777, 0.57374),
]


def outputs(builder):
    dy.renew_cg()
    layer = builder if isinstance(builder, dy.BiRNNBuilder) else builder.initial_state()
    return np.array([e.npvalue() for e in layer.transduce([x(t) for t in range(3)])])


@pytest.fixture(scope="module")
def recorded():
    return dict(np.load(FILES / "builders.npz"))


@pytest.fixture(scope="module")
def loaded():
    builders = dy.load(str(FILES / "builders"), dy.ParameterCollection())
    return {builder.whoami(): builder for builder in builders}


@pytest.mark.parametrize("name", CLASSES)
def test_pair(recorded, loaded, name):
    assert loaded[name].spec == CLASSES[name]
    np.testing.assert_allclose(outputs(loaded[name]), recorded[name], atol=2e-6)


def test_masks(loaded):
    """They are numbers of the file, and fixed all the same."""
    masks = [
        M for layer in loaded["SparseLSTMBuilder"].get_parameters() for M in layer[3:]
    ]
    left_out = sum((M.as_array() == 0).sum() for M in masks)
    assert left_out == int(0.4 * sum(M.as_array().size for M in masks))
    assert not any(M.is_updated() for M in masks)


@pytest.mark.parametrize("name", CLASSES)
def test_round_trip(loaded, tmp_path, name):
    dy.save(str(tmp_path / "again"), [loaded[name]])
    (again,) = dy.load(str(tmp_path / "again"), dy.ParameterCollection())
    assert type(again) is type(loaded[name])
    np.testing.assert_allclose(outputs(again), outputs(loaded[name]), atol=1e-6)


def test_collections(recorded):
    m = dy.ParameterCollection()
    builder = dy.FastLSTMBuilder(2, 3, 2, m)
    m.populate(str(FILES / "fast_lstm.model"))
    np.testing.assert_allclose(outputs(builder), recorded[builder.whoami()], atol=2e-6)
    m = dy.ParameterCollection()
    builder = dy.VanillaLSTMBuilder(2, 3, 2, m, ln_lstm=True)
    m.populate(str(FILES / "norm_lstm.model"))
    np.testing.assert_allclose(outputs(builder), recorded[builder.whoami()], atol=2e-6)


def test_first_values():
    """A seeded program starts as in DyNet, whose sums of parameters these are."""
    dy.reset_random_seed(3)
    found = []
    for make in FIRST:
        m = dy.ParameterCollection()
        make(1, 3, 2, m)
        found.append([p.as_array().sum() for p in m.parameters_list()])
    m = dy.ParameterCollection()
    dy.BiRNNBuilder(2, 3, 2, m, dy.SimpleRNNBuilder)
    found.append([p.as_array().sum() for p in m.parameters_list()])
    for sums, wanted in zip(found, [*FIRST.values(), BOTH_WAYS], strict=True):
        weights = [s for s in sums if s]
        np.testing.assert_allclose(weights, wanted, atol=2e-5)
