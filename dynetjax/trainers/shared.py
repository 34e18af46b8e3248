"""A trainer whose state several processes have in common, and change in turn."""

from typing import Any

import numpy as np

from dynetjax.engine import policy
from dynetjax.trainers.base import Trainer

HEAD = 2  # float64: count of updates, learning rate


class SharedState:
    """The state of a trainer, in memory that other processes see.

    Args:
        trainer: its updates read and write the memory from now on.
        memory: a buffer of `bytes_for` the trainer.
        fill: begin with the trainer's state, instead of what the memory has.
    """

    def __init__(self, trainer: Trainer, memory: Any, *, fill: bool):
        self._trainer = trainer
        self._head = np.frombuffer(memory, np.float64, HEAD)
        dense = [s for s in trainer.updated_storages() if not s.is_table]
        self._views = [(s, s.host_values()) for s in dense]
        at = 8 * HEAD

        def place(array: np.ndarray) -> np.ndarray:
            nonlocal at
            # `numpy.ndarray(buffer=...)` would not keep the memory open.
            view = np.frombuffer(memory, np.float32, array.size, at)
            view = view.reshape(array.shape)
            if fill:
                view[...] = array
            at += view.nbytes
            return view

        trainer.move_state(place)
        if fill:
            self._head[:] = trainer.count_of_updates, trainer.learning_rate

    @staticmethod
    def bytes_for(trainer: Trainer) -> int:
        """How much memory the state of a trainer takes."""
        count = 8 * HEAD

        def measure(array: np.ndarray) -> np.ndarray:
            nonlocal count
            count += array.nbytes
            return array

        trainer.move_state(measure)
        return count

    def read_head(self) -> None:
        """Have the trainer know what others have done."""
        count, self._trainer.learning_rate = self._head.tolist()
        self._trainer.count_of_updates = int(count)

    def set_learning_rate(self) -> None:
        """Have all processes use the learning rate of this one's trainer."""
        self._head[1] = self._trainer.learning_rate

    def update(self) -> None:
        """Update shared values by the gradients that the trainer's parameters have."""
        trainer = self._trainer
        self.read_head()
        trainer.update()
        for storage, view in self._views:
            view[...] = storage.host_values()
            storage.values = view
        self._head[:] = trainer.count_of_updates, trainer.learning_rate

    def leave(self) -> None:
        """Let the trainer go on by itself."""
        self._trainer.count_of_updates = int(self._head[0])
        self._trainer.move_state(np.copy)


def why_not(trainer: Trainer) -> str:
    """Why the updates of a trainer cannot be shared; empty if they can."""
    if not policy.native():
        return "no tier 0 here"
    return trainer.why_not_shared()
