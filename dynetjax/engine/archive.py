"""Archives: the rows of a graph that is read in parts.

All rows of one shape are in one array, whichever part computed them, so a part reads
older rows where they are. The arrays are donated to each program and grow by a factor,
so neither time nor programs depend on how old a graph is. When a graph is gone, the
next one takes its arrays over: nobody reads a row before it is written.
"""

import math
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from dynetjax.engine.macros import MACROS, Macro
from dynetjax.engine.rooms import first_room
from dynetjax.engine.slices import cut, put, take
from dynetjax.engine.stats import note_pools
from dynetjax.lazy import at_first_call, jax
from dynetjax.uninterrupted import Uninterrupted

Array = Any

FIRST_BYTES, LEAST, MOST_AT_FIRST = 1 << 22, 16, 16384
GROWTH = 4
HELD = 4  # archives without a graph
LARGE, PATIENCE = 16, 32  # times what is used; graphs until such an array is let go

_spare: list["Archive"] = []
_lock = threading.RLock()  # a graph may end while this thread holds it


class Archive:
    """Rows by pool, of which there is one for each shape.

    Attributes:
        arrays: by pool; row 0 is zero.
        used: how many rows of each hold values, row 0 left out.
        row: the row of each stored node of the graph; 0 if it is not here.
        whole: no program has failed while it had the arrays.
    """

    def __init__(self) -> None:
        self.arrays: dict[int, Array] = {}
        self._pools: dict[int, Macro] = {}
        self.used: dict[int, int] = {}
        self.row: list[int] = []
        self.whole = True
        self._brought: dict[int, int] = {}
        self._rows: dict[int, int] = {}  # of each array
        self._idle: dict[int, int] = {}

    def reserve(self, pools: list[int], rows: list[int], slack: int = 0) -> list[int]:
        """Make room for more rows, and some more; how many are in use before them."""
        used = [self.used.get(p, 0) for p in pools]
        for pool, before, more in zip(pools, used, rows, strict=True):
            if self._rows.get(pool, 0) <= before + more + slack:
                self._grow(pool, before + more + slack + 1)
            self.used[pool] = before + more
        return used

    def _grow(self, pool: int, rows: int) -> None:
        """Room for so many rows; others that are filling up grow with it."""
        self._pools[pool] = MACROS[pool]
        shape = MACROS[pool].shape
        size = math.prod(shape)
        capacity = first_room(4 * size, FIRST_BYTES, LEAST, MOST_AT_FIRST)
        while capacity < rows:
            capacity *= GROWTH
        old = self.arrays.get(pool)
        note_pools(sum(a.nbytes for a in self.arrays.values()) + 4 * capacity * size)
        empty = jax.device_put(np.zeros((capacity, *shape), np.float32))
        self.arrays[pool] = empty if old is None else _insert(empty, old, 0)
        self._rows[pool] = capacity
        for other, room in list(self._rows.items()):
            if other != pool and 2 * self.used.get(other, 0) > room:
                self._grow(other, room + 1)

    def release(self, pools: list[int], used: list[int]) -> None:
        """Use rows again from where they were `used` before.

        Those that were brought from elsewhere stay.
        """
        for pool, before in zip(pools, used, strict=True):
            self.used[pool] = max(before, self._brought.get(pool, 0))

    def bring(self, rows: Array, of_shape: Macro) -> int:
        """Copy rows that are not here; the number of the first."""
        pool = of_shape.id
        (before,) = self.reserve([pool], [rows.shape[0]])
        with Uninterrupted():
            self.whole = False
            self.arrays[pool] = _insert(self.arrays[pool], rows, before + 1)
            self.whole = True
        self._brought[pool] = self.used[pool]
        return before + 1

    def run(self, program: Callable, pools: list[int], *args: Any) -> Any:
        """Run ``program(arrays, *args) -> (arrays, result)``, which is given them."""
        arrays = [self.arrays[p] for p in pools]
        with Uninterrupted():
            self.whole = False
            arrays, result = program(arrays, *args)
            self.arrays.update(zip(pools, arrays, strict=True))
            self.whole = True
        return result

    def take(self, pool: int, rows: np.ndarray) -> Array:
        """A copy of some rows."""
        return take_rows(self.arrays[pool], rows)

    def read(self, pool: int, row: int, count: int) -> np.ndarray:
        """A copy of some rows on the host."""
        return copied(self.arrays[pool], row, count)

    def close(self) -> None:
        """The graph is gone: the arrays can serve another."""
        if not self.whole:
            return
        for pool, room in list(self._rows.items()):
            needless = self.used.get(pool, 0) * LARGE < room
            self._idle[pool] = self._idle.get(pool, 0) + 1 if needless else 0
            if self._idle[pool] > PATIENCE:
                for table in self.arrays, self._rows, self._idle, self._pools:
                    del table[pool]
        self.used, self.row, self._brought = {}, [], {}
        with _lock:
            if len(_spare) < HELD:
                _spare.append(self)


def archive() -> Archive:
    """An empty archive."""
    with _lock:
        return _spare.pop() if _spare else Archive()


def copied(pool: Array, row: int, count: int) -> np.ndarray:
    """Some rows of a pool, copied to the host; waits for them."""
    several, where = rows_among(pool, row, count)
    return np.asarray(several)[where]


def rows_among(pool: Array, row: int, count: int) -> tuple[Array, slice]:
    """A copy of some rows of a pool, with some more around them, and which they are."""
    room = min(1 << (count - 1).bit_length(), pool.shape[0])
    start = min(row, pool.shape[0] - room)
    return _slice(pool, start, room), slice(row - start, row - start + count)


_insert = at_first_call(lambda f: jax.jit(f, donate_argnums=0))(put)
take_rows = at_first_call(lambda f: jax.jit(f))(take)


@at_first_call(lambda f: jax.jit(f, static_argnums=2))
def _slice(pool: Array, row: int, count: int) -> Array:
    return cut(pool, row, count)
