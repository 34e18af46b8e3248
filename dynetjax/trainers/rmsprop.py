"""RMSProp."""

import functools

from dynetjax.core.lazy import jnp, lax
from dynetjax.model.collection import ParameterCollection
from dynetjax.trainers.base import Trainer
from dynetjax.trainers.deferred import Missed
from dynetjax.trainers.rules import Update, rule_of_numbers


@rule_of_numbers(states=1)
def rmsprop(eps: float, rho: float) -> Update:
    """-learning_rate g / sqrt(H_t + eps), where H is the mean of g^2"""

    def update(g, state, values=None, *, step, learning_rate):
        (mean,) = state
        mean = rho * mean + (1 - rho) * (g * g)
        return -learning_rate * (g * lax.rsqrt(mean + eps)), (mean,)

    return update


@functools.cache
def missed_by_rmsprop(rho: float) -> Missed:
    """Steps of `rmsprop` without a gradient: only the mean shrinks."""

    def catch_up(state, missed, _):
        (mean,) = state
        return jnp.zeros_like(mean), (mean * rho**missed,)

    return Missed(catch_up)


class RMSPropTrainer(Trainer):
    """RMSProp (Tieleman & Hinton, Coursera 2012, lecture 6.5).

        H <- rho H + (1 - rho) g^2
        p <- p - learning_rate * g / sqrt(H + eps)

    Args:
        m: the collection to train.
        learning_rate: factor on every step.
        eps: added inside the root.
        rho: how much of the mean stays at each update.
        lazy_correct: have sparse updates come to the same as dense ones, but for
            rounding. The mean of a row that was not looked up for a while makes up for
            it when the row is next read; see `dynetjax.trainers.deferred`.
    Source: clab/dynet, ``dynet/training.cc``.
    Examples:
        >>> m = dy.ParameterCollection()
        >>> p = m.add_parameters(2, init=1)
        >>> trainer = dy.RMSPropTrainer(m, learning_rate=0.1, rho=0.75)
        >>> dy.dot_product(p, dy.inputVector([2, -3])).backward()
        >>> trainer.update()
        >>> print(p.as_array().round(3))
        [0.8 1.2]
    """

    def __init__(
        self,
        m: ParameterCollection,
        learning_rate: float = 0.001,
        eps: float = 1e-8,
        rho: float = 0.9,
        *,
        lazy_correct: bool = False,
    ):
        numbers = float(eps), float(rho)
        super().__init__(
            m,
            learning_rate,
            rule=rmsprop(*numbers),
            numbers=numbers,
            missed=missed_by_rmsprop(float(rho)),
            lazy_correct=lazy_correct,
        )
