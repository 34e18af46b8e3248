"""A component's loop over its trips: what lies where, and its way forward."""

from functools import cached_property
from itertools import compress
from typing import Any

from dynetjax.core.dims import Shape
from dynetjax.core.lazy import jnp, lax
from dynetjax.core.registry import INPUT, LOOKUP
from dynetjax.engine.plan.code import BodyOp, Component
from dynetjax.engine.plan.program import Program, written
from dynetjax.engine.xla.body import OpTrip, contractions, needed, residual_shapes
from dynetjax.engine.xla.slices import cut, entry, put, take_if_there

Array = Any


def zeros(rows: int, shape: tuple[int, ...]) -> Array:
    """Rows of zeros."""
    return jnp.zeros((rows, *shape), jnp.float32)


def is_source(component: Component) -> bool:
    """Whether it reads no rows of pools: a table's, or what is given."""
    return component[0].form in (LOOKUP, INPUT)


class Loop:
    """The loop of one component, while it is traced.

    Its ops are counted by twins, which run together: the lanes of each, in turn.

    Args:
        weights: the program's, one array each.
        indices: the index buffer.

    Attributes:
        twins: of each op, the body ops that it stands for.
        ops: the first of these.
        place: of each body op, the op that stands for it.
        rows, pools: how many rows each pool has, and their shape.
    """

    def __init__(
        self, program: Program, number: int, weights: list[Array], indices: Array
    ):
        self.component: Component = program.code.components[number]
        self.twins: tuple[tuple[int, ...], ...] = program.code.twins[number]
        self.ops: list[BodyOp] = [self.component[twins[0]] for twins in self.twins]
        self.place: dict[int, int] = {
            c: k for k, twins in enumerate(self.twins) for c in twins
        }
        self.width: int = program.widths[number]
        self.lanes: int = program.lanes[number]
        self.is_loop: bool = program.code.loops[number]
        self.rows: tuple[int, ...] = program.rows
        self.pools: tuple[Shape, ...] = program.code.pools
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
        each = [[weights[w.number] for w in op.weights] for op in self.each(k)]
        return each[0] if len(each) == 1 else [*map(jnp.stack, zip(*each, strict=True))]

    def each(self, k: int) -> list[BodyOp]:
        """An op, and its twins."""
        return [self.component[c] for c in self.twins[k]]

    def op_trips(self, lane: Array, width: int, given: Array = None) -> list[OpTrip]:
        """Each op in the trip, of so many lanes, that begins at one."""
        columns = [cut(self._indices, at + lane, width) for at in self._columns]
        rows = None if given is None else cut(given, lane, width)
        trips = []
        for k, op in enumerate(self.ops):
            own: Any = columns
            each = self.each(k)
            if len(each) > 1:
                numbers = zip(*[op.columns for op in each], strict=True)
                own = {
                    of[0]: jnp.concatenate([columns[n] for n in of]) for of in numbers
                }
            made = OpTrip(op, len(each) * width, own, self._weights[k], rows, len(each))
            trips.append(made)
        return trips

    def put(self, pool: Array, k: int, rows: Array, lane: Array) -> Array:
        """A pool with the rows of an op from a lane on replaced."""
        twins = self.twins[k]
        for c, part in zip(twins, _apart(rows, len(twins)), strict=True):
            pool = put(pool, part, self._bases[c] + lane)
        return pool

    def cut(self, pool: Array, k: int, lane: Array) -> Array:
        """The rows of an op in the trip that begins at a lane."""
        firsts = [self._bases[c] + lane for c in self.twins[k]]
        return _joined([cut(pool, first, self.width) for first in firsts])

    def places(self, k: int, lane: Array, width: int) -> Array:
        """The rows of an op from a lane on; those that a pool has not are others."""
        most = self.rows[self.ops[k].pool] - 1
        firsts = [self._bases[c] + lane for c in self.twins[k]]
        return _joined(
            [jnp.clip(first + jnp.arange(width), 0, most) for first in firsts]
        )

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

            def aligned(c: int) -> Array:
                return rows[self.place[c]]

            for k, trip in enumerate(self.op_trips(lane, self.width, given)):
                row, made = trip.run(trip.leaves(still | own, aligned))
                own[trip.op.pool] = self.put(own[trip.op.pool], k, row, lane)
                rows.append(row)
                if keeping:
                    self._keep(filled, k, made, lane)
            return own, filled

        own, residuals = lax.fori_loop(0, self.trips, step, (start, residuals))
        merged = still | own
        return [merged[pool] for pool in range(len(pools))], residuals

    def _keep(self, filled: list[Array], k: int, made: list[Array], lane: Array):
        """Put the residuals of an op's trip into their arrays."""
        results = compress(made, needed(self.ops[k]))
        for places, z in zip(self._residual_places[k], results, strict=True):
            for at, part in zip(places, _apart(z, len(places)), strict=True):
                filled[at] = put(filled[at], part, lane)

    @cached_property
    def _residual_places(self) -> list[list[tuple[int, ...]]]:
        """For each residual of each op, which arrays have it; of twins, one each."""
        counts = [sum(needed(op)) for op in self.component]
        starts = [sum(counts[:c]) for c in range(len(counts))]
        return [
            [tuple([starts[c] + n for c in twins]) for n in range(counts[twins[0]])]
            for twins in self.twins
        ]

    def residuals(
        self, arrays: list[Array], lane: Array, width: int
    ) -> list[list[Array]]:
        """Of each op, the results of contractions; zeros where nothing reads them."""
        found = []
        for k, op in enumerate(self.ops):
            places, rows = iter(self._residual_places[k]), len(self.twins[k]) * width
            found.append(
                [
                    _joined([cut(arrays[at], lane, width) for at in next(places)])
                    if read
                    else zeros(rows, step.shape)
                    for read, step in zip(needed(op), contractions(op), strict=True)
                ]
            )
        return found

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


def residual_shapes_of(program: Program, number: int) -> list[tuple[int, ...]]:
    """The shapes of the arrays for a component's residuals."""
    lanes = program.lanes[number]
    body = program.code.components[number]
    return [(lanes, *shape) for op in body for shape in residual_shapes(op)]
