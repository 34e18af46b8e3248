"""AdadeltaTrainer: its formula, in which there is no learning rate."""

import jax.numpy as jnp
import numpy as np
import pytest

import dynetjax as dy
from dynetjax.trainers.adadelta import adadelta

from .rules import Adadelta


@pytest.mark.parametrize("eps", [0.3, 1e-6])
def test_direction(eps):
    rule = adadelta(eps, 0.8)
    numpy = Adadelta((3,), eps=eps, rho=0.8)
    state = rule.init(jnp.zeros(3))
    for t in 1, 2, 3:
        g = np.random.RandomState(t).randn(3)
        found, state = rule.update(
            jnp.asarray(g, jnp.float32), state, step=t, learning_rate=7.0
        )
        expected = numpy.direction(g, np.arange(3), t)
        np.testing.assert_allclose(found, -expected, rtol=1e-5)


def test_learning_rate_changes_nothing():
    ends = []
    for rate in 1.0, 100.0:
        m = dy.ParameterCollection()
        W = m.add_parameters(2, init=1.0)
        trainer = dy.AdadeltaTrainer(m)
        assert trainer.learning_rate == 1.0
        trainer.restart(rate)
        dy.renew_cg()
        dy.squared_norm(W).backward()
        trainer.update()
        ends.append(W.as_array().tolist())
    assert ends[0] == ends[1] != [1, 1]


def test_arguments():
    m = dy.ParameterCollection()
    assert dy.AdadeltaTrainer(m, eps=1e-3, rho=0.5).learning_rate == 1.0
    with pytest.raises(TypeError):
        dy.AdadeltaTrainer(m, learning_rate=0.5)


def test_same_hyper_parameters_share_a_program():
    assert adadelta(1e-6, 0.95) is adadelta(1e-6, 0.95)
