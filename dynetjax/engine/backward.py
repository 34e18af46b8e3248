"""Backward programs: one jitted function per component and size class.

`backward` runs a component's trips in reverse, scatters gradients to the rows that were
read, and then makes each weight's gradient of all lanes at once, in chunks, outside the
loop (`dynetjax.engine.learning`).
"""

from collections.abc import Callable, Iterator
from functools import lru_cache, partial
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
from dynetjax.engine.scratch import is_large
from dynetjax.engine.slices import cut, put, take, take_if_there
from dynetjax.lazy import jnp, lax
from dynetjax.ops.registry import INPUT, LOOKUP

Array = Any


def add_rows(pool: Array, rows: Array, values: Array) -> Array:
    """`pool` with values added to some rows, which are within it."""
    return pool.at[rows].add(values, mode="promise_in_bounds")


def scattered_pools(body: Body) -> list[int]:
    """The pools that a component's gradients are scattered to."""
    reads = [read for cell in body.cells for read in cell.reads]
    found = {r.pool for r in reads if r.differentiable and r.column is not None}
    return sorted(found)


@lru_cache(maxsize=KEPT)
def backward(program: Program, fresh: tuple[int, ...]) -> Callable:
    """`backward_rows`, compiled; gradients that it adds to are donated."""
    made("backward", program.size)
    run = backward_rows(program, fresh)

    def rows(uniforms, pools, kept, above, given_back, tape):
        return run(uniforms, pools, kept, above, given_back, tape)[:2]

    return Compiled(rows, "given_back")


def backward_rows(program: Program, fresh: tuple[int, ...], at: int = 0) -> Callable:
    """``(uniforms, pools, kept, above, given_back, tape, lent) -> results``.

    The results are ``(back, weights, large)``.

    `pools` are the values of all pools; `above` has the gradients of each pool that it
    writes and does not scatter to, or None; `given_back` are those of the pools it
    scatters to, but for `fresh` ones, which start as zeros. A component that copies
    rows of a table returns their gradients as `back`. `large` are the buffers that were
    `lent`. The component's tape begins at `at`.
    """
    body = program.body
    into = scattered_pools(body)
    started = [p for p in into if p not in fresh]
    source = body.cells[0].form

    def component(uniforms, pools, kept, above, given_back, tape, lent=()):
        trips, base = program.unpack(tape, at)
        gradients = dict(zip(program.written, above, strict=True))
        if source in (LOOKUP, INPUT):
            return [_source_rows(program, gradients, base)], [], []
        back = dict(zip(started, given_back, strict=True))
        back |= {p: zeros(program.capacities[p], body.pools[p]) for p in fresh}
        loop = _Loop(program, uniforms, pools, kept, gradients, tape, at)
        state = loop.start(back, iter(lent))

        def step(k, state):
            return loop.reverse(trips - 1 - k, base, state)

        back, cheap, wide = lax.fori_loop(0, trips, step, state)
        total = loop.learning.of_all(trips, base, wide)
        learned = [_sum(n, cheap, total) for n in loop.learned]
        large = [w for w in wide if w is not None and is_large(w.shape)]
        return [back[p] for p in into], learned, large

    return component


def _sum(n: int, *parts: dict[int, Array]) -> Array:
    found = [part[n] for part in parts if n in part]
    return sum(found[1:], found[0])


def _source_rows(program: Program, gradients: dict[int, Array], base) -> Array:
    """The gradients of a source's rows, lane by lane."""
    pool = program.body.cells[0].pool
    rows = base[0] + jnp.arange(program.lanes)
    return take_if_there(gradients[pool], rows)


class _Loop:
    """The backward loop of one component while it is traced."""

    def __init__(self, program: Program, uniforms, pools, kept, above, tape, at):
        self.program, self.body = program, program.body
        self.uniforms, self.kept = uniforms, kept
        self.pools = dict(enumerate(pools))
        self.above = above
        self.columns = partial(program.chunk, tape, at)
        self.contractions = contractions(self.body)
        self.learned = program.learned
        self.learning = Learning(program, uniforms, pools, tape, at)
        self.cheap = cheap(self.body)
        self.weighted = cotangents_kept(program)

    def start(self, back, lent):
        """Gradients so far: scattered, of weights, of contractions."""
        sums = {n for _, n in self.cheap}
        if self.program.adds_up:
            sums.update(self.learning.learned)
        cheap = {n: jnp.zeros(self.body.uniforms[n][0]) for n in sums}
        wide = [
            self._wide((self.learning.room, *step.shape), lent) if kept else None
            for kept, (_, step) in zip(self.weighted, self.contractions, strict=True)
        ]
        return back, cheap, wide

    def _wide(self, shape: Shape, lent: Iterator[Array]) -> Array:
        """For gradients lane by lane: zeros, or a large array that is lent."""
        found = next(lent, None) if is_large(shape) else None
        return jnp.zeros(shape, jnp.float32) if found is None else found

    def reverse(self, t, base, state):
        """One trip backwards."""
        back, cheap, wide = state
        program, body, width = self.program, self.body, self.program.width
        at = t * width
        trip = Trip(body, width, self.columns(at, width), self.uniforms, None)
        leaves = trip.leaves(self.pools)
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
            self._of_rows(cell, base[c] + at, width, back)
            for c, cell in enumerate(body.cells)
        ]
        pull = trip.pull(moving, still, tiled, kept, stored)
        d_leaves, d_tiled, d_kept = pull(above)
        back = self._scatter(trip, d_leaves, back)
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
            return back, cheap, wide
        wide = [
            w if w is None else put(w, d, at) for w, d in zip(wide, masked, strict=True)
        ]
        return back, cheap, wide

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

    def _of_rows(self, cell: Cell, first, width: int, back) -> Array:
        """The gradients of some of a cell's rows.

        A gather, not a slice: XLA computes a gather once, but fuses a slice into each
        reader, some of them not above what is written next, and then copies the array.
        """
        found = back.get(cell.pool, self.above[cell.pool])
        if found is None:
            return zeros(width, cell.shape)
        return take(found, first + jnp.arange(width))

    def _scatter(self, trip: Trip, d_leaves, back):
        """Add gradients to the rows they belong to."""
        by_pool: dict[int, list[tuple[Array, Array]]] = {}
        for (c, k), d in d_leaves.items():
            read = self.body.cells[c].reads[k]
            by_pool.setdefault(read.pool, []).append((trip.columns[read.column], d))
        back = dict(back)
        for p, several in by_pool.items():
            rows, gradients = zip(*several, strict=True)
            if len(set(map(id, gradients))) < len(several):
                for some, d in several:  # side by side, XLA would compute them anew
                    back[p] = add_rows(back[p], some, d)
            else:
                joined = jnp.concatenate(rows), jnp.concatenate(gradients)
                back[p] = add_rows(back[p], *joined)
        return back
