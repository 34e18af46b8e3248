"""Gradient descent with a rate that goes up and down."""

import math

from dynetjax.core.errors import error_text
from dynetjax.model.collection import ParameterCollection
from dynetjax.trainers.base import Trainer
from dynetjax.trainers.sgd import sgd


class CyclicalSGDTrainer(Trainer):
    """Gradient descent with a cyclical rate (Smith, arxiv.org/abs/1506.01186).

        p <- p - learning_rate * g

    The update after `it` others, not counting those that were refused, sets

        cycle = floor(1 + it / (2 step_size))        x = |it / step_size - 2 cycle + 1|
        learning_rate = min + max(0, 1 - x) * (max - min) * gamma^it

    So the first two updates have the lowest rate. A rate that is assigned lasts one
    update, and `restart` does not begin the cycle again.

    Args:
        m: the collection to train.
        learning_rate_min: the lowest rate.
        learning_rate_max: the highest.
        step_size: updates from the one to the other.
        gamma: how much of their difference stays at each update.
    Raises:
        ValueError: `step_size` is not above 0.
    Source: clab/dynet, ``dynet/training.h``.
    Examples:
        >>> m = dy.ParameterCollection()
        >>> trainer = dy.CyclicalSGDTrainer(m, 0.1, 0.3, step_size=2)
        >>> rates = []
        >>> for _ in range(6):
        ...     trainer.update()
        ...     rates.append(round(trainer.learning_rate, 3))
        >>> print(rates)
        [0.1, 0.2, 0.3, 0.2, 0.1, 0.2]
    """

    def __init__(
        self,
        m: ParameterCollection,
        learning_rate_min: float = 0.01,
        learning_rate_max: float = 0.1,
        step_size: float = 2000,
        gamma: float = 1.0,
    ):
        super().__init__(m, learning_rate_min, rule=sgd(), numbers=())
        if not step_size > 0:
            raise ValueError(
                error_text(
                    "CyclicalSGDTrainer: step_size is not above 0",
                    got=step_size,
                    expected="how many updates it takes from the lowest rate to the "
                    "highest",
                    fix="pass 2 to 8 times the updates of an epoch",
                )
            )
        self._low, self._high = learning_rate_min, learning_rate_max
        self._step_size, self._gamma = step_size, gamma
        # The rate of the last update, and the one that it set.
        self._turn = self.learning_rate, self.learning_rate

    def _rate_after(self, it: int) -> float:
        """What the update after `it` others sets."""
        cycle = math.floor(1 + it / (2 * self._step_size))
        x = abs(it / self._step_size - 2 * cycle + 1)
        height = max(0, 1 - x) * self._gamma**it
        return self._low + (self._high - self._low) * height

    def _note_update(self) -> None:
        used, following = self.learning_rate, self._rate_after(self._updates)
        super()._note_update()
        self.learning_rate = following
        self._turn = used, self.learning_rate

    def _undo(self) -> None:
        """Take back a refused update, and its rate unless that was assigned since."""
        super()._undo()
        used, following = self._turn
        if self.learning_rate == following:
            self.learning_rate = used
