"""Buffer pools: arrays that programs write before they read, used again and again.

A new array starts as zeros, in every run. These start as they were left: a program
takes them as arguments, donated, and gives them back as results. Only row 0 of a pool
is read without having been written; as nobody ever writes it, it stays zero.
"""

import math
from collections.abc import Callable, Hashable
from itertools import count
from typing import Any

import numpy as np

from dynetjax.core.dims import Shape
from dynetjax.core.lazy import jax
from dynetjax.engine.device import host_sees_device
from dynetjax.engine.runtime import RUNTIME
from dynetjax.engine.xla.heap import give_back

Array = Any

OF_A_USE, HELD = 2, 1 << 26  # sets that are held, and numbers in all of them
RECENT = 4  # uses that keep their sets all the same, for they are wanted again
MOST = 100 << 20  # numbers in all sets when new ones are made
FAR = 8  # times as many are held on a device beside the host, where they are larger

_clock = count()


class BufferPool:
    """Sets of arrays for one use, all sets of the same shapes."""

    __slots__ = ("_free", "_most", "_numbers", "shapes", "used")

    def __init__(self, shapes: list[Shape]):
        self.shapes: list[Shape] = shapes
        self._numbers = sum(map(math.prod, shapes))
        self._free: list[list[Array]] = []
        self._most = 0  # sets that were ever held
        self.used: int = 0  # when one was last acquired

    def acquire(self) -> list[Array]:
        """A set with anything in it but in row 0, which is zeros; to be donated."""
        self.used = next(_clock)
        try:
            return self._free.pop()
        except IndexError:
            _let_go(_here(MOST) - self._numbers)
            return [jax.device_put(np.zeros(s, np.float32)) for s in self.shapes]

    def release(self, arrays: list[Array]) -> None:
        """Hold a set that nobody reads any more."""
        if len(self._free) < OF_A_USE:
            self._free.append(arrays)
            if len(self._free) > self._most:
                self._most = len(self._free)
                _let_go(_here(HELD), RECENT)

    @property
    def held(self) -> int:
        """Numbers in the sets that are held."""
        return len(self._free) * self._numbers

    def drop(self) -> None:
        """Hold none."""
        self._free, self._most = [], 0


def buffer_pool_for(use: Hashable, shapes: Callable[[], list[Shape]]) -> BufferPool:
    """The pool for a use, which takes arrays of these shapes."""
    pool: BufferPool | None = RUNTIME.buffers.get(use)
    if pool is None:
        with RUNTIME.lock:
            pool = RUNTIME.buffers.setdefault(use, BufferPool(shapes()))
    return pool


def _here(numbers: int) -> int:
    """How many may be held on the device that programs run on."""
    return numbers if host_sees_device() else FAR * numbers


def _let_go(limit: int, recent: int = 0) -> None:
    """Drop what was not used for longest, if more numbers are held than `limit`.

    What was used lately is kept in any case.
    """
    with RUNTIME.lock:
        pools = sorted(RUNTIME.buffers.values(), key=lambda pool: pool.used)
        held = sum(pool.held for pool in pools)
        if held <= limit:
            return
        for pool in pools[: max(len(pools) - recent, 0)]:
            held -= pool.held
            pool.drop()
            if held <= limit:
                break
        give_back()


def forget() -> None:
    """Hold nothing any more, nor what is in use now.

    Where a program failed, it may have had that.
    """
    with RUNTIME.lock:
        RUNTIME.buffers.clear()
