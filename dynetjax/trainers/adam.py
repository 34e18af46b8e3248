"""Adam."""

import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from dynetjax.model.collection import ParameterCollection
from dynetjax.trainers.base import Trainer
from dynetjax.trainers.lagging import Missed


class AdamState(NamedTuple):
    """Moments, shaped like the parameter. The step count is the trainer's, not ours."""

    m: optax.Params
    v: optax.Params


@functools.cache
def adam(
    beta_1: float, beta_2: float, eps: float
) -> optax.GradientTransformationExtraArgs:
    """The rule of Kingma & Ba (arxiv.org/abs/1412.6980), with bias correction.

    -learning_rate sqrt(1 - beta_2^t) / (1 - beta_1^t) * m_t / (sqrt(v_t) + eps)
    """

    def init(params):
        zeros = optax.tree.zeros_like
        return AdamState(zeros(params), zeros(params))

    def update(updates, state, params=None, *, step, learning_rate):
        del params
        m = optax.tree.update_moment(updates, state.m, beta_1, 1)
        v = optax.tree.update_moment(updates, state.v, beta_2, 2)
        # eps joins the uncorrected root, as in DyNet; optax.adam corrects first.
        scale = -learning_rate * jnp.sqrt(1 - beta_2**step) / (1 - beta_1**step)
        change = jax.tree.map(lambda m, v: scale * m / (jnp.sqrt(v) + eps), m, v)
        return change, AdamState(m, v)

    return optax.GradientTransformationExtraArgs(init, update)


def missed_by_adam(beta_1: float, beta_2: float, eps: float) -> Missed:
    """Steps of `adam` without a gradient: the moments shrink, and still move the row.

    The sum has no formula. A step counts ``beta_1 / sqrt(beta_2)`` of the one before at
    most, so after some all others together are less than rounding.
    """
    ratio = beta_1 / math.sqrt(beta_2) if beta_2 > 0 else math.inf
    tiny = 2.0**-26 * (1 - ratio)
    length = math.ceil(math.log(tiny) / math.log(ratio)) if 0 < ratio < 1 else 2**24

    def factors(steps, rates):
        return rates * np.sqrt(1 - beta_2**steps) / (1 - beta_1**steps)

    return Missed(length, factors, _missed_by_adam(beta_1, beta_2, eps))


@functools.cache
def _missed_by_adam(beta_1, beta_2, eps):
    def catch_up(state, missed, factors):
        def one(k, so_far):
            change, m, root = so_far
            m, root = m * beta_1, root * math.sqrt(beta_2)
            return change - factors[k] * m / (root + eps), m, root

        m, v = state
        change = jax.lax.fori_loop(
            0, len(factors), one, (jnp.zeros_like(m), m, jnp.sqrt(v))
        )[0]
        return change, AdamState(m * beta_1**missed, v * beta_2**missed)

    return catch_up


class AdamTrainer(Trainer):
    """Adam (Kingma & Ba, arxiv.org/abs/1412.6980).

        m <- beta_1 m + (1 - beta_1) g        v <- beta_2 v + (1 - beta_2) g^2
        p <- p - alpha sqrt(1 - beta_2^t) / (1 - beta_1^t) * m / (sqrt(v) + eps)

    t counts the updates of the trainer, also for rows and parameters it meets late.

    Args:
        m: the collection to train.
        alpha: where `learning_rate` starts.
        beta_1, beta_2: how much of the moments stays at each update.
        eps: added to the root, not corrected for t.
        lazy_correct: have sparse updates come to the same as dense ones. A row that
            was not looked up for a while makes up for it when it is next read; see
            `dynetjax.trainers.lagging`. Exact but for rounding: up to some 160 steps
            are added one by one, and those after are too small to count.
    Source: clab/dynet, ``dynet/training.cc``.
    Examples:
        >>> m = dy.ParameterCollection()
        >>> p, trainer = m.add_parameters(2, init=0), dy.AdamTrainer(m, alpha=0.1)
        >>> for x in [0, 1, 2] * 60:
        ...     graph = dy.renew_cg()
        ...     error = dy.dot_product(p, dy.inputVector([x, 1])) - (2 * x + 1)
        ...     dy.square(error).backward()
        ...     trainer.update()
        >>> print(p.as_array().round(2))
        [2. 1.]
    """

    def __init__(
        self,
        m: ParameterCollection,
        alpha: float = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        eps: float = 1e-8,
        *,
        lazy_correct: bool = False,
    ):
        numbers = float(beta_1), float(beta_2), float(eps)
        rule = adam(*numbers)
        missed = missed_by_adam(*numbers) if lazy_correct else None
        super().__init__(m, alpha, rule=rule, numbers=numbers, missed=missed)
