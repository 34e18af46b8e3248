"""RMSPropTrainer: eps is inside the root."""

import jax.numpy as jnp
import numpy as np
import pytest

import dynetjax as dy
from dynetjax.trainers.rmsprop import rmsprop

from .rules import RmsProp


@pytest.mark.parametrize("eps", [0.3, 1e-8])
def test_direction(eps):
    rule = rmsprop(eps, 0.8)
    numpy = RmsProp((3,), rate=0.5, eps=eps, rho=0.8)
    state = rule.init(jnp.zeros(3))
    for t in 1, 2, 3:
        g = np.random.RandomState(t).randn(3)
        found, state = rule.update(
            jnp.asarray(g, jnp.float32), state, step=t, learning_rate=0.5
        )
        expected = numpy.direction(g, np.arange(3), t)
        np.testing.assert_allclose(found, -expected, rtol=1e-5)


def test_arguments():
    m = dy.ParameterCollection()
    assert dy.RMSPropTrainer(m).learning_rate == np.float32(0.001)
    trainer = dy.RMSPropTrainer(m, learning_rate=0.5, eps=1e-3, rho=0.5)
    assert trainer.learning_rate == 0.5


def test_same_hyper_parameters_share_a_program():
    assert rmsprop(1e-8, 0.9) is rmsprop(1e-8, 0.9)
