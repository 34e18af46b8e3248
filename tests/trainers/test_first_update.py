"""The first update is compiled before its gradients are there."""

import inspect
import itertools
import threading

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import dynetjax as dy
from dynetjax.trainers.base import Trainer
from dynetjax.trainers.update import compiled_update

ROWS = 1000  # of a table, which as many lanes as a GPU has do not fill
SIZES = itertools.count(3)


@pytest.fixture(autouse=True)
def _new_updates(by_xla):
    """None that a trainer with the same rule has had compiled, for other sizes."""
    compiled_update.cache_clear()


def trainers(kind=Trainer):
    """Every class of trainers that needs no more than a collection."""
    for of in kind.__subclasses__():
        yield from trainers(of)
        needed = [
            name
            for name, about in inspect.signature(of).parameters.items()
            if about.default is about.empty
        ]
        if needed == ["m"]:
            yield of


def made():
    """Programs compiled or loaded so far, and in threads that are still at it."""
    for thread in threading.enumerate():
        if thread.name == "dynetjax-preparing":
            thread.join()
    found = dy.stats()
    return found.compilations + found.loads


class Model:
    """A parameter, and tables, of sizes that no other has: its programs are new."""

    def __init__(self, tables=1):
        self.pc = dy.ParameterCollection()
        self.size = next(SIZES)
        self.W = self.pc.add_parameters((2, self.size))
        several = range(tables)
        self.tables = [
            self.pc.add_lookup_parameters((ROWS, self.size)) for _ in several
        ]

    def loss(self):
        dy.renew_cg()
        x = dy.inputVector(np.ones(self.size))
        for k in 1, 5, 1, 2:
            for E in self.tables:
                x = dy.tanh(x + E[k])
        return dy.squared_norm(self.W * x)


def programs(trainer):
    """How many updates were made ready."""
    return len(trainer._compiled().programs)


@pytest.fixture(scope="module", autouse=True)
def single_operations():
    """What JAX compiles for these is there, whatever tests came before."""
    model = Model(2)
    trainer = next(iter(trainers()))(model.pc)
    model.loss().backward()
    trainer.update()
    trainer.check()


@pytest.mark.parametrize("kind", [*trainers()], ids=lambda kind: kind.__name__)
def test_the_update_compiles_nothing(kind):
    model = Model()
    trainer = kind(model.pc)
    model.loss().backward()
    before, ready = made(), programs(trainer)
    trainer.update()
    trainer.check()
    assert made() == before
    assert programs(trainer) == ready


@pytest.mark.parametrize("tables", [0, 1, 2])
def test_of_tables(tables):
    model = Model(tables)
    trainer = dy.MomentumSGDTrainer(model.pc)
    for _ in range(2):
        model.loss().value()
    assert programs(trainer) == 0
    model.loss().backward()
    parts = [len(E.storage._parts) for E in model.tables]
    assert parts == [1] * tables
    assert programs(trainer) == 1
    trainer.update()
    trainer.check()
    assert programs(trainer) == 1


def test_another_update_than_expected():
    """Gradients of two graphs, where one was to come."""
    model = Model()
    trainer = dy.MomentumSGDTrainer(model.pc, learning_rate=0.1)
    before = model.W.as_array()
    for _ in range(2):
        model.loss().backward()
    gradient = model.W.grad_as_array()
    trainer.set_clip_threshold(0)
    trainer.update()
    expected = before - 0.1 * gradient
    np.testing.assert_allclose(model.W.as_array(), expected, rtol=1e-5, atol=1e-6)


def test_changes_nothing():
    """Neither parameters nor gradients, nor the count of updates."""
    model = Model()
    trainer = dy.AdamTrainer(model.pc)
    (E,) = model.tables
    before = model.W.as_array(), E.as_array()
    trainer._prepare({E.storage: [np.full(9, 2, np.int32)]})
    assert programs(trainer) > 0
    np.testing.assert_array_equal(model.W.as_array(), before[0])
    np.testing.assert_array_equal(E.as_array(), before[1])
    assert not model.W.storage.has_gradient
    assert trainer._updates == 0


def frozen(model, trainer):
    model.W.set_updated(False)


def decaying(model, trainer):
    model.pc.set_weight_decay(0.1)


def dense(model, trainer):
    trainer.set_sparse_updates(False)


def with_gradients(model, trainer):
    model.loss().backward()


def with_updates(model, trainer):
    model.loss().backward()
    trainer.update()


def with_others(model, trainer):
    model.other = dy.SimpleSGDTrainer(model.pc)


@pytest.mark.parametrize("how", [frozen, decaying, dense, with_others])
def test_where_it_is_not_clear_what_is_updated(how):
    """Nothing is compiled then; the update is as ever."""
    model = Model()
    trainer = dy.MomentumSGDTrainer(model.pc)
    how(model, trainer)
    model.loss().backward()
    assert programs(trainer) == 0
    trainer.update()
    trainer.check()
    assert programs(trainer) == 1


@pytest.mark.parametrize("how", [with_gradients, with_updates])
def test_only_before_anything_was_added(how):
    model = Model()
    trainer = dy.MomentumSGDTrainer(model.pc)
    how(model, trainer)
    ready = programs(trainer)
    trainer._prepare({model.tables[0].storage: [np.zeros(50, np.int32)]})
    assert programs(trainer) == ready


def test_of_nobody():
    """A trainer of other parameters compiles nothing."""
    model, other = Model(), Model()
    trainer = dy.MomentumSGDTrainer(other.pc)
    model.loss().backward()
    assert programs(trainer) == 0


def test_a_state_that_begins_with_the_parameters():
    """It does so with what they are when the first update comes."""
    toward_zero = optax.GradientTransformation(
        init=lambda params: params,
        update=lambda updates, state, params: (
            jax.tree.map(jnp.negative, state),
            state,
        ),
    )
    model = Model(tables=0)
    trainer = dy.OptaxTrainer(model.pc, toward_zero)
    model.loss().backward()
    assert programs(trainer) == 0
    model.W.set_value(np.full((2, model.size), 7.0))
    trainer.update()
    np.testing.assert_array_equal(model.W.as_array(), np.zeros((2, model.size)))
