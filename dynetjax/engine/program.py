"""Programs: a component at one size class, and its forward.

`forward_rows` runs the component's trips and writes its rows into pools;
`engine/backward.py` has the other direction.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import compress
from typing import Any

import numpy as np

from dynetjax.dims import Shape
from dynetjax.engine.body import Body
from dynetjax.engine.cells import Trip, contractions, needed
from dynetjax.engine.slices import cut, entry, put
from dynetjax.lazy import jax, jnp, lax
from dynetjax.tables import remembers

Array = Any


@dataclass(frozen=True, eq=False)
class Program:
    """What a compiled component depends on. Equal programs are one object.

    Attributes:
        body: its cells.
        width: lanes of a trip.
        lanes: room for lanes over all trips.
        capacities: rows of each of the body's pools.
    """

    body: Body
    width: int
    lanes: int
    capacities: tuple[int, ...]

    @property
    def size(self) -> tuple[Body, int, tuple[int, ...]]:
        """What tells it from other programs of its body, and the body."""
        return self.body, self.width, (self.lanes, *self.capacities)

    @property
    def learns(self) -> bool:
        """Whether a gradient comes back through it."""
        return any(cell.differentiable for cell in self.body.cells)

    @property
    def head(self) -> int:
        return 1 + len(self.body.cells)

    @property
    def tape_size(self) -> int:
        return self.head + self.body.columns * self.lanes

    @property
    def written(self) -> list[int]:
        """The pools its cells write."""
        return sorted({cell.pool for cell in self.body.cells})

    def kept(self, which: Sequence[bool]) -> list[Shape]:
        """The shapes of buffers for the results of these contractions."""
        steps = compress(contractions(self.body), which)
        return [(self.lanes, *step.shape) for _, step in steps]

    def unpack(self, tape: Array, start: int) -> tuple[Array, list[Array]]:
        """Trips and first rows, of the tape that begins at `start`."""
        trips, *base = [entry(tape, start + k) for k in range(self.head)]
        return trips, base

    def chunk(self, tape: Array, start: int, lane: Array, count: int) -> list[Array]:
        """The columns for some lanes. The tape stays whole: slices would be copied."""
        first = start + self.head + lane
        return [
            cut(tape, first + k * self.lanes, count) for k in range(self.body.columns)
        ]

    def trip(self, tape, start: int, trip, uniforms, given) -> Trip:
        """Trip number `trip`."""
        width = self.width
        lane, part = trip * width, None
        if given is not None:
            part = cut(given, lane, width)
        chunk = self.chunk(tape, start, lane, width)
        return Trip(self.body, width, chunk, uniforms, part)


@remembers
def program(body: Body, width: int, lanes: int, capacities: tuple[int, ...]) -> Program:
    """The program with these parts."""
    return Program(body, width, lanes, capacities)


def zeros(capacity: int, shape: Shape) -> Array:
    """An empty pool."""
    return jnp.zeros((capacity, *shape), jnp.float32)


@lru_cache(maxsize=64)
def empty(capacity: int, shape: Shape) -> Array:
    """A pool of zeros, which nobody may donate."""
    return jax.device_put(np.zeros((capacity, *shape), np.float32))


def forward_rows(program: Program, keeping: bool, at: int) -> Callable:
    """``(uniforms, pools, given, tape, lent) -> (written, kept)``.

    `written` are those of the pools that it writes. `kept` are the results of
    contractions that backward needs, if `keeping`, in arrays that are `lent`. The
    component's tape begins at `at`.
    """
    body = program.body
    keep = needed(body) if keeping else (False,) * len(contractions(body))

    def component(uniforms, pools, given, tape, lent):
        trips, base = program.unpack(tape, at)
        pools = dict(enumerate(pools))
        start = {p: pools.pop(p) for p in program.written}

        def step(t, state):
            mine, kept = state
            trip = program.trip(tape, at, t, uniforms, given)
            rows, made = trip.run(trip.leaves(pools | mine))
            mine = dict(mine)
            for c, cell in enumerate(body.cells):
                row = base[c] + t * program.width
                mine[cell.pool] = put(mine[cell.pool], rows[c], row)
            results = zip(kept, compress(made, keep), strict=True)
            return mine, [put(k, z, t * program.width) for k, z in results]

        mine, kept = lax.fori_loop(0, trips, step, (start, lent))
        return [mine[p] for p in program.written], kept

    return component
