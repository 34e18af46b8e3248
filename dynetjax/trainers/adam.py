"""Adam."""

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dynetjax.core.lazy import jax, jnp
from dynetjax.model.collection import ParameterCollection
from dynetjax.trainers.base import Trainer
from dynetjax.trainers.deferred import Missed
from dynetjax.trainers.rules import State, Update, rule_of_numbers

MOST_TERMS = 8  # of a polynomial


@rule_of_numbers(states=2)
def adam(beta_1: float, beta_2: float, eps: float) -> Update:
    """The rule of Kingma & Ba (arxiv.org/abs/1412.6980), with bias correction.

    -learning_rate sqrt(1 - beta_2^t) / (1 - beta_1^t) * m_t / (sqrt(v_t) + eps)
    """

    def update(g, state, values=None, *, step, learning_rate):
        m, v = state
        m, v = moments(g, m, v, beta_1, beta_2)
        # eps joins the uncorrected root, as in DyNet; optax.adam corrects first.
        rate = corrected_rate(step, learning_rate, beta_1, beta_2)
        return rate * (m / (jnp.sqrt(v) + eps)), (m, v)

    return update


def moments(g: Any, m: Any, v: Any, beta_1: float, beta_2: float) -> tuple[Any, Any]:
    """The means of gradients and of their squares."""
    return beta_1 * m + (1 - beta_1) * g, beta_2 * v + (1 - beta_2) * (g * g)


def corrected_rate(step: Any, rate: Any, beta_1: float, beta_2: float) -> Any:
    """The factor on a step, which goes against the gradient."""
    return -rate * jnp.sqrt(1 - beta_2**step) / (1 - beta_1**step)


@functools.cache
def missed_by_adam(beta_1: float, beta_2: float, eps: float) -> Missed | None:
    """Steps of `adam` without a gradient: the moments shrink, and still move the row.

    With q = sqrt(beta_2), s = sqrt(v) and f_j what `corrected` says of it, the j-th
    step adds ``-f_j beta_1^j m / (s q^j + eps)``. With r = s / (s + eps), from 0 to 1,

        1 / (s q^j + eps) = 1 / (1 - r (1 - q^j)) / (s + eps)

    and the first of these factors, summed over all steps, is a smooth function of r: a
    polynomial of low degree is exact to rounding, and its coefficients are the same
    for all numbers of the row. None if beta_2 is too small for that.
    """

    def catch_up(state, missed, coefficients):
        m, v = state
        root = jnp.sqrt(v)
        r = root / (root + eps)
        change = -m / (root + eps) * jnp.polyval(coefficients[::-1], r)
        return change, _shrunk(state, missed, beta_1, beta_2)

    weights = _polynomial(beta_1, beta_2)
    if weights is None:
        return None
    return Missed(catch_up, corrected(beta_1, beta_2), len(weights), weights)


@functools.cache
def missed_one_by_one(beta_1: float, beta_2: float, eps: float) -> Missed:
    """Steps of `adam` without a gradient, for any betas, made one after the other."""

    def catch_up(state, missed, factors):
        def one(k, so_far):
            change, m, root = so_far
            m, root = m * beta_1, root * math.sqrt(beta_2)
            return change - factors[k] * m / (root + eps), m, root

        first, second = state
        start = jnp.zeros_like(first), first, jnp.sqrt(second)
        change = jax.lax.fori_loop(0, len(factors), one, start)[0]
        return change, _shrunk(state, missed, beta_1, beta_2)

    length = _steps_that_count(beta_1, beta_2) or 2**24
    return Missed(catch_up, corrected(beta_1, beta_2), length)


def _shrunk(state: State, missed: Any, beta_1: float, beta_2: float) -> State:
    m, v = state
    return m * beta_1**missed, v * beta_2**missed


def corrected(beta_1: float, beta_2: float) -> Callable[[int, float], float]:
    """The learning rate of an update with its bias corrections."""
    return lambda step, rate: rate * math.sqrt(1 - beta_2**step) / (1 - beta_1**step)


def steps_until_rounding(ratio: float) -> int:
    """Terms of a geometric series before the rest is less than rounding; 0 if never."""
    if not 0 < ratio < 1:
        return int(ratio == 0)
    return math.ceil(math.log(2.0**-26 * (1 - ratio)) / math.log(ratio))


def _steps_that_count(beta_1: float, beta_2: float) -> int:
    """A step counts ``beta_1 / sqrt(beta_2)`` of the one before at most; 0: all do."""
    return steps_until_rounding(beta_1 / math.sqrt(beta_2)) if beta_2 > 0 else 0


def _polynomial(beta_1: float, beta_2: float) -> np.ndarray | None:
    """Coefficients in r of ``beta_1^j / (1 - r (1 - q^j))``, lowest first, for each j.

    It goes through the exact values where r is a Chebyshev node of 0 to 1.
    """
    j = np.arange(1.0, _steps_that_count(beta_1, beta_2) + 1)
    if not len(j):
        return None

    def exact(r):
        return beta_1 ** j[:, None] / (1 - r * (1 - beta_2 ** (j[:, None] / 2)))

    tested = np.linspace(0, 1, 50)
    total = exact(tested).sum(0)
    for count in range(1, MOST_TERMS + 1):
        nodes = (1 - np.cos(np.pi * (np.arange(count) + 0.5) / count)) / 2
        powers = np.vander(nodes, increasing=True)
        coefficients = np.linalg.solve(powers, exact(nodes).T).T
        sums = coefficients.sum(0) @ np.vander(tested, count, increasing=True).T
        if (np.abs(sums - total) <= 2.0**-24 * total).all():
            return coefficients
    return None


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
            `dynetjax.trainers.deferred`. Exact but for rounding.
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
        missed = missed_by_adam(*numbers)
        if lazy_correct and missed is None:
            missed = missed_one_by_one(*numbers)
        super().__init__(
            m,
            alpha,
            rule=adam(*numbers),
            numbers=numbers,
            missed=missed,
            lazy_correct=lazy_correct,
        )
