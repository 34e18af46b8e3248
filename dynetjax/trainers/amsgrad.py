"""AMSGrad."""

import functools

import numpy as np

from dynetjax.core.lazy import jnp
from dynetjax.model.collection import ParameterCollection
from dynetjax.trainers.adam import (
    corrected,
    corrected_rate,
    moments,
    steps_until_rounding,
)
from dynetjax.trainers.base import Trainer
from dynetjax.trainers.deferred import Missed
from dynetjax.trainers.rules import Update, rule_of_numbers


@rule_of_numbers(states=3)
def amsgrad(beta_1: float, beta_2: float, eps: float) -> Update:
    """The rule of Reddi et al. (arxiv.org/abs/1904.09237), with bias correction.

    -learning_rate sqrt(1 - beta_2^t) / (1 - beta_1^t) * m_t / (sqrt(vhat_t) + eps)
    """

    def update(g, state, values=None, *, step, learning_rate):
        m, v, vhat = state
        m, v = moments(g, m, v, beta_1, beta_2)
        # The largest of what was not corrected, as in DyNet; optax.amsgrad takes that
        # of the corrected ones, or corrects none. For eps see adam.py.
        vhat = jnp.maximum(vhat, v)
        rate = corrected_rate(step, learning_rate, beta_1, beta_2)
        return rate * (m / (jnp.sqrt(vhat) + eps)), (m, v, vhat)

    return update


@functools.cache
def missed_by_amsgrad(beta_1: float, beta_2: float, eps: float) -> Missed | None:
    """Steps of `amsgrad` without a gradient: vhat stays, and the rest is as of Adam."""

    def catch_up(state, missed, numbers):
        m, v, vhat = state
        change = -numbers[0] * m / (jnp.sqrt(vhat) + eps)
        return change, (m * beta_1**missed, v * beta_2**missed, vhat)

    length = steps_until_rounding(beta_1)
    if not length:
        return None
    shares = beta_1 ** np.arange(1.0, length + 1)
    return Missed(catch_up, corrected(beta_1, beta_2), length, shares[:, None])


class AmsgradTrainer(Trainer):
    """AMSGrad (Reddi et al., arxiv.org/abs/1904.09237): Adam that forgets no size.

        m <- beta_1 m + (1 - beta_1) g        v <- beta_2 v + (1 - beta_2) g^2
        vhat <- max(vhat, v)
        p <- p - alpha sqrt(1 - beta_2^t) / (1 - beta_1^t) * m / (sqrt(vhat) + eps)

    t counts the updates of the trainer, also for rows and parameters it meets late.

    Args:
        m: the collection to train.
        alpha: where `learning_rate` starts.
        beta_1, beta_2: how much of the moments stays at each update.
        eps: added to the root, not corrected for t.
    Source: clab/dynet, ``dynet/training.cc``.
    Examples:
        >>> for make in dy.AdamTrainer, dy.AmsgradTrainer:
        ...     m = dy.ParameterCollection()
        ...     p = m.add_parameters(1, init=1)
        ...     trainer = make(m, alpha=0.1, beta_2=0.5)
        ...     dy.sum_elems(p * 4).backward()
        ...     trainer.update()
        ...     trainer.update()  # its gradient is 0
        ...     print(make.__name__, p.as_array().round(3))
        AdamTrainer [0.818]
        AmsgradTrainer [0.842]
    """

    def __init__(
        self,
        m: ParameterCollection,
        alpha: float = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        eps: float = 1e-8,
    ):
        numbers = float(beta_1), float(beta_2), float(eps)
        rule, missed = amsgrad(*numbers), missed_by_amsgrad(*numbers)
        super().__init__(m, alpha, rule=rule, numbers=numbers, missed=missed)
