"""Rules that have a loop are known without optax, which makes them when XLA is to."""

import jax
import numpy as np
import pytest

from dynetjax.trainers.adadelta import adadelta
from dynetjax.trainers.adagrad import adagrad
from dynetjax.trainers.adam import adam
from dynetjax.trainers.amsgrad import amsgrad
from dynetjax.trainers.blocks import BlockStates
from dynetjax.trainers.eg import exponentiated_gradient
from dynetjax.trainers.momentum import momentum
from dynetjax.trainers.rmsprop import rmsprop
from dynetjax.trainers.sgd import sgd

MAKES = {
    sgd: (),
    momentum: (0.9,),
    adagrad: (1e-20,),
    rmsprop: (1e-8, 0.9),
    adadelta: (1e-6, 0.95),
    adam: (0.9, 0.999, 1e-8),
    amsgrad: (0.9, 0.999, 1e-8),
}


@pytest.fixture(params=MAKES, ids=lambda make: make.__name__)
def rule(request):
    return request.param(*MAKES[request.param])


def test_the_state_begins_as_optax_has_it(rule):
    leaves = jax.tree.leaves(rule.made.init(np.ones((2, 3), np.float32)))
    assert len(leaves) == rule.states
    for leaf in leaves:
        assert leaf.dtype == np.float32
        np.testing.assert_array_equal(leaf, np.zeros((2, 3)))


def test_is_made_when_it_is_used():
    """Once, for all models."""
    rule = adam(0.25, 0.5, 1e-3)
    states = BlockStates(rule, join=True)
    assert not states.is_empty
    assert "made" not in vars(rule)
    rule.init(np.ones(1, np.float32))
    assert adam(0.25, 0.5, 1e-3).made is vars(rule)["made"]


def test_other_rules_are_asked():
    assert not BlockStates(exponentiated_gradient(0.9), join=False).is_empty
