"""AdagradTrainer: eps is inside the root, and may be tiny."""

import jax.numpy as jnp
import numpy as np
import pytest

import dynetjax as dy
from dynetjax.trainers.adagrad import adagrad

from .rules import Adagrad


@pytest.mark.parametrize("eps", [0.3, 1e-20])
def test_direction(eps):
    rule = adagrad(eps)
    numpy = Adagrad((3,), rate=0.5, eps=eps)
    state = rule.init(jnp.zeros(3))
    for t in 1, 2, 3:
        g = np.random.RandomState(t).randn(3)
        found, state = rule.update(
            jnp.asarray(g, jnp.float32), state, step=t, learning_rate=0.5
        )
        expected = numpy.direction(g, np.arange(3), t)
        np.testing.assert_allclose(found, -expected, rtol=1e-5)


@pytest.mark.parametrize("sparse", [True, False])
def test_no_gradient_yet(sparse):
    """0 / sqrt(0 + 1e-20) is 0: nothing flushes eps to 0 and gives NaN."""
    m = dy.ParameterCollection()
    W = m.add_parameters(2, init=1.0)
    E = m.lookup_parameters_from_numpy(np.ones((3, 2)))
    trainer = dy.AdagradTrainer(m)
    trainer.set_sparse_updates(sparse)
    dy.renew_cg()
    dy.cmult(dy.scalarInput(0.0), dy.dot_product(W, E[1])).backward()
    trainer.update()
    trainer.update()
    assert W.as_array().tolist() == [1, 1]
    assert E.as_array().tolist() == [[1, 1]] * 3


def test_first_step_has_the_length_of_the_rate():
    """Also where g^2 is not far from eps."""
    rule = adagrad(1e-20)
    g = jnp.array([1e-7, -1e-3, 1e9])
    found, _ = rule.update(g, rule.init(g), step=1, learning_rate=0.1)
    np.testing.assert_allclose(found, [-0.1, 0.1, -0.1], rtol=1e-5)


def test_arguments():
    m = dy.ParameterCollection()
    assert dy.AdagradTrainer(m).learning_rate == np.float32(0.1)
    assert dy.AdagradTrainer(m, learning_rate=0.5, eps=1e-3).learning_rate == 0.5


def test_same_hyper_parameters_share_a_program():
    assert adagrad(1e-20) is adagrad(1e-20)
