"""Whole copies: pickle and copy.deepcopy of models with their trainers."""

import copy
import pickle

import numpy as np
import optax
import pytest

import dynetjax as dy

TRAINERS = {
    "SimpleSGD": dy.SimpleSGDTrainer,
    "Adam": lambda m: dy.AdamTrainer(m=m, alpha=0.05, beta_1=0.8),
    "lazy": lambda m: dy.MomentumSGDTrainer(m, 0.1, lazy_correct=True),
    "Cyclical": lambda m: dy.CyclicalSGDTrainer(m, step_size=2),
}


def through_pickle(thing):
    return pickle.loads(pickle.dumps(thing))


@pytest.fixture(params=[through_pickle, copy.deepcopy])
def copied(request):
    return request.param


def model():
    m = dy.ParameterCollection()
    W = m.parameters_from_numpy(np.array([[1.0, 2.0], [3.0, 4.0]]), name="W")
    E = m.add_subcollection("sub").lookup_parameters_from_numpy(np.ones((3, 2)))
    return m, W, E


def step(W, E, row, trainer=None):
    dy.renew_cg()
    loss = dy.squared_norm(dy.tanh(W * E[row]))
    value = loss.value()
    loss.backward()
    if trainer is not None:
        trainer.update()
    return value


def test_collection(copied):
    """Values, gradients, names, flags; and what is made next."""
    m, W, E = model()
    m.set_weight_decay(0.25)
    E.set_updated(False)
    step(W, E, 1)
    dy.sum_elems(E).backward()
    other = copied(m)
    (V,), (F,) = other.parameters_list(), other.lookup_parameters_list()
    for ours, theirs in (W, V), (E, F):
        assert theirs is not ours
        assert theirs.name() == ours.name()
        assert theirs.is_updated() == ours.is_updated()
        np.testing.assert_array_equal(theirs.as_array(), ours.as_array())
        np.testing.assert_array_equal(theirs.grad_as_array(), ours.grad_as_array())
    assert other.get_weight_decay() == 0.25
    assert other.add_parameters(1, name="W").name() == "/W_1"
    V.set_value(np.zeros((2, 2)))
    assert W.as_array()[0, 0] == 1
    assert step(V, F, 1) == 0


def test_parts_stay_parts(copied):
    """Of what is copied together: a parameter is that of its collection."""
    m, W, _ = model()
    other, V, constant = copied([m, W, W.expr()])
    assert other.parameters_list()[0] is V
    V.set_value(np.full((2, 2), 5.0))
    dy.renew_cg()
    assert constant.npvalue()[0, 0] == 5


def test_a_table_that_decays(copied):
    m, W, E = model()
    m.set_weight_decay(0.5)
    trainer = dy.SimpleSGDTrainer(m)
    step(W, E, 0, trainer)
    np.testing.assert_array_equal(copied(E).as_array(), E.as_array())


@pytest.mark.parametrize("name", TRAINERS)
def test_trainer(copied, name):
    """It goes on with its own copy of the parameters, as the other does."""
    m, W, E = model()
    trainer = TRAINERS[name](m)
    for row in 0, 1, 1:
        step(W, E, row, trainer)
    others, other = copied((m, trainer))
    (V,), (F,) = others.parameters_list(), others.lookup_parameters_list()
    for row in 0, 2:
        assert step(V, F, row, other) == step(W, E, row, trainer)
    np.testing.assert_array_equal(V.as_array(), W.as_array())
    np.testing.assert_array_equal(F.as_array(), E.as_array())
    assert other.learning_rate == trainer.learning_rate


def test_trainer_of_a_transformation():
    """deepcopy can; functions that optax makes cannot be pickled."""
    m, W, E = model()
    trainer = dy.OptaxTrainer(m, optax.adam(0.1))
    step(W, E, 0, trainer)
    others, other = copy.deepcopy((m, trainer))
    (V,), (F,) = others.parameters_list(), others.lookup_parameters_list()
    assert step(V, F, 1, other) == step(W, E, 1, trainer)
    np.testing.assert_array_equal(V.as_array(), W.as_array())


def test_half_copies_are_refused():
    m, W, E = model()
    for thing in m, W, E, dy.SimpleSGDTrainer(m):
        with pytest.raises(TypeError, match="no shallow copies"):
            copy.copy(thing)
