"""Moving averages of parameters, which trainers of DyNet's C++ interface keep.

With them a parameter has an average besides its value, from all updates so far; what
is tested and saved is often better with the averages than with the values.
"""

import operator
from collections.abc import Iterable
from typing import Any

import numpy as np

from dynetjax.core.errors import error_text
from dynetjax.core.lazy import at_first_call, jax, jnp
from dynetjax.core.uninterrupted import Uninterrupted
from dynetjax.model.storage import on_host, to_device
from dynetjax.trainers.settings import Settings


class Averages:
    """The moving averages of parameters and tables.

    Args:
        beta: how much of an exponential average stays; None for the mean of all.
        frequency: of so many updates one counts.

    Attributes:
        arrays: averages by storage.
        counts: of how many updates each is made.
        weights: the true values, while averages stand in their place; an empty dict if
            they were not kept; None while they stand there themselves.
    """

    beta: float | None
    frequency: int

    def __init__(self, beta: float | None, frequency: int):
        self.beta, self.frequency = beta, frequency
        self.arrays: dict[Any, Any] = {}
        self.counts: dict[Any, int] = {}
        self.weights: dict[Any, Any] | None = None

    def update(self, storages: list[Any], before: int) -> None:
        """Take in the values after an update, `before` which there were so many."""
        if before % self.frequency:
            return
        for storage in storages:
            count = self.counts.get(storage, 0)
            kept = count / (count + 1) if self.beta is None else self.beta
            values, old = storage.present, self.arrays.pop(storage, None)
            if on_host(values):
                old = np.zeros_like(values) if old is None else np.asarray(old)
                self.arrays[storage] = kept * old + (1 - kept) * values
            else:
                old = jnp.zeros(storage.shape) if old is None else old
                self.arrays[storage] = _mix(old, values, np.float32(kept))
            self.counts[storage] = count + 1

    def most(self) -> int:
        """How many updates counted so far."""
        return max(self.counts.values(), default=0)

    def all_of(self, storages: list[Any]) -> list[Any]:
        """The averages of these; zeros for those that have none."""
        return [
            self.arrays[s] if s in self.arrays else jnp.zeros(s.shape) for s in storages
        ]

    def put(self, storages: list[Any], arrays: Iterable[Any], count: int) -> None:
        """Have these averages, of so many updates."""
        if count:
            for storage, array in zip(storages, arrays, strict=True):
                self.arrays[storage] = to_device(array)
                self.counts[storage] = count

    def average(self, storage: Any, bias_correction: bool) -> Any:
        """The average of one, an array of its own."""
        by = 1.0
        if bias_correction and self.beta is not None:
            by = 1 / (1 - self.beta ** self.counts[storage])
        return self.arrays[storage] * np.float32(by)


@at_first_call(lambda f: jax.jit(f))
def _mix(average, values, kept):
    return kept * average + (1 - kept) * values


class Averaging(Settings):
    """What trainers have to do with moving averages."""

    def __init__(self, learning_rate: float):
        super().__init__(learning_rate)
        self._averages: Averages | None = None

    def _differing(self) -> dict[str, Any]:
        found = super()._differing()
        if self._averages is not None:
            beta = self._averages.beta
            found["moving_average"] = "cumulative" if beta is None else beta
        return found

    def exponential_moving_average(self, beta: float, update_freq: int = 1) -> None:
        """Keep averages that forget: ``A <- beta A + (1 - beta) p``, from 0 on.

        Args:
            beta: in (0, 1).
            update_freq: of so many updates one counts.
        Raises:
            RuntimeError: there were updates before.
            ValueError: an argument is out of range.
        """
        if not 0 < beta < 1:
            raise ValueError(
                error_text(
                    "exponential_moving_average: beta is out of range",
                    got=beta,
                    expected="0 < beta < 1",
                    fix="0.999, say",
                )
            )
        self._average(float(beta), update_freq)

    def cumulative_moving_average(self, update_freq: int = 1) -> None:
        """Keep the mean of the values after each update.

        Args, Raises: as for `exponential_moving_average`.
        """
        self._average(None, update_freq)

    def _average(self, beta: float | None, update_freq: int) -> None:
        if operator.index(update_freq) < 1:
            raise ValueError(
                error_text(
                    "moving average: update_freq is out of range",
                    got=update_freq,
                    expected="1 or more",
                    fix="1 counts every update",
                )
            )
        if self._updates:
            raise RuntimeError(
                error_text(
                    "moving average: there were updates before",
                    got=f"{self._updates} updates",
                    expected="none",
                    fix="ask for averages when the trainer is made",
                )
            )
        self._averages = Averages(beta, update_freq)

    def swap_params_to_moving_average(
        self, save_weights: bool = True, bias_correction: bool = False
    ) -> None:
        """Put the averages in the place of the values; nothing if they are there.

        Args:
            save_weights: keep the values, so that they can come back.
            bias_correction: divide exponential averages by ``1 - beta^k``, k being the
                number of updates that counted: they begin at 0.
        Raises:
            RuntimeError: there are no averages yet.
        """
        self._settle()
        averages = self._averages
        if averages is None or not averages.counts:
            raise RuntimeError(
                error_text(
                    "swap_params_to_moving_average: there are no averages",
                    got="no update with averages",
                    expected="exponential_moving_average() or "
                    "cumulative_moving_average(), and an update",
                    fix="call one of them when the trainer is made",
                )
            )
        if averages.weights is not None:
            return
        with Uninterrupted():
            averages.weights = {}
            for storage in self._storages():
                if storage in averages.counts:
                    if save_weights:
                        averages.weights[storage] = storage.present + 0
                    storage.values = averages.average(storage, bias_correction)

    def swap_params_to_weights(self) -> None:
        """Put the values back; `update` does it, too. Nothing if they are there.

        Raises:
            RuntimeError: they were not kept.
        """
        averages = self._averages
        if averages is None or averages.weights is None:
            return
        if not averages.weights:
            raise RuntimeError(
                error_text(
                    "swap_params_to_weights: the weights were not kept",
                    got="swap_params_to_moving_average(save_weights=False)",
                    expected="save_weights=True",
                    fix="load them, or train with another trainer",
                )
            )
        with Uninterrupted():
            for storage, values in averages.weights.items():
                storage.values = values
            averages.weights = None

    def _storages(self) -> list[Any]:
        """The storages of the trainer's collection."""
        raise NotImplementedError
