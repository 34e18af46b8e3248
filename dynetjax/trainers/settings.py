"""What a user sets on a trainer, and what it counts."""

import sys
from typing import Any

import numpy as np

from dynetjax.core.reprs import call_text, counted
from dynetjax.model.unique import Whole

CLIP = 5.0  # the first threshold


class Settings(Whole):
    """Learning rate, clipping, and whether updates are sparse.

    Attributes:
        learning_rate: factor on every step; rounded to float32. Never decays by
            itself.
        sparse_updates_enabled: change only the rows of tables that were looked up
            (the default), not every row. With False, rules that have a state move
            all rows at each update: the exact formula. In large tables a row makes up
            for that when it is next read; see `dynetjax.trainers.deferred`.
    """

    def __init__(self, learning_rate: float):
        self._updates = self._clips = self._updates_seen = self._clips_seen = 0
        self._threshold = CLIP
        self.sparse_updates_enabled: bool = True
        self.learning_rate = learning_rate

    def __repr__(self) -> str:
        settings = {"learning_rate": self._learning_rate} | self._differing()
        return f"{call_text(self, settings)}, {counted(self._updates, 'update')}"

    def _differing(self) -> dict[str, Any]:
        """What else it was made with, and what is set, if it is not the default."""
        found: dict[str, Any] = {}
        if self._threshold != CLIP:
            found["clip_threshold"] = self._threshold
        if not self.sparse_updates_enabled:
            found["sparse_updates"] = False
        return found

    def whoami(self) -> str:
        """The name of the class."""
        return type(self).__name__

    @property
    def learning_rate(self) -> float:
        return self._learning_rate

    @learning_rate.setter
    def learning_rate(self, learning_rate: float) -> None:
        self._learning_rate = float(np.float32(learning_rate))

    def set_learning_rate(self, learning_rate: float) -> None:
        """The same as assigning `learning_rate`."""
        self.learning_rate = learning_rate

    def set_sparse_updates(self, su: bool) -> None:
        """The same as assigning `sparse_updates_enabled`."""
        self.sparse_updates_enabled = bool(su)

    def set_clip_threshold(self, thr: float) -> None:
        """Scale gradients down to this norm, of all of them together.

        0 or less turns clipping off, and with it the check for NaN and Inf.
        """
        self._threshold = max(float(np.float32(thr)), 0.0)

    def get_clip_threshold(self) -> float:
        """The norm gradients are scaled down to, 5 at first; 0 where that is off."""
        return self._threshold

    def _settle(self) -> None:
        """Wait until what was counted is known."""

    def status(self) -> None:
        """Write the learning rate, clips and updates since last time to stderr."""
        self._settle()
        clips = self._clips - self._clips_seen
        updates = self._updates - self._updates_seen
        rate = f"{self._learning_rate:g}"
        print(
            f"[lr={rate} clips={clips:g} updates={updates:g}] ",
            end="",
            file=sys.stderr,
            flush=True,
        )
        self._clips_seen, self._updates_seen = self._clips, self._updates

    def update_epoch(self, r: float) -> None:
        """Does nothing, as in DyNet, and says so."""
        del r
        print(
            "Trainer::update_epoch has been deprecated and doesn't do anything. Please "
            "remove it from your code, and control the learning rate of the trainer "
            "directly, for example by: 'trainer.learning_rate /= (1 - rate_decay)', "
            "see https://github.com/clab/dynet/pull/695 for details.",
            file=sys.stderr,
        )
