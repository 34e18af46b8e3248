"""Adadelta."""

import functools

from dynetjax.core.lazy import jnp
from dynetjax.model.collection import ParameterCollection
from dynetjax.trainers.base import Trainer
from dynetjax.trainers.deferred import Missed
from dynetjax.trainers.rules import Update, rule_of_numbers


@rule_of_numbers(states=2)
def adadelta(eps: float, rho: float) -> Update:
    """-g sqrt(D_(t-1) + eps) / sqrt(H_t + eps)

    H and D are the means of the squares of gradients and of changes.
    """

    def update(g, state, values=None, *, step, learning_rate):
        of_gradients, of_changes = state
        of_gradients = rho * of_gradients + (1 - rho) * (g * g)
        change = -g * (jnp.sqrt(of_changes + eps) / jnp.sqrt(of_gradients + eps))
        of_changes = rho * of_changes + (1 - rho) * (change * change)
        return change, (of_gradients, of_changes)

    return update


@functools.cache
def missed_by_adadelta(rho: float) -> Missed:
    """Steps of `adadelta` without a gradient: only the means shrink."""

    def catch_up(state, missed, _):
        shrunk = tuple([mean * rho**missed for mean in state])
        return jnp.zeros_like(shrunk[0]), shrunk

    return Missed(catch_up)


class AdadeltaTrainer(Trainer):
    """Adadelta (Zeiler, arxiv.org/abs/1212.5701).

        H <- rho H + (1 - rho) g^2
        u  = -g sqrt(D + eps) / sqrt(H + eps)
        D <- rho D + (1 - rho) u^2
        p <- p + u

    `learning_rate` is 1 at first, and no part of the formula: setting it changes
    nothing.

    Args:
        m: the collection to train.
        eps: added inside both roots; the first steps are about as long as its root.
        rho: how much of the means stays at each update.
    Source: clab/dynet, ``dynet/training.cc``.
    Examples:
        >>> m = dy.ParameterCollection()
        >>> p = m.add_parameters(1, init=1)
        >>> trainer = dy.AdadeltaTrainer(m, eps=0.01, rho=0.76)
        >>> dy.sum_elems(p).backward()
        >>> trainer.update()
        >>> print(p.as_array().round(3))
        [0.8]
    """

    def __init__(self, m: ParameterCollection, eps: float = 1e-6, rho: float = 0.95):
        numbers = float(eps), float(rho)
        rule, missed = adadelta(*numbers), missed_by_adadelta(float(rho))
        super().__init__(m, 1.0, rule=rule, numbers=numbers, missed=missed)
