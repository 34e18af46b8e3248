"""A component's loop over its trips, forward and back."""

from collections.abc import Callable, Sequence
from itertools import accumulate, compress
from typing import Any

from dynetjax.core.dims import Shape
from dynetjax.core.lazy import jax, jnp, lax
from dynetjax.core.registry import INPUT, LOOKUP
from dynetjax.engine.plan.code import BodyOp, Component
from dynetjax.engine.plan.program import Program, written
from dynetjax.engine.xla.body import OpTrip, contractions, needed, residual_shapes
from dynetjax.engine.xla.slices import cut, entry, put, take, take_if_there

Array = Any

WIDE, TRIPS = 512, 8  # lanes of a product for the gradient of a weight, after a loop,
# at least, unless there are fewer; and of how many trips


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

    Its ops are counted by twins, which run together: the lanes of each, in turn.

    Args:
        weights: the program's, one array each.
        indices: the index buffer.
    """

    def __init__(
        self, program: Program, number: int, weights: list[Array], indices: Array
    ):
        self.component: Component = program.code.components[number]
        self.twins: tuple[tuple[int, ...], ...] = program.code.twins[number]
        self.ops: list[BodyOp] = [self.component[twins[0]] for twins in self.twins]
        self.width: int = program.widths[number]
        self.lanes: int = program.lanes[number]
        self.is_loop: bool = program.code.loops[number]
        self._chunk = _chunk(self.lanes, self.width)
        self.rows: tuple[int, ...] = program.rows
        self.pools: tuple[Shape, ...] = program.code.pools
        self._place = {c: k for k, twins in enumerate(self.twins) for c in twins}
        self._weights = [self._weights_of(k, weights) for k in range(len(self.ops))]
        count = program.code.columns[number]
        self._columns = [program.address(number, k) for k in range(count)]
        self._indices = indices
        start = program.starts[number]
        heads = [entry(indices, start + k) for k in range(1 + len(self.component))]
        self.trips: Array = heads[0]
        self._bases: list[Array] = heads[1:]

    def _weights_of(self, k: int, weights: list[Array]) -> list[Array]:
        """Those of an op; of twins, stacked."""
        each = [[weights[w.number] for w in op.weights] for op in self._each(k)]
        return each[0] if len(each) == 1 else [*map(jnp.stack, zip(*each, strict=True))]

    def _each(self, k: int) -> list[BodyOp]:
        """An op, and its twins."""
        return [self.component[c] for c in self.twins[k]]

    def _op_trips(self, lane: Array, width: int, given: Array = None) -> list[OpTrip]:
        """Each op in the trip, of so many lanes, that begins at one."""
        columns = [cut(self._indices, at + lane, width) for at in self._columns]
        rows = None if given is None else cut(given, lane, width)
        trips = []
        for k, op in enumerate(self.ops):
            own: Any = columns
            each = self._each(k)
            if len(each) > 1:
                numbers = zip(*[op.columns for op in each], strict=True)
                own = {
                    of[0]: jnp.concatenate([columns[n] for n in of]) for of in numbers
                }
            made = OpTrip(op, len(each) * width, own, self._weights[k], rows, len(each))
            trips.append(made)
        return trips

    def _put(self, pool: Array, k: int, rows: Array, lane: Array) -> Array:
        """A pool with the rows of an op from a lane on replaced."""
        twins = self.twins[k]
        for c, part in zip(twins, _apart(rows, len(twins)), strict=True):
            pool = put(pool, part, self._bases[c] + lane)
        return pool

    def _cut(self, pool: Array, k: int, lane: Array) -> Array:
        """The rows of an op in the trip that begins at a lane."""
        firsts = [self._bases[c] + lane for c in self.twins[k]]
        return _joined([cut(pool, first, self.width) for first in firsts])

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
            own, filled = dict(state[0]), list(state[1])
            lane = t * self.width
            rows: list[Array] = []
            for k, trip in enumerate(self._op_trips(lane, self.width, given)):
                row, made = trip.run(trip.leaves(still | own, self._of(rows)))
                own[trip.op.pool] = self._put(own[trip.op.pool], k, row, lane)
                rows.append(row)
                kept = compress(made, needed(trip.op)) if keeping else ()
                for places, z in zip(self._residual_places(k), kept, strict=keeping):
                    for at, part in zip(places, _apart(z, len(places)), strict=True):
                        filled[at] = put(filled[at], part, lane)
            return own, filled

        own, residuals = lax.fori_loop(0, self.trips, step, (start, residuals))
        merged = still | own
        return [merged[pool] for pool in range(len(pools))], residuals

    def _of(self, rows: list[Array]) -> Callable[[int], Array]:
        """The rows of the same trip that a read of an op takes."""
        return lambda c: rows[self._place[c]]

    def _residual_places(self, k: int) -> list[tuple[int, ...]]:
        """For each residual of an op, which arrays have it; of twins, one each."""
        counts = [sum(needed(op)) for op in self.component]
        starts = [sum(counts[:c]) for c in range(len(counts))]
        twins = self.twins[k]
        return [tuple([starts[c] + n for c in twins]) for n in range(counts[twins[0]])]

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
            for op in self.ops
        ]
        early = [
            k
            for k, op in enumerate(self.ops)
            if pooled[k] and not op.late and op.pool in begun
        ]

        def step(n, state):
            back, weight_gradients, direct = map(dict, state)
            lane = (self.trips - 1 - n) * self.width
            trips = self._op_trips(lane, self.width)
            chunks = self._residuals(residuals, lane, self.width)

            def rows(c: int) -> Array:
                k = self._place[c]
                return self._cut(values[self.ops[k].pool], k, lane)

            for k in reversed(range(len(trips))):
                trip, pool = trips[k], trips[k].op.pool
                if pooled[k] and pool in still:
                    add_to(direct, k, self._cut(still[pool], k, lane))
                elif pooled[k] and k not in early:
                    places = self._places(k, lane, self.width)
                    add_to(direct, k, take(back[pool], places))
                if k not in direct:
                    continue
                pull = trip.pull(trip.leaves(values, rows), chunks[k])
                leaves, weights = pull(direct[k])
                if k not in later:
                    self._add_weights(k, weights, weight_gradients)
                elif self._is_read_aligned(k):
                    back[pool] = self._put(back[pool], k, direct[k], lane)
                self._add(k, trip, leaves, back, direct)
            direct = self._gathered(early, back, lane - self.width)
            return back, weight_gradients, direct

        last = (self.trips - 1) * self.width
        now = [k for k in range(len(self.ops)) if k not in later]
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
        for pool in {self.ops[k].pool for k in which}:
            ops = [k for k in which if self.ops[k].pool == pool]
            places = [self._places(k, lane, self.width) for k in ops]
            ends = list(accumulate(map(len, places)))
            taken = take(gradients[pool], jnp.concatenate(places))
            found |= zip(ops, jnp.split(taken, ends[:-1]), strict=True)
        return found

    def _places(self, k: int, lane: Array, width: int) -> Array:
        """The rows of an op from a lane on; those that a pool has not are others."""
        most = self.rows[self.ops[k].pool] - 1
        firsts = [self._bases[c] + lane for c in self.twins[k]]
        return _joined(
            [jnp.clip(first + jnp.arange(width), 0, most) for first in firsts]
        )

    def _is_read_aligned(self, k: int) -> bool:
        """Whether gradients of an op's rows come from other ops of a trip."""
        reads = [read for op in self.component for read in op.reads]
        return any(read.op in self.twins[k] and read.differentiable for read in reads)

    def _learned_later(self) -> list[int]:
        """The ops of a loop whose weights get their gradients after it.

        Of all lanes they are a few wide products. Until then the pools keep the
        gradients of the rows.
        """
        if not self.is_loop or self._chunk < self.width:
            return []
        return [
            k
            for k, op in enumerate(self.ops)
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
        later = [k for k in later if self.ops[k].pool in above]
        width = self._chunk
        chunks = (self.trips * self.width + width - 1) // width

        def step(n, sums):
            lane, sums = n * width, dict(sums)
            trips = self._op_trips(lane, width)
            made = self._residuals(residuals, lane, width)
            for k in later:

                def rows(c: int, trip: OpTrip = trips[k]) -> Array:
                    of = self._place[c]
                    pool = values[self.ops[of].pool]
                    return trip.real(take(pool, self._places(of, lane, width)))

                op, leaves = trips[k].op, trips[k].leaves(values, rows)
                cotangents = take(above[op.pool], self._places(k, lane, width))
                _, weights = trips[k].pull(leaves, made[k])(cotangents)
                self._add_weights(k, weights, sums)
            return sums

        if not later:
            return {}
        with jax.named_scope(f"chunks_of_{width // self.width}_trips"):
            return lax.fori_loop(0, chunks, step, self._zeros_of_weights(later))

    def _pool_gradients(
        self, above: dict[int, Array], later: list[int]
    ) -> dict[int, Array]:
        """Gradients of pools that the loop writes; zeros where `above` has none."""
        kept = {self.ops[k].pool for k in later if self._is_read_aligned(k)}
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
            for k in which
            for op in self._each(k)
            for weight in op.weights
            if not weight.constant
        }

    def _residuals(
        self, residuals: list[Array], lane: Array, width: int
    ) -> list[list[Array]]:
        """Of each op, the results of contractions; zeros where nothing reads them."""
        found = []
        for k, op in enumerate(self.ops):
            places, rows = iter(self._residual_places(k)), len(self.twins[k]) * width
            found.append(
                [
                    _joined([cut(residuals[at], lane, width) for at in next(places)])
                    if read
                    else zeros(rows, step.shape)
                    for read, step in zip(needed(op), contractions(op), strict=True)
                ]
            )
        return found

    def _add(
        self,
        k: int,
        trip: OpTrip,
        leaves: Sequence[Array],
        back: dict[int, Array],
        direct: dict[int, Array],
    ) -> None:
        """Add the gradients that an op gives in a trip to the rows that it read.

        Those of aligned reads go to `direct`, but where these lanes are empty: the
        others may be real.
        """
        by_pool: dict[int, list[tuple[Array, Array]]] = {}
        reads = [read for read in self.ops[k].reads if read.differentiable]
        for read, gradient in zip(reads, leaves, strict=True):
            if read.op is not None:
                add_to(direct, self._place[read.op], trip.real(gradient))
                continue
            rows = trip.columns[read.column]
            by_pool.setdefault(read.pool, []).append((rows, gradient))
        for pool, pairs in by_pool.items():
            rows, gradients = zip(*pairs, strict=True)
            different = len(set(map(id, gradients)))
            if different == 1 and len(pairs) > 2:  # a sum of rows
                each = jnp.broadcast_to(gradients[0], (len(pairs), *gradients[0].shape))
                values = each.reshape(-1, *gradients[0].shape[1:])
                back[pool] = add_rows(back[pool], jnp.concatenate(rows), values)
            elif different < len(pairs):
                # side by side, XLA would compute them anew
                for indices, gradient in pairs:
                    back[pool] = add_rows(back[pool], indices, gradient)
            else:
                joined = jnp.concatenate(rows), jnp.concatenate(gradients)
                back[pool] = add_rows(back[pool], *joined)

    def _add_weights(
        self, k: int, gradients: Sequence[Array], sums: dict[int, Array]
    ) -> None:
        """Add the gradients of the weights of an op that learn."""
        each = self._each(k)
        for n, op in enumerate(each):
            learned = [weight.number for weight in op.weights if not weight.constant]
            for number, gradient in zip(learned, gradients, strict=True):
                sums[number] += gradient if len(each) == 1 else gradient[n]

    def source_rows(self, above: dict[int, Array]) -> Array:
        """The gradients of a source's rows, lane by lane."""
        rows = self._bases[0] + jnp.arange(self.lanes)
        return take_if_there(above[self.component[0].pool], rows)


def _apart(rows: Array, count: int) -> list[Array]:
    """The rows of each of so many twins."""
    return jnp.split(rows, count) if count > 1 else [rows]


def _joined(parts: list[Array]) -> Array:
    """Rows of twins, one after the other."""
    return parts[0] if len(parts) == 1 else jnp.concatenate(parts)


def _chunk(lanes: int, width: int) -> int:
    """How many lanes there are in one product for a weight, of all in a loop."""
    while lanes >= 2 * max(WIDE, TRIPS * width) and lanes % 2 == 0:
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
