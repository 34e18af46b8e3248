"""Rules are byte code, known without JAX where an earlier process left it."""

import jax.numpy as jnp
import numpy as np
import optax
import pytest

import dynetjax as dy
from dynetjax.engine.native import kept
from dynetjax.engine.runtime import RUNTIME
from dynetjax.native import core
from dynetjax.trainers.adadelta import adadelta
from dynetjax.trainers.adagrad import adagrad
from dynetjax.trainers.adam import adam
from dynetjax.trainers.amsgrad import amsgrad
from dynetjax.trainers.base import Trainer
from dynetjax.trainers.blocks import BlockStates
from dynetjax.trainers.eg import exponentiated_gradient
from dynetjax.trainers.momentum import momentum
from dynetjax.trainers.native_rule import native_rule
from dynetjax.trainers.rmsprop import rmsprop
from dynetjax.trainers.rules import RuleOfNumbers
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


pytestmark = pytest.mark.usefixtures("natively")


@pytest.fixture(params=MAKES, ids=lambda make: make.__name__)
def rule(request):
    return request.param(*MAKES[request.param])


def test_the_state_begins_as_zeros(rule):
    leaves = rule.init(np.ones((2, 3), np.float32))
    assert len(leaves) == native_rule(rule).states
    for leaf in leaves:
        assert leaf.dtype == np.float32
        np.testing.assert_array_equal(leaf, np.zeros((2, 3)))


@pytest.mark.parametrize(
    ("rule", "by_optax"),
    [
        (momentum(0.9), lambda: optax.sgd(0.1, momentum=0.9)),
        (rmsprop(1e-8, 0.9), lambda: optax.rmsprop(0.1, 0.9, 1e-8)),
        (adadelta(1e-6, 0.95), lambda: optax.adadelta(1.0, 0.95, 1e-6)),
    ],
    ids=["momentum", "rmsprop", "adadelta"],
)
def test_those_that_optax_has(rule, by_optax):
    """The other rules of DyNet differ from optax's of the name."""
    theirs, values = by_optax(), jnp.ones(5)
    state, their_state = rule.init(values), theirs.init(values)
    for step in range(1, 4):
        g = jnp.linspace(-1, step, 5)
        change, state = rule.update(g, state, values, step=step, learning_rate=0.1)
        wanted, their_state = theirs.update(g, their_state, values)
        np.testing.assert_allclose(change, wanted, rtol=1e-5)


def test_of_the_same_numbers_it_is_one():
    assert adam(0.25, 0.5, 1e-3) is adam(0.25, 0.5, 1e-3)


def test_is_not_traced_where_there_is_a_file(tmp_path, monkeypatch):
    """A later process does not need JAX for it."""
    monkeypatch.setattr(RUNTIME, "keeps_byte_code", True)
    monkeypatch.setattr(kept, "_folder", lambda: tmp_path)
    make, numbers = adam(0.3, 0.6, 1e-3).make, (0.3, 0.6, 1e-3)
    found = []
    for _ in range(2):
        rule = RuleOfNumbers(make, numbers, 2)
        native_rule.cache_clear()
        assert native_rule(rule).states == 2
        found.append("update" in vars(rule))
    assert found == [True, False]
    assert len([*tmp_path.iterdir()]) == len(core.TERMS)


def test_other_rules_are_asked():
    assert not BlockStates(exponentiated_gradient(0.9)).is_empty


def test_state_that_something_reads_later_is_written_last(monkeypatch):
    """The rule reads its old state after the new one is known."""

    def update(updates, state, params=None, *, step, learning_rate):
        new = state[0] * 0.5 + updates
        return new * learning_rate - jnp.tanh(state[0] * new), (new,)

    monkeypatch.setattr(Trainer, "_send", None)
    trained, state = np.ones(300, np.float32), np.zeros(300, np.float32)
    m = dy.ParameterCollection()
    p = m.parameters_from_numpy(trained)
    trainer = Trainer(m, 0.1, rule=RuleOfNumbers(lambda: update, (), 1))
    trainer.set_clip_threshold(0)
    for k in range(3):
        p.storage.gradient = gradient = np.linspace(-1, k + 1, 300, dtype=np.float32)
        trainer.update()
        new = state * 0.5 + gradient
        trained, state = trained + new * 0.1 - np.tanh(state * new), new
        np.testing.assert_allclose(p.as_array(), trained, rtol=1e-5, atol=1e-6)


def swaps(updates, state, params=None, *, step, learning_rate):
    one, other = state
    return updates + one, (other, one)


def of_all_numbers(updates, state, params=None, *, step, learning_rate):
    return updates / jnp.sum(updates), state


def of_much_state(updates, state, params=None, *, step, learning_rate):
    return updates, state


@pytest.mark.parametrize(
    ("update", "states"),
    [(swaps, 2), (of_all_numbers, 0), (of_much_state, core.MOST_STATES + 1)],
)
def test_what_is_left_to_xla(update, states):
    assert native_rule(RuleOfNumbers(lambda: update, (), states)) is None
