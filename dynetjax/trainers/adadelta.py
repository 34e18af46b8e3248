"""Adadelta."""

import functools

from dynetjax.core.lazy import jax, jnp, optax
from dynetjax.model.collection import ParameterCollection
from dynetjax.trainers.base import Trainer
from dynetjax.trainers.deferred import Missed
from dynetjax.trainers.rules import rule_of_numbers


@rule_of_numbers
def adadelta(eps: float, rho: float) -> "optax.GradientTransformationExtraArgs":
    """-g sqrt(D_(t-1) + eps) / sqrt(H_t + eps)

    H and D are the means of the squares of gradients and of changes.
    """
    return optax.chain(optax.scale_by_adadelta(rho, eps), optax.scale(-1.0))


@functools.cache
def missed_by_adadelta(rho: float) -> Missed:
    """Steps of `adadelta` without a gradient: only the means shrink."""

    def catch_up(state, missed, _):
        means, nothing = state
        shrunk = jax.tree.map(lambda mean: mean * rho**missed, means)
        return jnp.zeros_like(shrunk.e_g), (shrunk, nothing)

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
