"""What trainers have to do with files of DyNet's C++ interface."""

import itertools
from typing import Any

import numpy as np

from dynetjax.core.errors import error_text
from dynetjax.core.uninterrupted import Uninterrupted
from dynetjax.io.text import FilePath
from dynetjax.trainers import text_files
from dynetjax.trainers.averages import Averages
from dynetjax.trainers.resumable import Resumable


class OnFile(Resumable):
    """Saves the state of a trainer as text, and takes it over."""

    def save(self, fname: FilePath) -> None:
        """Write the trainer to a text file, as DyNet's C++ interface does.

        It has the state of the rule, moving averages, the learning rate and the count
        of updates, and none of the parameters.

        Raises:
            NotImplementedError: DyNet has no file for this class.
            RuntimeError: averages stand in the place of the weights, or the file
                cannot be written.
        """
        self._settle()
        if self._averages is not None and self._averages.weights is not None:
            raise RuntimeError(
                error_text(
                    "save: moving averages stand in the place of the weights",
                    got="swap_params_to_moving_average()",
                    expected="the weights",
                    fix="swap_params_to_weights()",
                )
            )
        text_files.write(fname, self._record())

    def populate(self, fname: FilePath, learning_rate: float | None = None) -> None:
        """Go on where the trainer was that wrote this file; see `save`.

        Args:
            fname: a file of a trainer of the same class, with the same numbers, and
                with parameters of the same sizes, in the same order. State of
                parameters that the file does not have is set to zero.
            learning_rate: one to use instead of the file's.
        Raises:
            NotImplementedError: DyNet has no file for this class.
            RuntimeError: there is no such file, it is broken or of another trainer;
                nothing is changed.
        """
        self._settle()
        like, storages = self._record(), self._storages()
        split = sum(not s.is_table for s in storages)
        shapes = [s.shape for s in storages]
        record = text_files.read(fname, like, (shapes[:split], shapes[split:]))
        if record.numbers != like.numbers:
            raise RuntimeError(
                error_text(
                    f"populate: the file is of another {self.whoami()}",
                    got=record.numbers,
                    expected=f"{like.numbers}, the numbers of this one's rule",
                    fix="make the trainer with the numbers of the file",
                )
            )
        self._take_over(record, storages)
        if learning_rate is not None:
            self.learning_rate = learning_rate

    def _record(self) -> text_files.Record:
        """What a file says of this trainer."""
        if self._numbers is None:
            raise NotImplementedError(
                error_text(
                    f"{self.whoami()}: DyNet has no such file of it",
                    got="save() or populate()",
                    expected="one of the classic trainers",
                    fix="dynetjax.save_checkpoint",
                )
            )
        storages = self._storages()
        if self._deferred is not None:
            self._deferred.bring_all()
        split = sum(not s.is_table for s in storages)
        parts = zip(*self._states.arrays(storages), strict=True)
        beta, mode, frequency, counted, averages = 0.0, text_files.MODES[0], 1, 0, None
        if self._averages is not None:
            beta, mode = self._averages.beta or 0.0, text_files.MODES[1]
            mode = text_files.MODES[2] if self._averages.beta else mode
            frequency, counted = self._averages.frequency, self._averages.most()
            averages = text_files.apart(self._averages.all_of(storages), split)
        return text_files.Record(
            self.whoami(),
            (split, len(storages) - split),
            self._learning_rate,
            self._threshold,
            self._updates,
            beta,
            mode,
            frequency,
            counted,
            averages,
            [text_files.apart(part, split) for part in parts],
            tuple(np.array(self._numbers, np.float32).tolist()),
        )

    def _take_over(self, record: text_files.Record, storages: list[Any]) -> None:
        averages = None
        if record.averages is not None:
            beta = record.beta if record.mode == text_files.MODES[2] else None
            averages = Averages(beta, record.frequency)
            arrays = itertools.chain(*record.averages)
            averages.put(storages, arrays, record.counted)
        state = [[*a, *b] for a, b in record.state]
        each = [list(leaves) for leaves in zip(*state, strict=True)]
        if self._deferred is not None:
            self._deferred.let_all_go()
        with Uninterrupted():
            if each:
                self._states.restore(storages, each)
                self._census.forget()
            self._averages = averages
            self._learning_rate = record.learning_rate
            self._threshold = record.threshold
            self._updates = self._updates_seen = record.updates
