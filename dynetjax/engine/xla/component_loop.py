"""A component's loop over its trips, forward and back."""

from collections.abc import Sequence
from itertools import compress
from typing import Any

from dynetjax.core.dims import Shape
from dynetjax.core.lazy import jnp, lax
from dynetjax.core.registry import INPUT, LOOKUP
from dynetjax.engine.plan.code import BodyOp, Component
from dynetjax.engine.plan.program import Program, written
from dynetjax.engine.xla.body import OpTrip, contractions, needed, residual_shapes
from dynetjax.engine.xla.slices import cut, entry, put, take, take_if_there

Array = Any


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

    def _op_trips(self, lane: Array, given: Array) -> list[OpTrip]:
        """Each op in the trip that begins at a lane."""
        width = self.width
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
            trips = self._op_trips(lane, given)
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
        self, pools: list[Array], residuals: list[Array], above: dict[int, Array]
    ) -> dict[int, Array]:
        """Add gradients to pools that are read, and return those of weights.

        Args:
            pools: the values.
            residuals: those of all lanes.
            above: gradients of pools, as far as there are any; changed.
        """
        begun = self._pool_gradients(above)
        still = {pool: array for pool, array in above.items() if pool not in begun}
        values = dict(enumerate(pools))

        def step(k, state):
            back, weight_gradients = dict(state[0]), dict(state[1])
            lane = (self.trips - 1 - k) * self.width
            trips = self._op_trips(lane, None)
            chunks = self._residuals(residuals, lane)
            direct: dict[int, Array] = {}  # gradients of this trip's rows, by op

            def rows(c: int) -> Array:
                pool = values[self.component[c].pool]
                return cut(pool, self.bases[c] + lane, self.width)

            for c in reversed(range(len(trips))):
                trip, gradients = trips[c], still | back
                if trip.op.pool in gradients:
                    first = self.bases[c] + lane
                    add_to(direct, c, self._of_rows(gradients[trip.op.pool], first))
                if c in direct:
                    pull = trip.pull(trip.leaves(values, rows), chunks[c])
                    leaves, weights = pull(direct[c])
                    _add(trip, leaves, weights, back, weight_gradients, direct)
            return back, weight_gradients

        start = begun, self._weight_gradients()
        back, weight_gradients = lax.fori_loop(0, self.trips, step, start)
        above.update(back)
        return weight_gradients

    def _pool_gradients(self, above: dict[int, Array]) -> dict[int, Array]:
        """Gradients of pools that the loop adds to; zeros where `above` has none."""
        return {
            pool: above[pool]
            if pool in above
            else zeros(self.rows[pool], self.pools[pool])
            for pool in read_pools(self.component)
        }

    def _weight_gradients(self) -> dict[int, Array]:
        """Zeros for those of its weights, by number."""
        return {
            weight.number: jnp.zeros(weight.shape, jnp.float32)
            for op in self.component
            for weight in op.weights
            if not weight.constant
        }

    def _residuals(self, residuals: list[Array], lane: Array) -> list[list[Array]]:
        """Of each op, the results of contractions; zeros where nothing reads them."""
        rest = iter(residuals)
        return [
            [
                cut(next(rest), lane, self.width)
                if read
                else zeros(self.width, step.shape)
                for read, step in zip(needed(op), contractions(op), strict=True)
            ]
            for op in self.component
        ]

    def _of_rows(self, gradients: Array, first: Array) -> Array:
        """The gradients of some consecutive rows.

        A gather, not a slice: XLA computes a gather once, but fuses a slice into each
        reader, some of them not above what is written next, and then copies the array.
        """
        return take(gradients, first + jnp.arange(self.width))

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
    learned = [weight.number for weight in op.weights if not weight.constant]
    for number, gradient in zip(learned, weights, strict=True):
        weight_gradients[number] = weight_gradients[number] + gradient


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
