"""AdamTrainer: its formula beside that of the paper."""

import jax.numpy as jnp
import numpy as np
import optax
import pytest

import dynetjax as dy
from dynetjax.trainers.adam import adam

from .rules import Adam


def test_direction():
    rule = adam(0.8, 0.9, 1e-3)
    numpy = Adam((3,), rate=1.0, b1=0.8, b2=0.9, eps=1e-3)
    state = rule.init(jnp.zeros(3))
    for t in 1, 2, 3:
        g = np.random.RandomState(t).randn(3)
        found, state = rule.update(
            jnp.asarray(g, jnp.float32), state, step=t, learning_rate=1.0
        )
        expected = numpy.direction(g, np.arange(3), t)
        np.testing.assert_allclose(found, -expected, rtol=1e-5)


def test_differs_from_the_paper_in_eps_only():
    """With a large eps the two formulas part; with a tiny one they agree."""
    g = jnp.array([0.5, -2.0])
    for eps, same in (1e-12, True), (0.1, False):
        r = adam(0.9, 0.999, eps)
        ours, _ = r.update(g, r.init(g), step=1, learning_rate=-1.0)
        theirs, _ = (r := optax.scale_by_adam(eps=eps)).update(g, r.init(g))
        assert np.allclose(ours, theirs, rtol=1e-4) is same


def test_arguments():
    m = dy.ParameterCollection()
    assert dy.AdamTrainer(m, alpha=0.5).learning_rate == 0.5
    with pytest.raises(TypeError):
        dy.AdamTrainer(m, learning_rate=0.5)


def test_same_hyper_parameters_share_a_program():
    assert adam(0.9, 0.999, 1e-8) is adam(0.9, 0.999, 1e-8)


def test_sparse_rows():
    """A row seen late takes its first step with the trainer's t."""
    m = dy.ParameterCollection()
    E = m.lookup_parameters_from_numpy(np.zeros((3, 2)))
    trainer = dy.AdamTrainer(m)
    rule = Adam((3, 2))
    expected = np.zeros((3, 2))
    for t, row in enumerate([0, 0, 1], start=1):
        dy.renew_cg()
        dy.dot_product(E[row], dy.inputVector([1.0, -2.0])).backward()
        trainer.update()
        expected[row] -= rule.direction(np.array([1.0, -2.0]), row, t)
        np.testing.assert_allclose(E.as_array(), expected, rtol=1e-5)
