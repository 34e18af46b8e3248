"""The way back through a component.

`backward_rows` runs a component's trips in reverse, scatters gradients to the rows that
were read, and adds up those of weights.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from dynetjax.engine.body import Body, Cell
from dynetjax.engine.cells import Trip, contractions, learned, needed
from dynetjax.engine.program import Program, zeros
from dynetjax.engine.slices import cut, take, take_if_there
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


def backward_rows(program: Program, at: int) -> Callable:
    """``(uniforms, pools, kept, above, tape) -> (back, weights)``.

    `pools` are the values of all pools; `above` has the gradients of each, or None
    where there are none so far. `back` are those of the pools that it scatters to; a
    component that copies rows of a table returns their gradients instead. The
    component's tape begins at `at`.
    """
    body = program.body
    into = scattered_pools(body)
    source = body.cells[0].form

    def component(uniforms, pools, kept, above, tape):
        trips, base = program.unpack(tape, at)
        gradients = dict(enumerate(above))
        if source in (LOOKUP, INPUT):
            return [_source_rows(program, gradients, base)], []
        back = {p: gradients.pop(p) for p in into}
        for p, found in back.items():
            if found is None:
                back[p] = zeros(program.capacities[p], body.pools[p])
        loop = _Loop(program, uniforms, pools, kept, gradients, tape, at)
        weights = {n: jnp.zeros(body.uniforms[n][0]) for n in learned(body)}

        def step(k, state):
            return loop.reverse(trips - 1 - k, base, *state)

        back, weights = lax.fori_loop(0, trips, step, (back, weights))
        return [back[p] for p in into], [weights[n] for n in learned(body)]

    return component


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

    def reverse(self, t, base, back, weights):
        """One trip backwards: gradients so far, scattered and of weights."""
        body, width = self.body, self.program.width
        at = t * width
        trip = Trip(body, width, self.columns(at, width), self.uniforms, None)
        leaves = trip.leaves(self.pools)
        moving = {
            key: rows
            for key, rows in leaves.items()
            if body.cells[key[0]].reads[key[1]].differentiable
        }
        still = {key: rows for key, rows in leaves.items() if key not in moving}
        cells = list(enumerate(body.cells))
        stored = [cut(self.pools[x.pool], base[c] + at, width) for c, x in cells]
        above = [self._of_rows(x, base[c] + at, width, back) for c, x in cells]
        pull = trip.pull(moving, still, self._kept(at, width), stored)
        d_leaves, d_weights = pull(above)
        weights = {n: gradient + d_weights[n] for n, gradient in weights.items()}
        return self._scatter(trip, d_leaves, back), weights

    def _kept(self, at, width: int) -> list[Array]:
        """Results of contractions; zeros for those that nothing reads."""
        found = iter(self.kept)
        return [
            cut(next(found), at, width) if read else zeros(width, step.shape)
            for read, (_, step) in zip(
                needed(self.body), self.contractions, strict=True
            )
        ]

    def _of_rows(self, cell: Cell, first, width: int, back) -> Array:
        """The gradients of some of a cell's rows.

        A gather, not a slice: XLA computes a gather once, but fuses a slice into each
        reader, some of them not above what is written next, and then copies the array.
        """
        found = back.get(cell.pool, self.above.get(cell.pool))
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
