"""The way back through a component's loop: trips in reverse, then its weights."""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from dynetjax.core.lazy import jax, jnp, lax
from dynetjax.engine.xla.body import OpTrip
from dynetjax.engine.xla.component_loop import Loop, zeros
from dynetjax.engine.xla.slices import take

Array = Any
ByNumber = dict[int, Array]

WIDE, TRIPS = 512, 8  # lanes of a product for the gradient of a weight, after a loop,
# at least, unless there are fewer; and of how many trips


class LoopBack:
    """The way back through one loop, while it is traced.

    Args:
        pools: the values.
        residuals: those of all lanes.
        above: gradients of pools, as far as there are any; changed by `run`.
        root: the pool where the way back began.
    """

    def __init__(
        self,
        loop: Loop,
        pools: list[Array],
        residuals: list[Array],
        above: ByNumber,
        root: int,
    ):
        self.loop = loop
        self._values: ByNumber = dict(enumerate(pools))
        self._residuals, self._above = residuals, above
        self._chunk = _chunk(loop.lanes, loop.width)
        self._later = self._learned_later()
        self._begun = self._written()
        self._still = {n: g for n, g in above.items() if n not in self._begun}
        there = self._still | self._begun
        self._pooled = [
            (op.pooled or op.pool == root) and op.pool in there for op in loop.ops
        ]
        # whose cotangents a trip gets from the one before
        self._early = [
            k
            for k, op in enumerate(loop.ops)
            if self._pooled[k] and not op.late and op.pool in self._begun
        ]

    def run(self) -> ByNumber:
        """Add gradients to the pools that are read, and return those of weights."""
        loop = self.loop
        last = (loop.trips - 1) * loop.width
        now = [k for k in range(len(loop.ops)) if k not in self._later]
        start = self._begun, self._no_gradients(now), self._gathered(self._begun, last)
        back, weights, _ = lax.fori_loop(0, loop.trips, self._trip, start)
        self._above.update(back)
        for number, gradient in self._of_later().items():
            add_to(weights, number, gradient)
        return weights

    def _learned_later(self) -> list[int]:
        """The ops of a loop whose weights get their gradients after it.

        Of all lanes they are a few wide products. Until then the pools keep the
        gradients of the rows.
        """
        if not self.loop.is_loop or self._chunk < self.loop.width:
            return []
        return [
            k
            for k, op in enumerate(self.loop.ops)
            if op.differentiable and any(not weight.constant for weight in op.weights)
        ]

    def _written(self) -> ByNumber:
        """Gradients of the pools that the loop writes; zeros where there are none."""
        loop, ops = self.loop, self.loop.ops
        reads = [read for op in loop.component for read in op.reads]
        pools = {r.pool for r in reads if r.differentiable and r.op is None}
        pools |= {ops[k].pool for k in self._later if self._is_read_aligned(k)}
        return {
            pool: self._above[pool]
            if pool in self._above
            else zeros(loop.rows[pool], loop.pools[pool])
            for pool in sorted(pools)
        }

    def _is_read_aligned(self, k: int) -> bool:
        """Whether gradients of an op's rows come from other ops of a trip."""
        reads = [read for op in self.loop.component for read in op.reads]
        twins = self.loop.twins[k]
        return any(read.op in twins and read.differentiable for read in reads)

    def _no_gradients(self, which: list[int]) -> ByNumber:
        """Zeros for the gradients of some ops' weights, by number."""
        return {
            weight.number: jnp.zeros(weight.shape, jnp.float32)
            for k in which
            for op in self.loop.each(k)
            for weight in op.weights
            if not weight.constant
        }

    def _trip(self, n: Array, state: Any) -> tuple[ByNumber, ByNumber, ByNumber]:
        """One trip: gradients of pools and weights, and cotangents for the next."""
        loop = self.loop
        back, sums, direct = map(dict, state)
        lane = (loop.trips - 1 - n) * loop.width
        trips = loop.op_trips(lane, loop.width)
        residuals = loop.residuals(self._residuals, lane, loop.width)

        def aligned(c: int) -> Array:
            k = loop.place[c]
            return loop.cut(self._values[loop.ops[k].pool], k, lane)

        for k in reversed(range(len(trips))):
            self._add_from_pool(direct, back, k, lane)
            if k not in direct:
                continue
            trip, pool = trips[k], loop.ops[k].pool
            pull = trip.pull(trip.leaves(self._values, aligned), residuals[k])
            leaves, weights = pull(direct[k])
            if k not in self._later:
                self._add_weights(sums, k, weights)
            elif self._is_read_aligned(k):
                back[pool] = loop.put(back[pool], k, direct[k], lane)
            self._add_leaves(direct, back, trip, leaves)
        return back, sums, self._gathered(back, lane - loop.width)

    def _add_from_pool(
        self, direct: ByNumber, back: ByNumber, k: int, lane: Array
    ) -> None:
        """Add what an op's rows got through their pool, unless the trip began so."""
        pool = self.loop.ops[k].pool
        if not self._pooled[k] or k in self._early:
            return
        if pool in self._still:
            add_to(direct, k, self.loop.cut(self._still[pool], k, lane))
        else:
            places = self.loop.places(k, lane, self.loop.width)
            add_to(direct, k, take(back[pool], places))

    def _gathered(self, gradients: ByNumber, lane: Array) -> ByNumber:
        """The cotangents that the trip from a lane on begins with.

        If a trip took them itself, some of what reads them would run after it adds to
        the pool, and XLA would copy the pool.
        """
        loop = self.loop
        found: ByNumber = {}
        for pool in {loop.ops[k].pool for k in self._early}:
            ops = [k for k in self._early if loop.ops[k].pool == pool]
            places = [loop.places(k, lane, loop.width) for k in ops]
            ends = list(accumulate(map(len, places)))
            taken = take(gradients[pool], jnp.concatenate(places))
            found |= zip(ops, jnp.split(taken, ends[:-1]), strict=True)
        return found

    def _of_later(self) -> ByNumber:
        """Gradients of the weights that get them after the loop."""
        loop, width = self.loop, self._chunk
        later = [k for k in self._later if loop.ops[k].pool in self._above]
        chunks = (loop.trips * loop.width + width - 1) // width

        def step(n, state):
            sums, lane = dict(state), n * width
            trips = loop.op_trips(lane, width)
            residuals = loop.residuals(self._residuals, lane, width)
            for k in later:
                trip = trips[k]

                def aligned(c: int, trip: OpTrip = trip) -> Array:
                    of = loop.place[c]
                    places = loop.places(of, lane, width)
                    return trip.real(take(self._values[loop.ops[of].pool], places))

                places = loop.places(k, lane, width)
                cotangents = take(self._above[trip.op.pool], places)
                leaves = trip.leaves(self._values, aligned)
                _, weights = trip.pull(leaves, residuals[k])(cotangents)
                self._add_weights(sums, k, weights)
            return sums

        if not later:
            return {}
        with jax.named_scope(f"chunks_of_{width // loop.width}_trips"):
            return lax.fori_loop(0, chunks, step, self._no_gradients(later))

    def _add_weights(self, sums: ByNumber, k: int, gradients: Sequence[Array]) -> None:
        """Add the gradients of the weights of an op that learn."""
        each = self.loop.each(k)
        for n, op in enumerate(each):
            learned = [weight.number for weight in op.weights if not weight.constant]
            for number, gradient in zip(learned, gradients, strict=True):
                sums[number] += gradient if len(each) == 1 else gradient[n]

    def _add_leaves(
        self, direct: ByNumber, back: ByNumber, trip: OpTrip, leaves: Sequence[Array]
    ) -> None:
        """Add the gradients that an op gives to the rows that it read.

        Those of aligned reads go to `direct`, but where these lanes are empty: the
        others may be real.
        """
        by_pool: dict[int, list[tuple[Array, Array]]] = {}
        reads = [read for read in trip.op.reads if read.differentiable]
        for read, gradient in zip(reads, leaves, strict=True):
            if read.op is not None:
                add_to(direct, self.loop.place[read.op], trip.real(gradient))
                continue
            rows = trip.columns[read.column]
            by_pool.setdefault(read.pool, []).append((rows, gradient))
        for pool, pairs in by_pool.items():
            back[pool] = _with_rows(back[pool], *zip(*pairs, strict=True))


def _with_rows(pool: Array, rows: Sequence[Array], gradients: Sequence[Array]) -> Array:
    """A pool with the gradients of several reads added to their rows."""
    different, count = len(set(map(id, gradients))), len(gradients)
    if different == 1 and count > 2:  # a sum of rows
        one = gradients[0]
        each = jnp.broadcast_to(one, (count, *one.shape)).reshape(-1, *one.shape[1:])
        return add_rows(pool, jnp.concatenate(rows), each)
    if different < count:  # side by side, XLA would compute them anew
        for places, gradient in zip(rows, gradients, strict=True):
            pool = add_rows(pool, places, gradient)
        return pool
    return add_rows(pool, jnp.concatenate(rows), jnp.concatenate(gradients))


def _chunk(lanes: int, width: int) -> int:
    """How many lanes there are in one product for a weight, of all in a loop."""
    while lanes >= 2 * max(WIDE, TRIPS * width) and lanes % 2 == 0:
        lanes //= 2
    return lanes


def add_to(gradients: ByNumber, number: int, gradient: Array) -> None:
    """Add to the gradient that is there for a number, or begin with this one."""
    known = gradients.get(number)
    gradients[number] = gradient if known is None else known + gradient


def add_rows(pool: Array, rows: Array, values: Array) -> Array:
    """`pool` with values added to some rows, which are within it."""
    return pool.at[rows].add(values, mode="promise_in_bounds")
