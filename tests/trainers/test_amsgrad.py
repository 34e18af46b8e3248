"""AmsgradTrainer: its formula beside optax's."""

import jax.numpy as jnp
import numpy as np
import optax
import pytest

import dynetjax as dy
from dynetjax.trainers.adam import adam
from dynetjax.trainers.amsgrad import amsgrad

from .rules import Amsgrad


def directions(rule, gradients):
    """What becomes of these gradients, one after the other, at a rate of -1."""
    state, found = rule.init(gradients[0]), []
    for t, g in enumerate(gradients, start=1):
        numbers = {"step": jnp.float32(t), "learning_rate": -1.0}
        direction, state = rule.update(g, state, **numbers)
        found.append(np.asarray(direction))
    return np.stack(found)


def falling(count=5):
    """Gradients whose squares shrink, so that the largest v is not the last."""
    random = np.random.RandomState(0)
    return [jnp.asarray(random.randn(3) / 10**t, jnp.float32) for t in range(count)]


def test_direction():
    numpy = Amsgrad((3,), rate=1.0, b1=0.8, b2=0.5, eps=1e-3)
    gradients = falling()
    expected = [
        numpy.direction(np.asarray(g, float), np.arange(3), t)
        for t, g in enumerate(gradients, start=1)
    ]
    found = directions(amsgrad(0.8, 0.5, 1e-3), gradients)
    np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_is_adam_until_v_falls():
    hyper = 0.8, 0.5, 1e-8
    ours = directions(amsgrad(*hyper), falling())
    adams = directions(adam(*hyper), falling())
    np.testing.assert_allclose(ours[0], adams[0], rtol=1e-6)
    assert (np.abs(ours[2:]) < np.abs(adams[2:])).all()


@pytest.mark.parametrize("corrected", [True, False])
def test_differs_from_optax(corrected):
    """Which corrects v before it takes the largest, or never; here that is after."""
    theirs = optax.with_extra_args_support(
        optax.scale_by_amsgrad(0.8, 0.5, eps=1e-8, bias_correction_nu=corrected)
    )
    difference = directions(amsgrad(0.8, 0.5, 1e-8), falling()) - directions(
        theirs, falling()
    )
    assert not np.allclose(difference, 0, atol=1e-2)


def test_arguments():
    m = dy.ParameterCollection()
    assert dy.AmsgradTrainer(m).learning_rate == np.float32(0.001)
    trainer = dy.AmsgradTrainer(m, alpha=0.5, beta_1=0.8, beta_2=0.9, eps=1e-3)
    assert trainer.learning_rate == 0.5
    with pytest.raises(TypeError):
        dy.AmsgradTrainer(m, learning_rate=0.5)


def test_same_hyper_parameters_share_a_program():
    assert amsgrad(0.9, 0.999, 1e-8) is amsgrad(0.9, 0.999, 1e-8)
