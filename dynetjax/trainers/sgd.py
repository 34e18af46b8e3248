"""Stochastic gradient descent."""

import optax

from dynetjax.model.collection import ParameterCollection
from dynetjax.trainers.base import Trainer

_FOLLOW_GRADIENT = optax.with_extra_args_support(optax.identity())


class SimpleSGDTrainer(Trainer):
    """Gradient descent with a fixed step.

        p <- p - learning_rate * g

    Args:
        m: the collection to train.
        learning_rate: factor on the gradient.
    Source: clab/dynet, ``dynet/training.cc``.
    """

    def __init__(self, m: ParameterCollection, learning_rate: float = 0.1):
        super().__init__(m, learning_rate, rule=_FOLLOW_GRADIENT)
