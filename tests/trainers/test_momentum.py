"""MomentumSGDTrainer: its velocity keeps the rates that gradients came with."""

import jax.numpy as jnp
import numpy as np

import dynetjax as dy
from dynetjax.trainers.momentum import momentum

from .rules import Momentum


def test_direction():
    """Also where the learning rate changes."""
    rule = momentum(0.7)
    numpy = Momentum((3,), mom=0.7)
    state = rule.init(jnp.zeros(3))
    for t, rate in enumerate([1.0, 0.1, 0.0, 2.0], start=1):
        g = np.random.RandomState(t).randn(3)
        found, state = rule.update(
            jnp.asarray(g, jnp.float32), state, step=t, learning_rate=rate
        )
        numpy.rate = rate
        expected = numpy.direction(g, np.arange(3), t)
        np.testing.assert_allclose(found, -expected, rtol=1e-5)


def test_goes_on_after_the_rate_fell():
    m = dy.ParameterCollection()
    W = m.add_parameters(1, init=0.0)
    trainer = dy.MomentumSGDTrainer(m, 1.0, 0.5)
    dy.renew_cg()
    dy.sum_elems(W).backward()
    trainer.update()
    trainer.learning_rate = 0.0
    trainer.update()
    assert W.as_array().tolist() == [-1.5]


def test_arguments():
    m = dy.ParameterCollection()
    assert dy.MomentumSGDTrainer(m).learning_rate == np.float32(0.01)
    assert dy.MomentumSGDTrainer(m, learning_rate=0.5, mom=0.1).learning_rate == 0.5


def test_same_hyper_parameters_share_a_program():
    assert momentum(0.9) is momentum(0.9)
