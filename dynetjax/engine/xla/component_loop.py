"""A component's loop over its trips, forward and back."""

from collections.abc import Sequence
from itertools import compress
from typing import Any

from dynetjax.core.dims import Shape
from dynetjax.core.lazy import jax, jnp, lax
from dynetjax.core.registry import INPUT, LOOKUP
from dynetjax.engine.plan.code import BodyOp, Component
from dynetjax.engine.plan.program import Program, written
from dynetjax.engine.xla.body import OpTrip, contractions, needed, residual_shapes
from dynetjax.engine.xla.slices import cut, entry, put, take, take_if_there

Array = Any

WIDE = 512  # lanes of a product for the gradient of a weight, after a loop


def zeros(rows: int, shape: tuple[int, ...]) -> Array:
    """Rows of zeros."""
    return jnp.zeros((rows, *shape), jnp.float32)


def is_source(component: Component) -> bool:
    """Whether it reads no rows of pools: a table's, or what is given."""
    return component[0].form in (LOOKUP, INPUT)


def read_pools(component: Component) -> list[int]:
    """The pools to which a component's gradients are scattered."""
    reads = [read for op in component for read in op.reads]
    pools = {r.pool for r in reads if r.differentiable and r.op is None}
    return sorted(pools)


class Loop:
    """The loop of one component, while it is traced.

    Args:
        weights: the program's, one array each.
        indices: the index buffer.
    """

    def __init__(
        self, program: Program, number: int, weights: list[Array], indices: Array
    ):
        self.component: Component = program.code.components[number]
        self.width: int = program.widths[number]
        self.lanes: int = program.lanes[number]
        self.is_loop: bool = program.code.loops[number]
        self.rows: tuple[int, ...] = program.rows
        self.pools: tuple[Shape, ...] = program.code.pools
        self._weights = weights
        count = program.code.columns[number]
        self._columns = [program.address(number, k) for k in range(count)]
        self._indices = indices
        start = program.starts[number]
        heads = [entry(indices, start + k) for k in range(1 + len(self.component))]
        self.trips: Array = heads[0]
        self.bases: list[Array] = heads[1:]

    def _op_trips(self, lane: Array, width: int, given: Array = None) -> list[OpTrip]:
        """Each op in the trip, of so many lanes, that begins at one."""
        columns = [cut(self._indices, at + lane, width) for at in self._columns]
        rows = None if given is None else cut(given, lane, width)
        return [
            OpTrip(op, width, columns, self._weights_of(op), rows)
            for op in self.component
        ]

    def _weights_of(self, op: BodyOp) -> list[Array]:
        return [self._weights[weight.number] for weight in op.weights]

    def forward(
        self, pools: list[Array], residuals: list[Array], given: Array, keeping: bool
    ) -> tuple[list[Array], list[Array]]:
        """Pools with the component's rows written, and residuals of all lanes.

        Args:
            residuals: arrays for them, if `keeping`.
            given: rows of a component that gets them from outside.
        """
        still = dict(enumerate(pools))
        start = {pool: still.pop(pool) for pool in written(self.component)}

        def step(t, state):
            own, unfilled = dict(state[0]), iter(state[1])
            lane, filled = t * self.width, []
            rows: list[Array] = []
            trips = self._op_trips(lane, self.width, given)
            for trip, base in zip(trips, self.bases, strict=True):
                op = trip.op
                row, made = trip.run(trip.leaves(still | own, rows.__getitem__))
                own[op.pool] = put(own[op.pool], row, base + lane)
                rows.append(row)
                if keeping:
                    results = compress(made, needed(op))
                    filled += [put(next(unfilled), z, lane) for z in results]
            return own, filled

        own, residuals = lax.fori_loop(0, self.trips, step, (start, residuals))
        merged = still | own
        return [merged[pool] for pool in range(len(pools))], residuals

    def backward(
        self,
        pools: list[Array],
        residuals: list[Array],
        above: dict[int, Array],
        root: int,
    ) -> dict[int, Array]:
        """Add gradients to pools that are read, and return those of weights.

        Args:
            pools: the values.
            residuals: those of all lanes.
            above: gradients of pools, as far as there are any; changed.
            root: the pool where the way back began.
        """
        later = self._learned_later()
        begun = self._pool_gradients(above, later)
        still = {pool: array for pool, array in above.items() if pool not in begun}
        values = dict(enumerate(pools))
        pooled = [
            (op.pooled or op.pool == root) and op.pool in still | begun
            for op in self.component
        ]
        early = [c for c, op in enumerate(self.component) if pooled[c] and not op.late]
        early = [c for c in early if self.component[c].pool in begun]

        def step(k, state):
            back, weight_gradients, direct = map(dict, state)
            lane = (self.trips - 1 - k) * self.width
            trips = self._op_trips(lane, self.width)
            chunks = self._residuals(residuals, lane, self.width)

            def rows(c: int) -> Array:
                pool = values[self.component[c].pool]
                return cut(pool, self.bases[c] + lane, self.width)

            for c in reversed(range(len(trips))):
                trip, first = trips[c], self.bases[c] + lane
                pool = trip.op.pool
                if pooled[c] and pool in still:
                    add_to(direct, c, cut(still[pool], first, self.width))
                elif pooled[c] and c not in early:
                    add_to(direct, c, take(back[pool], first + jnp.arange(self.width)))
                if c not in direct:
                    continue
                pull = trip.pull(trip.leaves(values, rows), chunks[c])
                leaves, weights = pull(direct[c])
                if c in later:
                    weights = []
                    if self._is_read_aligned(c):
                        back[pool] = put(back[pool], direct[c], first)
                _add(trip, leaves, weights, back, weight_gradients, direct)
            direct = self._gathered(early, back, lane - self.width)
            return back, weight_gradients, direct

        last = (self.trips - 1) * self.width
        now = [c for c in range(len(self.component)) if c not in later]
        sums = self._zeros_of_weights(now)
        start = begun, sums, self._gathered(early, begun, last)
        back, weight_gradients, _ = lax.fori_loop(0, self.trips, step, start)
        above.update(back)
        for number, gradient in self._of_later(later, values, residuals, above).items():
            add_to(weight_gradients, number, gradient)
        return weight_gradients

    def _gathered(
        self, which: list[int], gradients: dict[int, Array], lane: Array
    ) -> dict[int, Array]:
        """The gradients of some ops' rows from a lane on, as they are in pools.

        A trip gets them from the one before. If it took them itself, some of what reads
        them would run after it adds to the pool, and XLA would copy the pool.
        """
        found: dict[int, Array] = {}
        for pool in {self.component[c].pool for c in which}:
            ops = [c for c in which if self.component[c].pool == pool]
            places = [self._places(c, lane, self.width) for c in ops]
            taken = take(gradients[pool], jnp.concatenate(places))
            found |= zip(ops, jnp.split(taken, len(ops)), strict=True)
        return found

    def _places(self, c: int, lane: Array, width: int) -> Array:
        """The rows of an op from a lane on; those that a pool has not are others."""
        most = self.rows[self.component[c].pool] - 1
        return jnp.clip(self.bases[c] + lane + jnp.arange(width), 0, most)

    def _is_read_aligned(self, c: int) -> bool:
        """Whether gradients of an op's rows come from other ops of a trip."""
        reads = [read for op in self.component for read in op.reads]
        return any(read.op == c and read.differentiable for read in reads)

    def _learned_later(self) -> list[int]:
        """The ops of a loop whose weights get their gradients after it.

        Of all lanes they are a few wide products. Until then the pools keep the
        gradients of the rows.
        """
        if not self.is_loop or _chunk(self.lanes) < self.width:
            return []
        return [
            c
            for c, op in enumerate(self.component)
            if op.differentiable and any(not weight.constant for weight in op.weights)
        ]

    def _of_later(
        self,
        later: list[int],
        values: dict[int, Array],
        residuals: list[Array],
        above: dict[int, Array],
    ) -> dict[int, Array]:
        """Gradients of the weights of these ops."""
        later = [c for c in later if self.component[c].pool in above]
        width = _chunk(self.lanes)
        chunks = (self.trips * self.width + width - 1) // width

        def step(k, sums):
            lane, sums = k * width, dict(sums)
            trips = self._op_trips(lane, width)
            made = self._residuals(residuals, lane, width)
            for c in later:

                def rows(of: int, trip: OpTrip = trips[c]) -> Array:
                    pool = values[self.component[of].pool]
                    return trip.real(take(pool, self._places(of, lane, width)))

                op, leaves = trips[c].op, trips[c].leaves(values, rows)
                cotangents = take(above[op.pool], self._places(c, lane, width))
                _, weights = trips[c].pull(leaves, made[c])(cotangents)
                _add_weights(op, weights, sums)
            return sums

        if not later:
            return {}
        with jax.named_scope("wide"):
            return lax.fori_loop(0, chunks, step, self._zeros_of_weights(later))

    def _pool_gradients(
        self, above: dict[int, Array], later: list[int]
    ) -> dict[int, Array]:
        """Gradients of pools that the loop writes; zeros where `above` has none."""
        kept = {self.component[c].pool for c in later if self._is_read_aligned(c)}
        return {
            pool: above[pool]
            if pool in above
            else zeros(self.rows[pool], self.pools[pool])
            for pool in sorted({*read_pools(self.component), *kept})
        }

    def _zeros_of_weights(self, which: list[int]) -> dict[int, Array]:
        """Zeros for the gradients of some ops' weights, by number."""
        return {
            weight.number: jnp.zeros(weight.shape, jnp.float32)
            for c in which
            for weight in self.component[c].weights
            if not weight.constant
        }

    def _residuals(
        self, residuals: list[Array], lane: Array, width: int
    ) -> list[list[Array]]:
        """Of each op, the results of contractions; zeros where nothing reads them."""
        rest = iter(residuals)
        return [
            [
                cut(next(rest), lane, width) if read else zeros(width, step.shape)
                for read, step in zip(needed(op), contractions(op), strict=True)
            ]
            for op in self.component
        ]

    def source_rows(self, above: dict[int, Array]) -> Array:
        """The gradients of a source's rows, lane by lane."""
        rows = self.bases[0] + jnp.arange(self.lanes)
        return take_if_there(above[self.component[0].pool], rows)


def _add(
    trip: OpTrip,
    leaves: Sequence[Array],
    weights: Sequence[Array],
    back: dict[int, Array],
    weight_gradients: dict[int, Array],
    direct: dict[int, Array],
) -> None:
    """Add a trip's gradients: to the rows that were read, and to those of weights.

    Those of aligned reads go to `direct`, but where these lanes are empty: the others
    may be real.
    """
    op = trip.op
    by_pool: dict[int, list[tuple[Array, Array]]] = {}
    reads = [read for read in op.reads if read.differentiable]
    for read, gradient in zip(reads, leaves, strict=True):
        if read.op is not None:
            add_to(direct, read.op, trip.real(gradient))
            continue
        rows = trip.columns[read.column]
        by_pool.setdefault(read.pool, []).append((rows, gradient))
    for pool, pairs in by_pool.items():
        rows, gradients = zip(*pairs, strict=True)
        if len(set(map(id, gradients))) < len(pairs):
            for indices, gradient in pairs:  # side by side, XLA would compute them anew
                back[pool] = add_rows(back[pool], indices, gradient)
        else:
            joined = jnp.concatenate(rows), jnp.concatenate(gradients)
            back[pool] = add_rows(back[pool], *joined)
    if weights:
        _add_weights(op, weights, weight_gradients)


def _add_weights(
    op: BodyOp, gradients: Sequence[Array], sums: dict[int, Array]
) -> None:
    """Add the gradients of the weights of an op that learn."""
    learned = [weight.number for weight in op.weights if not weight.constant]
    for number, gradient in zip(learned, gradients, strict=True):
        sums[number] = sums[number] + gradient


def _chunk(lanes: int) -> int:
    """How many lanes there are in one product for a weight, of all in a loop."""
    while lanes > WIDE and lanes % 2 == 0:
        lanes //= 2
    return lanes


def add_to(gradients: dict[int, Array], number: int, gradient: Array) -> None:
    """Add to the gradient that is there for a number, or begin with this one."""
    known = gradients.get(number)
    gradients[number] = gradient if known is None else known + gradient


def add_rows(pool: Array, rows: Array, values: Array) -> Array:
    """`pool` with values added to some rows, which are within it."""
    return pool.at[rows].add(values, mode="promise_in_bounds")


def residual_shapes_of(program: Program, number: int) -> list[tuple[int, ...]]:
    """The shapes of the arrays for a component's residuals."""
    lanes = program.lanes[number]
    body = program.code.components[number]
    return [(lanes, *shape) for op in body for shape in residual_shapes(op)]
