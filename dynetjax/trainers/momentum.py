"""Gradient descent with momentum."""

import functools

from dynetjax.model.collection import ParameterCollection
from dynetjax.trainers.base import Trainer
from dynetjax.trainers.deferred import Missed
from dynetjax.trainers.rules import Update, rule_of_numbers


@rule_of_numbers(states=1)
def momentum(mom: float) -> Update:
    """v_t = mom v_(t-1) - learning_rate g

    The learning rate comes first: what is in v keeps the rate it came with.
    """

    def update(g, state, values=None, *, step, learning_rate):
        (v,) = state
        v = mom * v - learning_rate * g
        return v, (v,)

    return update


@functools.cache
def missed_by_momentum(mom: float) -> Missed:
    """Steps of `momentum` without a gradient: mom v + mom^2 v + ..."""

    def catch_up(state, missed, _):
        (v,) = state
        steps = missed if mom == 1 else mom * (1 - mom**missed) / (1 - mom)
        return v * steps, (v * mom**missed,)

    return Missed(catch_up)


class MomentumSGDTrainer(Trainer):
    """Gradient descent with a velocity.

        v <- mom v - learning_rate * g
        p <- p + v

    Args:
        m: the collection to train.
        learning_rate: factor on the gradient.
        mom: how much of the velocity stays at each update.
        lazy_correct: have sparse updates come to the same as dense ones, but for
            rounding. A row that was not looked up for a while makes up for it when it
            is next read; see `dynetjax.trainers.deferred`.
    Source: clab/dynet, ``dynet/training.cc``.
    Examples:
        >>> m = dy.ParameterCollection()
        >>> p = m.add_parameters(1, init=1)
        >>> trainer = dy.MomentumSGDTrainer(m, learning_rate=0.1, mom=0.5)
        >>> for _ in range(2):
        ...     dy.sum_elems(p).backward()
        ...     trainer.update()
        ...     print(p.as_array().round(3))
        [0.9]
        [0.75]
    """

    def __init__(
        self,
        m: ParameterCollection,
        learning_rate: float = 0.01,
        mom: float = 0.9,
        *,
        lazy_correct: bool = False,
    ):
        rule, numbers = momentum(float(mom)), (float(mom),)
        super().__init__(
            m,
            learning_rate,
            rule=rule,
            numbers=numbers,
            missed=missed_by_momentum(*numbers),
            lazy_correct=lazy_correct,
        )
