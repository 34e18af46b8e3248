"""Programs: one jitted function per component, size class and direction.

`forward` runs a component's trips and writes its rows into pools; `backward` runs them
in reverse, scatters gradients back to the rows that were read, and then makes each
weight's gradient of all lanes at once, in chunks, outside the loop.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from itertools import compress
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from dynetjax.dims import Shape
from dynetjax.engine.body import Body, Read
from dynetjax.engine.cells import (
    Trip,
    cheap,
    contractions,
    lane_function,
    needed,
    take,
    weights,
)
from dynetjax.engine.stats import count
from dynetjax.ops.registry import INPUT, LOOKUP

Array = Any

TURN_WIDTH = 16  # lanes of a loop that is narrow
GRADIENT_CHUNK = 128  # lanes a weight's gradient takes in at once
LAST_CHUNKS = (32, 64, 128)  # and at the end


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
    def head(self) -> int:
        return 1 + len(self.body.cells)

    @property
    def tape_size(self) -> int:
        return self.head + self.body.columns * self.lanes

    @property
    def learned(self) -> list[int]:
        """The uniforms that take a gradient."""
        return [n for n, (_, const) in enumerate(self.body.uniforms) if not const]

    @property
    def written(self) -> list[int]:
        """The pools its cells write."""
        return sorted({cell.pool for cell in self.body.cells})

    def unpack(self, tape: Array) -> tuple[Array, Array, Array]:
        """Trips, first rows, and columns with `width` lanes to spare."""
        columns = tape[self.head :].reshape(self.body.columns, self.lanes)
        return tape[0], tape[1 : self.head], columns

    def chunk(self, columns: Array, trip: Array) -> Array:
        start = (0, trip * self.width)
        return lax.dynamic_slice(columns, start, (columns.shape[0], self.width))

    def trip(self, columns, trip, uniforms, given) -> Trip:
        """Trip number `trip`, ready to run."""
        part = None
        if given is not None:
            part = lax.dynamic_slice_in_dim(given, trip * self.width, self.width)
        chunk = self.chunk(columns, trip)
        return Trip(self.body, self.width, chunk, uniforms, part)


@cache
def program(body: Body, width: int, lanes: int, capacities: tuple[int, ...]) -> Program:
    """The program with these parts."""
    return Program(body, width, lanes, capacities)


def zeros(capacity: int, shape: Shape) -> Array:
    """An empty pool."""
    return jnp.zeros((capacity, *shape), jnp.float32)


@cache
def forward(program: Program, fresh: tuple[int, ...], keeping: bool) -> Callable:
    """`forward_rows`, compiled; the shared pools are donated."""
    count(programs=1)
    run = forward_rows(program, fresh, keeping)
    return jax.jit(run, donate_argnames="shared_pools")


def forward_rows(program: Program, fresh: tuple[int, ...], keeping: bool) -> Callable:
    """``(uniforms, read, shared, given, tape) -> (written, kept)``.

    `read` are the pools the component only reads, `shared` those it writes that other
    components have written before; `fresh` ones start as zeros. `kept` are the
    results of contractions that backward needs, if `keeping`.
    """
    body = program.body
    written = program.written
    only_read = [p for p in range(len(body.pools)) if p not in written]
    shared = [p for p in written if p not in fresh]
    turn = worth_turning(program)
    keep = needed(body) if keeping else (False,) * len(contractions(body))
    kept_shapes = [s.shape for _, s in compress(contractions(body), keep)]

    def component(uniforms, read_pools, shared_pools, given, tape):
        trips, base, columns = program.unpack(tape)
        pools = dict(zip(only_read, read_pools, strict=True))
        start = dict(zip(shared, shared_pools, strict=True))
        start |= {p: zeros(program.capacities[p], body.pools[p]) for p in fresh}
        kept = [zeros(program.lanes, shape) for shape in kept_shapes]
        turned = {n: lax.optimization_barrier(uniforms[n].T) for n in turn}

        def step(t, state):
            mine, kept = state
            here = [turned[n].T if n in turned else u for n, u in enumerate(uniforms)]
            trip = program.trip(columns, t, here, given)
            everything = pools | mine
            leaves = trip.leaves([everything[p] for p in range(len(body.pools))])
            rows, made = trip.run(leaves)
            mine = dict(mine)
            for c, cell in enumerate(body.cells):
                at = base[c] + t * program.width
                mine[cell.pool] = put(mine[cell.pool], rows[c], at)
            results = zip(kept, compress(made, keep), strict=True)
            return mine, [put(k, z, t * program.width) for k, z in results]

        mine, kept = lax.fori_loop(0, trips, step, (start, kept))
        return [mine[p] for p in written], kept

    return component


def worth_turning(program: Program) -> list[int]:
    """Weights of a narrow loop that are multiplied with vectors.

    The product of a few rows with a matrix kept as [in, out] is faster than with one
    kept as [out, in]; one transposed copy for all trips pays. A barrier around it keeps
    XLA from folding the copy back into the products.
    """
    body = program.body
    read = {r.pool for cell in body.cells for r in cell.reads if r.column is not None}
    if program.width > TURN_WIDTH or read.isdisjoint(program.written):
        return []
    found = {
        step.operands[0][1]
        for _, step in contractions(body)
        if step.operands[0][0] == "uniform"
        and len(step.shape) == 1
        and len(body.uniforms[step.operands[0][1]][0]) == 2
    }
    return sorted(found)


def put(pool: Array, rows: Array, at: Array) -> Array:
    """`pool` with consecutive rows from `at` on replaced."""
    return lax.dynamic_update_slice_in_dim(pool, rows, at, 0)


def back_pools(body: Body) -> list[int]:
    """The pools that a component's gradients are scattered to."""
    return sorted({r.pool for c in body.cells for r in c.reads if _scatters(r)})


def _scatters(read: Read) -> bool:
    return read.differentiable and read.column is not None


@cache
def backward(program: Program, fresh: tuple[int, ...]) -> Callable:
    """`backward_rows`, compiled; gradients that it adds to are donated."""
    count(programs=1)
    return jax.jit(backward_rows(program, fresh), donate_argnames="given_back")


def backward_rows(program: Program, fresh: tuple[int, ...]) -> Callable:
    """``(uniforms, pools, kept, above, given_back, given, tape) -> (back, weights)``.

    `pools` are the values of all pools; `above` the gradients of the pools it writes
    and does not scatter to; `given_back` those of the pools it scatters to, but for
    `fresh` ones, which start as zeros. A component that copies rows of a table returns
    their gradients as `back`.
    """
    body = program.body
    into = back_pools(body)
    above_only = [p for p in program.written if p not in into]
    started = [p for p in into if p not in fresh]
    source = body.cells[0].form

    def component(uniforms, pools, kept, above, given_back, given, tape):
        trips, base, columns = program.unpack(tape)
        gradients = dict(zip(above_only, above, strict=True))
        back = dict(zip(started, given_back, strict=True))
        back |= {p: zeros(program.capacities[p], body.pools[p]) for p in fresh}
        if source in (LOOKUP, INPUT):
            return [_source_rows(program, gradients, base)], []
        loop = _Loop(program, uniforms, pools, kept, gradients, given)
        state = loop.start(back)

        def step(k, state):
            return loop.reverse(trips - 1 - k, base, columns, state)

        back, cheap, wide = lax.fori_loop(0, trips, step, state)
        total = loop.weights(trips, base, columns, wide)
        return [back[p] for p in into], [_sum(n, cheap, total) for n in loop.learned]

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

    def __init__(self, program: Program, uniforms, pools, kept, gradients, given):
        self.program, self.body = program, program.body
        self.uniforms, self.pools, self.kept = uniforms, pools, kept
        self.gradients, self.given = gradients, given
        self.contractions = contractions(self.body)
        self.learned = program.learned
        self.room = room(program.lanes)
        self.cheap = cheap(self.body)

    def start(self, back):
        """Gradients scattered so far, of cheap weights, and of contractions."""
        cheap = {n: jnp.zeros(self.body.uniforms[n][0]) for _, n in self.cheap}
        wide = [
            zeros(self.room, step.shape) if weights(self.body, step) else None
            for _, step in self.contractions
        ]
        return back, cheap, wide

    def reverse(self, t, base, columns, state):
        """One trip backwards."""
        back, cheap, wide = state
        program, body = self.program, self.body
        trip = program.trip(columns, t, self.uniforms, self.given)
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
        at = t * program.width
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
            if keys:
                rows = jnp.concatenate([trip.columns[column] for _, column in keys])
                values = jnp.concatenate([seen[key] for key in keys])
                back[p] = back[p].at[rows].add(values, mode="promise_in_bounds")
        return back

    def weights(self, trips, base, columns, wide) -> dict[int, Array]:
        """Gradients of the weights of contractions, from all lanes at once.

        The last chunk comes first, and is as small as its lanes allow: most graphs have
        no more than that, and pay neither for empty lanes nor for a sum.
        """
        if all(w is None for w in wide):
            return {}
        spare = self.room - self.program.lanes
        padded = jnp.pad(columns, ((0, 0), (0, spare))) if spare else columns
        lanes = trips * self.program.width
        whole = jnp.maximum(lanes - 1, 0) // GRADIENT_CHUNK
        rest = lanes - whole * GRADIENT_CHUNK

        def part(i, size: int):
            return self._chunk(padded, base, wide, i * GRADIENT_CHUNK, size)

        def add(i, total):
            return {n: total[n] + g for n, g in part(i, GRADIENT_CHUNK).items()}

        names = jax.eval_shape(partial(part, 0, 1))
        sizes = [n for n in LAST_CHUNKS if n <= self.room]
        total = lax.switch(
            sum(jnp.int32(rest > n) for n in (0, *sizes[:-1])),
            [lambda: {n: jnp.zeros(s.shape) for n, s in names.items()}]
            + [partial(part, whole, n) for n in sizes],
        )
        if self.room <= GRADIENT_CHUNK:
            return total  # a loop's only chunk would be made whether it runs or not
        return lax.fori_loop(0, whole, add, total)

    def _chunk(self, columns, base, wide, at, size: int) -> dict[int, Array]:
        """Gradients of the weights from `size` lanes."""
        total: dict[int, Array] = {}
        part = lax.dynamic_slice(columns, (0, at), (columns.shape[0], size))
        for (c, step), w in zip(self.contractions, wide, strict=True):
            if w is None:
                continue
            d = lax.dynamic_slice_in_dim(w, at, size)
            if d.ndim == 2:
                d = lax.optimization_barrier(d.T).T
            for n, g in self._weight(c, step, part, base, at, d):
                total[n] = total[n] + g if n in total else g
        return total

    def _weight(self, c: int, step, part, base, at, d):
        """Gradients of a contraction's weights from one chunk of lanes."""
        reads = self.body.cells[c].reads
        spread = [what == "uniform" for what, _ in step.operands]
        numbers = [n for what, n in step.operands if what == "uniform"]
        lanes = []
        for what, n in step.operands:
            if what == "leaf":
                lanes.append(self._operand(reads[n], part, base, at))
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
        rows = base[read.register] + at + jnp.arange(part.shape[1])
        return pool.at[rows].get(mode="fill", fill_value=0)
