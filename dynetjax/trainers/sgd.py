"""Stochastic gradient descent."""

from dynetjax.model.collection import ParameterCollection
from dynetjax.trainers.base import Trainer
from dynetjax.trainers.rules import Update, rule_of_numbers


@rule_of_numbers(states=0)
def sgd() -> Update:
    """-learning_rate g"""

    def update(g, state, values=None, *, step, learning_rate):
        return -learning_rate * g, state

    return update


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
