"""Backward programs: one jitted function per component and size class.

`backward` runs a component's trips in reverse, leaves gradients for the rows that were
read or scatters them to these (`dynetjax.engine.pulls`), and then makes each weight's
gradient of all lanes at once, in chunks, outside the loop (`dynetjax.engine.learning`).
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import chain
from typing import Any

from dynetjax.dims import Shape
from dynetjax.engine.body import Body, Cell
from dynetjax.engine.causes import made
from dynetjax.engine.cells import (
    Trip,
    cheap,
    contractions,
    needed,
    weights,
)
from dynetjax.engine.compiling import Compiled
from dynetjax.engine.learning import Learning, cotangents_kept
from dynetjax.engine.program import KEPT, Program, zeros
from dynetjax.engine.pulls import Left
from dynetjax.engine.scratch import is_large
from dynetjax.engine.slices import cut, put, take, take_if_there
from dynetjax.lazy import jax, jnp, lax, with_jax
from dynetjax.ops.registry import INPUT, LOOKUP

Array = Any


def add_rows(pool: Array, rows: Array, values: Array) -> Array:
    """`pool` with values added to some rows, which are within it."""
    return pool.at[rows].add(values, mode="promise_in_bounds")


def scattered_pools(
    body: Body, left: tuple[Left, ...] = (), held: bool = True
) -> list[int]:
    """The pools that a component's gradients are scattered to; some are `left`.

    Those of rows that are `held` come after all trips; without them, what is found is
    scattered to in every trip.
    """
    pulled = {column for about in left for block in about.blocks for column in block}
    return sorted(
        {
            read.pool
            for cell in body.cells
            for read in cell.reads
            if read.differentiable and read.column not in (None, *pulled)
            if held or not read.held
        }
    )


@dataclass(frozen=True)
class Source:
    """Where gradients of a pool's rows are.

    Attributes:
        array: with one for each row of the pool; or with what was left for it, if
            there are `starts`.
        starts: where the pulls begin on the tape that say which rows of `array` are for
            each row of the pool.
    """

    array: Array
    starts: tuple[int, ...] = ()

    def several(self, tape: Array, first: Array, count: int) -> list[Array]:
        """The gradients of `count` rows from `first` on, to be added up.

        Gathers, not slices: XLA computes a gather once, but fuses a slice into each
        reader, some of them not above what is written next, and then copies the array.
        """
        if not self.starts:
            return [take(self.array, first + jnp.arange(count))]
        return [
            take(self.array, cut(tape, start + first, count)) for start in self.starts
        ]

    def of_all(self, tape: Array, rows: Array, capacity: int) -> list[Array]:
        """The same of any rows, of which some are beyond the pool's `capacity`."""
        if not self.starts:
            return [take_if_there(self.array, rows)]
        rows = jnp.minimum(rows, capacity - 1)
        return [take(self.array, take(tape, start + rows)) for start in self.starts]


with_jax(lambda: jax.tree_util.register_dataclass(Source, ["array"], ["starts"]))


def added_up(several: Iterable[list[Array]], rows: int, shape: Shape) -> Array:
    """The sum of all of them; zeros if there are none."""
    found = [*chain.from_iterable(several)]
    return sum(found[1:], found[0]) if found else zeros(rows, shape)


@lru_cache(maxsize=KEPT)
def backward(program: Program, fresh: tuple[int, ...]) -> Callable:
    """`backward_rows`, compiled; gradients that it adds to are donated."""
    made("backward", program.size)
    run = backward_rows(program, fresh)

    def rows(uniforms, pools, kept, above, given_back, tape):
        sources = [[Source(a) for a in arrays] for arrays in above]
        return run(uniforms, pools, kept, sources, given_back, tape)[:2]

    return Compiled(rows, "given_back")


def backward_rows(
    program: Program,
    fresh: tuple[int, ...],
    at: int = 0,
    leaving: tuple[Left, ...] = (),
) -> Callable:
    """``(uniforms, pools, kept, above, given_back, tape, lent) -> results``.

    The results are ``(back, weights, left, large)``.

    `pools` are the values of all pools; `above` says where the gradients of the pools
    it writes are, but for what it scatters to them; `given_back` are those of the pools
    it scatters to, but for `fresh` ones, which start as zeros. A component that copies
    rows of a table returns their gradients as `back`. `left` is what it leaves for the
    rows of pools; `large` are the buffers that were `lent`. The component's tape begins
    at `at`.
    """
    body = program.body
    into = scattered_pools(body, leaving)
    started = [p for p in into if p not in fresh]
    in_trips = scattered_pools(body, leaving, held=not program.holds)
    source = body.cells[0].form

    def component(uniforms, pools, kept, above, given_back, tape, lent=()):
        trips, base = program.unpack(tape, at)
        sources = dict(zip(program.written, above, strict=True))
        back = dict(zip(started, given_back, strict=True))
        back |= {p: zeros(program.capacities[p], body.pools[p]) for p in fresh}
        after = {p: array for p, array in back.items() if p not in in_trips}
        for p in after.keys() & sources.keys():
            sources[p] = [*sources[p], Source(after[p])]
        if source in (LOOKUP, INPUT):
            return [_source_rows(program, sources, tape, base)], [], [], []
        loop = _Loop(program, uniforms, pools, kept, sources, tape, at, leaving)
        held = program.held(tape, at, loop.pools)
        state = loop.start({p: back[p] for p in in_trips}, held, iter(lent))

        def step(k, state):
            return loop.reverse(trips - 1 - k, base, held, state)

        back, left, cheap, wide, of_held = lax.fori_loop(0, trips, step, state)
        back = after | back
        for (p, column), d in of_held.items():
            rows = program.rows_held(tape, at, column)
            back[p] = add_rows(back[p], rows, d)
        total = loop.learning.of_all(trips, base, wide)
        learned = [_sum(n, cheap, total) for n in loop.learned]
        buffers = [*left, *[w for w in wide if w is not None]]
        large = [a for a in buffers if is_large(a.shape)]
        return [back[p] for p in into], learned, left, large

    return component


def _sum(n: int, *parts: dict[int, Array]) -> Array:
    found = [part[n] for part in parts if n in part]
    return sum(found[1:], found[0])


def _source_rows(program: Program, sources, tape, base) -> Array:
    """The gradients of a source's rows, lane by lane."""
    pool = program.body.cells[0].pool
    rows = base[0] + jnp.arange(program.lanes)
    capacity = program.capacities[pool]
    several = [s.of_all(tape, rows, capacity) for s in sources[pool]]
    return added_up(several, program.lanes, program.body.pools[pool])


class _Loop:
    """The backward loop of one component while it is traced."""

    def __init__(
        self, program: Program, uniforms, pools, kept, sources, tape, at, leaving
    ):
        self.program, self.body = program, program.body
        self.uniforms, self.kept = uniforms, kept
        self.pools = dict(enumerate(pools))
        self.sources, self.tape, self.leaving = sources, tape, leaving
        self.columns = partial(program.chunk, tape, at)
        self.contractions = contractions(self.body)
        self.learned = program.learned
        self.learning = Learning(program, uniforms, pools, tape, at)
        self.cheap = cheap(self.body)
        self.weighted = cotangents_kept(program)

    def start(self, back, held, lent):
        """Gradients so far: scattered, left, of weights, contractions, held rows."""
        sums = {n for _, n in self.cheap}
        if self.program.adds_up:
            sums.update(self.learning.learned)
        cheap = {n: jnp.zeros(self.body.uniforms[n][0]) for n in sums}
        lanes, pools = self.program.lanes, self.body.pools
        left = [
            self._wide(about.shape(pools[about.pool], lanes), lent)
            for about in self.leaving
        ]
        wide = [
            self._wide((self.learning.room, *step.shape), lent) if kept else None
            for kept, (_, step) in zip(self.weighted, self.contractions, strict=True)
        ]
        reads = [r for c in self.body.cells for r in c.reads if r.differentiable]
        back_through = {(read.pool, read.column) for read in reads}
        of_held = {
            key: jnp.zeros_like(rows)
            for key, rows in held.items()
            if key in back_through
        }
        return back, left, cheap, wide, of_held

    def _wide(self, shape: Shape, lent: Iterator[Array]) -> Array:
        """For gradients lane by lane: zeros, or a large array that is lent."""
        found = next(lent, None) if is_large(shape) else None
        return jnp.zeros(shape, jnp.float32) if found is None else found

    def reverse(self, t, base, held, state):
        """One trip backwards."""
        back, left, cheap, wide, of_held = state
        program, body, width = self.program, self.body, self.program.width
        at = t * width
        trip = Trip(body, width, self.columns(at, width), self.uniforms, None)
        leaves = trip.leaves(self.pools, held)
        moving = {
            key: rows
            for key, rows in leaves.items()
            if body.cells[key[0]].reads[key[1]].differentiable
        }
        still = {key: rows for key, rows in leaves.items() if key not in moving}
        tiled = {
            (c, n): jnp.broadcast_to(self.uniforms[n], (width, *body.uniforms[n][0]))
            for c, n in self.cheap
        }
        kept = self._kept(at, width)
        stored = [
            cut(self.pools[cell.pool], base[c] + at, width)
            for c, cell in enumerate(body.cells)
        ]

        above = [
            self._above(cell, base[c] + at, width, back, left)
            for c, cell in enumerate(body.cells)
        ]
        pull = trip.pull(moving, still, tiled, kept, stored)
        d_leaves, d_tiled, d_kept = pull(above)
        gradients = self._of_columns(trip, d_leaves, held)
        of_held = {key: d + gradients.pop(key) for key, d in of_held.items()}
        left = self._leave(gradients, left, at)
        back = self._scatter(trip, gradients, back)
        cheap = dict(cheap)
        for (c, n), d in d_tiled.items():
            cheap[n] = cheap[n] + jnp.sum(self._masked(trip, c, d), axis=0)
        masked = [
            self._masked(trip, c, d) if weights(body, step) else None
            for d, (c, step) in zip(d_kept, self.contractions, strict=True)
        ]
        if program.adds_up:
            lanes = at + jnp.arange(width)
            found = self.learning.of_lanes(base, masked, trip.columns, lanes, None)
            for n, g in found.items():
                cheap[n] = cheap[n] + g
            return back, left, cheap, wide, of_held
        wide = [
            w if w is None else put(w, d, at) for w, d in zip(wide, masked, strict=True)
        ]
        return back, left, cheap, wide, of_held

    def _kept(self, at, width: int) -> list[Array]:
        """Results of contractions; zeros for those that nothing reads."""
        found = iter(self.kept)
        return [
            cut(next(found), at, width) if read else zeros(width, step.shape)
            for read, (_, step) in zip(
                needed(self.body), self.contractions, strict=True
            )
        ]

    def _masked(self, trip: Trip, c: int, d: Array) -> Array:
        return jnp.where(trip.valid(self.body.cells[c], d.ndim), d, 0)

    def _above(self, cell: Cell, first, width: int, back, left) -> Array:
        """The gradients of some of a cell's rows."""
        pool = cell.pool
        sources = [*self.sources[pool]]
        if pool in back:
            sources.append(Source(back[pool]))
        for about, array in zip(self.leaving, left, strict=True):
            if about.pool == pool:
                sources.append(Source(array, about.starts))
        several = [s.several(self.tape, first, width) for s in sources]
        return added_up(several, width, cell.shape)

    def _of_columns(self, trip: Trip, d_leaves, held) -> dict[tuple[int, int], Array]:
        """The gradients of what was read, by pool and column."""
        found: dict[tuple[int, int], Array] = {}
        for (c, k), d in d_leaves.items():
            read = self.body.cells[c].reads[k]
            key = read.pool, read.column
            if key in held:
                d = self._masked(trip, c, d)
            found[key] = found[key] + d if key in found else d
        return found

    def _leave(self, gradients, left, at) -> list[Array]:
        """Leave gradients for whoever computed the rows; they are used up."""
        found = []
        for about, array in zip(self.leaving, left, strict=True):
            for number, block in enumerate(about.blocks):
                several = [gradients.pop((about.pool, column)) for column in block]
                array = put(array, several[0], 1 + number * self.program.lanes + at)
            found.append(array)
        return found

    def _scatter(self, trip: Trip, gradients, back):
        """Add gradients to the rows they belong to."""
        back = dict(back)
        for p in back:
            keys = [key for key in gradients if key[0] == p]
            if len({id(gradients[key]) for key in keys}) < len(keys):
                for key in keys:  # side by side, XLA would compute equal ones anew
                    back[p] = add_rows(back[p], trip.columns[key[1]], gradients[key])
            elif keys:
                rows = jnp.concatenate([trip.columns[column] for _, column in keys])
                values = jnp.concatenate([gradients[key] for key in keys])
                back[p] = add_rows(back[p], rows, values)
        return back
