"""Backward programs: one jitted function per component and size class.

`backward` runs a component's trips in reverse, scatters gradients back to the rows that
were read, and then makes each weight's gradient of all lanes at once, in chunks,
outside the loop.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from dynetjax.dims import Shape
from dynetjax.engine.body import Body, Read
from dynetjax.engine.causes import made
from dynetjax.engine.cells import (
    Trip,
    added,
    cheap,
    contractions,
    lane_function,
    needed,
    take,
    weights,
)
from dynetjax.engine.compiling import Compiled
from dynetjax.engine.program import KEPT, Program, put, zeros
from dynetjax.engine.scratch import is_large
from dynetjax.ops.registry import INPUT, LOOKUP

Array = Any

GRADIENT_CHUNK = 128  # lanes a weight's gradient takes in at once
LAST_CHUNKS = (32, 64, 128)  # and at the end


def add_rows(pool: Array, rows: Array, values: Array) -> Array:
    """`pool` with values added to some rows, which are within it."""
    return pool.at[rows].add(values, mode="promise_in_bounds")


def only(real: Array | None, rows: Array) -> Array:
    """`rows` where they are real; zeros elsewhere."""
    if real is None:
        return rows
    return jnp.where(real.reshape(-1, *[1] * (rows.ndim - 1)), rows, 0)


def back_pools(body: Body) -> list[int]:
    """The pools that a component's gradients are scattered to."""
    return sorted({r.pool for c in body.cells for r in c.reads if _scatters(r)})


def _scatters(read: Read) -> bool:
    return read.differentiable and read.column is not None


@lru_cache(maxsize=KEPT)
def backward(program: Program, fresh: tuple[int, ...]) -> Callable:
    """`backward_rows`, compiled; gradients that it adds to are donated."""
    made("backward", program.size)
    return Compiled(backward_rows(program, fresh), "given_back")


def backward_rows(program: Program, fresh: tuple[int, ...], at: int = 0) -> Callable:
    """``(uniforms, pools, kept, above, given_back, tape, lent) -> results``.

    The results are ``(back, weights, large)``.

    `pools` are the values of all pools; `above` the gradients of the pools it writes
    and does not scatter to; `given_back` those of the pools it scatters to, but for
    `fresh` ones, which start as zeros. A component that copies rows of a table returns
    their gradients as `back`. `large` are buffers with nothing of use to the caller,
    to be lent again. The component's tape begins at `at`.
    """
    body = program.body
    into = back_pools(body)
    above_only = [p for p in program.written if p not in into]
    started = [p for p in into if p not in fresh]
    source = body.cells[0].form

    def component(uniforms, pools, kept, above, given_back, tape, lent=()):
        trips, base = program.unpack(tape, at)
        gradients = dict(zip(above_only, above, strict=True))
        back = dict(zip(started, given_back, strict=True))
        back |= {p: zeros(program.capacities[p], body.pools[p]) for p in fresh}
        if source in (LOOKUP, INPUT):
            return [_source_rows(program, gradients, base)], [], []
        columns = partial(program.chunk, tape, at)
        loop = _Loop(program, uniforms, pools, kept, gradients, columns)
        state = loop.start(back, iter(lent))

        def step(k, state):
            return loop.reverse(trips - 1 - k, base, state)

        back, cheap, wide = lax.fori_loop(0, trips, step, state)
        total = loop.weights(trips, base, wide)
        learned = [_sum(n, cheap, total) for n in loop.learned]
        large = [w for w in wide if w is not None and is_large(w.shape)]
        return [back[p] for p in into], learned, large

    return component


def _sum(n: int, *parts: dict[int, Array]) -> Array:
    found = [part[n] for part in parts if n in part]
    return sum(found[1:], found[0])


def room(lanes: int) -> int:
    """Lanes in whole chunks, the last of any size."""
    for size in LAST_CHUNKS:
        if lanes <= size:
            return size
    return -(-lanes // GRADIENT_CHUNK) * GRADIENT_CHUNK


def _source_rows(program: Program, gradients, base) -> Array:
    """The gradients of a source's rows, lane by lane."""
    pool = gradients[program.body.cells[0].pool]
    rows = base[0] + jnp.arange(program.lanes)
    return pool.at[rows].get(mode="fill", fill_value=0)


class _Loop:
    """The backward loop of one component while it is traced."""

    def __init__(self, program: Program, uniforms, pools, kept, gradients, columns):
        self.program, self.body = program, program.body
        self.uniforms, self.pools, self.kept = uniforms, pools, kept
        self.gradients, self.columns = gradients, columns
        self.contractions = contractions(self.body)
        self.learned = program.learned
        self.room = room(program.lanes)
        self.cheap = cheap(self.body)

    def start(self, back, lent):
        """Gradients scattered so far, of cheap weights, and of contractions."""
        cheap = {n: jnp.zeros(self.body.uniforms[n][0]) for _, n in self.cheap}
        wide = [
            self._wide((self.room, *step.shape), lent)
            if weights(self.body, step)
            else None
            for _, step in self.contractions
        ]
        return back, cheap, wide

    def _wide(self, shape: Shape, lent: Iterator[Array]) -> Array:
        """For the cotangents of a contraction: zeros, or a large array that is lent."""
        found = next(lent, None) if is_large(shape) else None
        return jnp.zeros(shape, jnp.float32) if found is None else found

    def reverse(self, t, base, state):
        """One trip backwards."""
        back, cheap, wide = state
        program, body = self.program, self.body
        at, width = t * program.width, program.width
        trip = Trip(body, width, self.columns(at, width), self.uniforms, None)
        leaves = trip.leaves(self.pools)
        moving = {
            key: rows
            for key, rows in leaves.items()
            if body.cells[key[0]].reads[key[1]].differentiable
        }
        still = {key: rows for key, rows in leaves.items() if key not in moving}
        tiled = {
            (c, n): jnp.broadcast_to(
                self.uniforms[n], (program.width, *body.uniforms[n][0])
            )
            for c, n in self.cheap
        }
        kept = self._kept(at)
        stored = [
            lax.dynamic_slice_in_dim(self.pools[cell.pool], base[c] + at, program.width)
            for c, cell in enumerate(body.cells)
        ]

        every = self.gradients | back
        # Gathers, not slices: XLA computes a gather once, but fuses a slice into each
        # reader, some of them not above the scatter, and then copies the whole pool.
        above = [
            take(every[cell.pool], base[c] + at + jnp.arange(program.width))
            for c, cell in enumerate(body.cells)
        ]
        pull = trip.pull(moving, still, tiled, kept, stored)
        d_leaves, d_tiled, d_kept = pull(above)
        back = self._scatter(trip, d_leaves, back)
        cheap = dict(cheap)
        for (c, n), d in d_tiled.items():
            cheap[n] = cheap[n] + jnp.sum(self._masked(trip, c, d), axis=0)
        wide = [
            w if w is None else put(w, self._masked(trip, c, d), at)
            for w, d, (c, _) in zip(wide, d_kept, self.contractions, strict=True)
        ]
        return back, cheap, wide

    def _kept(self, at) -> list[Array]:
        """Results of contractions; zeros for those that nothing reads."""
        found, width = iter(self.kept), self.program.width
        return [
            lax.dynamic_slice_in_dim(next(found), at, width)
            if read
            else zeros(width, step.shape)
            for read, (_, step) in zip(
                needed(self.body), self.contractions, strict=True
            )
        ]

    def _masked(self, trip: Trip, c: int, d: Array) -> Array:
        return jnp.where(trip.valid(self.body.cells[c], d.ndim), d, 0)

    def _scatter(self, trip: Trip, d_leaves, back):
        """Add the leaves' gradients to the rows they were read from."""
        back = dict(back)
        seen: dict[tuple[int, int], Array] = {}
        for (c, k), d in d_leaves.items():
            read = self.body.cells[c].reads[k]
            key = read.pool, read.column
            seen[key] = seen[key] + d if key in seen else d
        for p in back:
            keys = [key for key in seen if key[0] == p]
            if len({id(seen[key]) for key in keys}) < len(keys):
                for key in keys:  # side by side, XLA would compute equal ones anew
                    back[p] = add_rows(back[p], trip.columns[key[1]], seen[key])
            elif keys:
                rows = jnp.concatenate([trip.columns[column] for _, column in keys])
                values = jnp.concatenate([seen[key] for key in keys])
                back[p] = add_rows(back[p], rows, values)
        return back

    def weights(self, trips, base, wide) -> dict[int, Array]:
        """Gradients of the weights of contractions, from all lanes at once.

        The last chunk comes first, and is as small as its lanes allow: most graphs have
        no more than that, and pay neither for empty lanes nor for a sum.
        """
        if all(w is None for w in wide):
            return {}
        lanes = trips * self.program.width
        whole = jnp.maximum(lanes - 1, 0) // GRADIENT_CHUNK
        rest = lanes - whole * GRADIENT_CHUNK

        def part(i, size: int, last: bool = True):
            at = i * GRADIENT_CHUNK
            real = at + jnp.arange(size) < lanes if last else None
            return self._chunk(base, wide, at, size, real)

        def add(i, total):
            found = part(i, GRADIENT_CHUNK, last=False)
            return {n: total[n] + g for n, g in found.items()}

        several = [n for _, step in self.contractions for n in weights(self.body, step)]
        several += [n for _, n in added(self.body)]
        sizes = [n for n in LAST_CHUNKS if n <= self.room]
        total = lax.switch(
            sum(jnp.int32(rest > n) for n in (0, *sizes[:-1])),
            [lambda: {n: jnp.zeros(self.body.uniforms[n][0]) for n in several}]
            + [partial(part, whole, n) for n in sizes],
        )
        if self.room <= GRADIENT_CHUNK:
            return total  # a loop's only chunk would be made whether it runs or not
        return lax.fori_loop(0, whole, add, total)

    def _chunk(self, base, wide, at, size: int, real) -> dict[int, Array]:
        """Gradients of the weights from `size` lanes; of the `real` ones, if given.

        What lies behind those was never written in this run.
        """
        found: list[tuple[int, Array]] = []
        sums: dict[int, Array] = {}
        part = self.columns(at, size)
        for k, ((c, step), w) in enumerate(zip(self.contractions, wide, strict=True)):
            if w is None:
                continue
            d = lax.dynamic_slice_in_dim(w, at, size)
            if is_large(w.shape):
                d = only(real, d)
            if d.ndim == 2:
                d = lax.optimization_barrier(d.T).T
            found += self._weight(c, step, part, base, at, d, real)
            sums[k] = jnp.tensordot(jnp.ones(size), d, 1)  # faster than jnp.sum
        found += [(n, sums[k]) for (_, n), ks in added(self.body).items() for k in ks]
        total: dict[int, Array] = {}
        for n, g in found:
            total[n] = total[n] + g if n in total else g
        return total

    def _weight(self, c: int, step, part, base, at, d, real):
        """Gradients of a contraction's weights from one chunk of lanes."""
        reads = self.body.cells[c].reads
        spread = [what == "uniform" for what, _ in step.operands]
        numbers = [n for what, n in step.operands if what == "uniform"]
        lanes = []
        for what, n in step.operands:
            if what == "leaf":
                lanes.append(only(real, self._operand(reads[n], part, base, at)))
        trip = Trip(self.body, len(d), part, self.uniforms, None)
        lanes += trip.runtime(step)

        def result(uniforms):
            return lane_function(step, spread, uniforms, len(d))(*lanes)

        _, pull = jax.vjp(result, [self.uniforms[n] for n in numbers])
        (found,) = pull(d)
        constant = self.body.uniforms
        return [
            (n, g) for n, g in zip(numbers, found, strict=True) if not constant[n][1]
        ]

    def _operand(self, read: Read, part, base, at) -> Array:
        """Rows a contraction read in one chunk of lanes."""
        pool = self.pools[read.pool]
        if read.column is not None:
            return take(pool, part[read.column])
        assert read.register is not None
        rows = base[read.register] + at + jnp.arange(len(part[0]))
        return pool.at[rows].get(mode="fill", fill_value=0)
