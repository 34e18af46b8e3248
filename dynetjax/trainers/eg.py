"""Exponentiated gradient."""

import functools

from dynetjax.core.lazy import jax, jnp, optax
from dynetjax.model.collection import ParameterCollection
from dynetjax.trainers.base import Trainer
from dynetjax.trainers.blocks import by_tensor


@functools.cache
def exponentiated_gradient(mom: float) -> "optax.GradientTransformationExtraArgs":
    """softmax(log p + h) - p, where h = mom h - learning_rate g, of all numbers."""

    def update(updates, state, params=None, *, learning_rate, **_):
        velocity = mom * state.trace - learning_rate * updates
        new = jax.nn.softmax(jnp.log(params) + velocity, axis=None)
        return new - params, optax.TraceState(velocity)

    return optax.GradientTransformationExtraArgs(optax.trace(mom).init, update)


class EGTrainer(Trainer):
    """Exponentiated gradient, for parameters that are probabilities.

        h <- mom h - learning_rate * g
        p <- softmax(log p + h)

    The numbers of a parameter are positive, and after an update their sum is 1. A row
    of a table counts as a parameter of its own.

    Args:
        m: the collection to train.
        learning_rate: factor on the gradient.
        mom: how much of the velocity stays at each update.
    Source: clab/dynet, ``dynet/training.cc``; only in C++ there.
    Examples:
        >>> m = dy.ParameterCollection()
        >>> p = m.add_parameters(2, init=0.5)
        >>> trainer = dy.EGTrainer(m, learning_rate=np.log(3))
        >>> dy.pick(p, 1).backward()
        >>> trainer.update()
        >>> print(p.as_array().round(3))
        [0.75 0.25]
    """

    _way = staticmethod(by_tensor)

    def __init__(
        self, m: ParameterCollection, learning_rate: float = 0.1, mom: float = 0.9
    ):
        super().__init__(m, learning_rate, rule=exponentiated_gradient(float(mom)))
