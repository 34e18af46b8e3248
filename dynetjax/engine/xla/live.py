"""Compiled programs in memory: those that were not used for longest make way.

On a CPU each holds some twenty to sixty memory maps and megabytes that XLA never gives
back by itself. Linux allows a process 65,530 maps; XLA ends a process that has no more.
"""

import gc
import threading
import weakref
from itertools import count
from pathlib import Path
from typing import Final, Protocol

from dynetjax.core.lazy import jax
from dynetjax.engine.xla.heap import give_back

MOST = 256  # programs, about a gigabyte
EVERY = 32  # programs made anywhere in the process, between two looks at its maps
SHARE = 4  # of the maps that the system allows, the part that may be in use
_ALLOWED = Path("/proc/sys/vm/max_map_count")
_MAPS = Path("/proc/self/maps")


class Droppable(Protocol):
    """Something compiled, which can be compiled once more."""

    used: int

    def drop(self) -> None:
        """Let go of what was compiled."""


class LivePrograms:
    """The compiled programs of this package, by when they were used last.

    What JAX holds itself, such as single operations and functions that the user has
    compiled, goes with `jax.clear_caches` where the process has too many maps.
    """

    def __init__(self, most: int = MOST):
        self._most = most
        self._members: weakref.WeakSet[Droppable] = weakref.WeakSet()
        self._uses = count(1)
        self._lock = threading.Lock()
        self._since = 0  # programs made since the last look at the maps

    def __len__(self) -> int:
        return len(self._members)

    def use(self) -> int:
        """The number of a use; the next one has a larger number."""
        return next(self._uses)

    def add(self, program: Droppable) -> None:
        """A program was made; others make way if there are too many."""
        self.note()
        with self._lock:
            self._members.add(program)
            if len(self._members) > self._most:
                self._drop(len(self._members) - self._most)

    def note(self) -> None:
        """Something was compiled, by whomever."""
        self._since += 1

    def look(self) -> None:
        """Let half of all go if this process has too many maps.

        Only every so many programs: the list of maps takes a millisecond to be read.
        """
        if self._since < EVERY:
            return
        self._since = 0
        if maps() * SHARE > _allowed():
            self.make_room()

    def make_room(self) -> None:
        """Let half of all go, and what JAX holds."""
        with self._lock:
            self._drop(len(self._members) // 2)
        jax.clear_caches()
        gc.collect()
        give_back()

    def _drop(self, number: int) -> None:
        by_use = sorted(self._members, key=lambda program: program.used)
        for program in by_use[:number]:
            program.drop()
            self._members.discard(program)


live: Final = LivePrograms()


def maps() -> int:
    """How many memory maps this process has; 0 where the system does not tell."""
    try:
        return _MAPS.read_bytes().count(b"\n")
    except OSError:
        return 0


def _allowed() -> int:
    """How many it may have."""
    try:
        return int(_ALLOWED.read_text())
    except (OSError, ValueError):
        return 1 << 16
