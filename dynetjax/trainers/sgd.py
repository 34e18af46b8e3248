"""Stochastic gradient descent."""

from dynetjax.core.lazy import jax, optax
from dynetjax.model.collection import ParameterCollection
from dynetjax.trainers.base import Trainer
from dynetjax.trainers.rules import rule_of_numbers


@rule_of_numbers
def sgd() -> "optax.GradientTransformationExtraArgs":
    """-learning_rate g"""

    def update(updates, state, params=None, *, learning_rate, **_):
        del params
        return jax.tree.map(lambda g: -learning_rate * g, updates), state

    return optax.GradientTransformationExtraArgs(optax.init_empty_state, update)


class SimpleSGDTrainer(Trainer):
    """Gradient descent with a fixed step.

        p <- p - learning_rate * g

    Args:
        m: the collection to train.
        learning_rate: factor on the gradient.
    Source: clab/dynet, ``dynet/training.cc``.
    Examples:
        >>> m = dy.ParameterCollection()
        >>> p = m.add_parameters(1, init=1)
        >>> trainer = dy.SimpleSGDTrainer(m, learning_rate=0.1)
        >>> dy.square(p).backward()
        >>> trainer.update()
        >>> print(p.as_array().round(3))
        [0.8]
    """

    def __init__(self, m: ParameterCollection, learning_rate: float = 0.1):
        super().__init__(m, learning_rate, rule=sgd(), numbers=())
