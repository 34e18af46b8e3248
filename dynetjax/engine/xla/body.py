"""What one trip of a component computes for one of its ops, on a chunk of lanes.

The same function serves forward, where contractions are computed and their results
handed out as residuals, and backward, where the residuals stand in for them.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import compress
from typing import Any

from dynetjax.core.dims import Shape
from dynetjax.core.lazy import jax, jax_core, jnp, lax
from dynetjax.core.registry import LOOKUP, MAP, Scaled
from dynetjax.core.tables import remembers
from dynetjax.engine.plan.code import BodyOp, BodyStep
from dynetjax.engine.xla.slices import take

Array = Any

FEW = 4  # rows


def contractions(op: BodyOp) -> list[BodyStep]:
    """The steps whose results are residuals."""
    return [step for step in op.steps if step.op.contraction]


@remembers
def needed(op: BodyOp) -> tuple[bool, ...]:
    """For each contraction, whether backward reads its result.

    It does not where only sums lead from it to the op's row.
    """
    steps = contractions(op)
    if not steps:
        return ()
    width = 2

    def rows(shape: Shape) -> "jax.ShapeDtypeStruct":
        return jax.ShapeDtypeStruct((width, *shape), jnp.float32)

    def backward(residuals, weights, columns, leaves, above):
        trip = OpTrip(op, width, columns, weights)
        return trip.pull(leaves, residuals)(above)

    last = max([op.valid, *[c for step in op.steps for c in step.columns]])
    closed = jax.make_jaxpr(backward)(
        [rows(step.shape) for step in steps],
        [jax.ShapeDtypeStruct(u.shape, jnp.float32) for u in op.weights],
        jax.ShapeDtypeStruct((last + 1, width), jnp.int32),
        [rows(read.shape) for read in op.reads],
        rows(op.shape),
    )
    wanted = [True] * len(closed.jaxpr.outvars)
    return tuple(_inputs(closed.jaxpr, wanted)[: len(steps)])


def residual_shapes(op: BodyOp) -> list[Shape]:
    """The shapes of the results of contractions that backward reads."""
    return [step.shape for step in compress(contractions(op), needed(op))]


def _inputs(jaxpr, wanted: list[bool]) -> list[bool]:
    """The inputs that the wanted outputs depend on."""
    live = {v for v in compress(jaxpr.outvars, wanted) if isinstance(v, jax_core.Var)}
    for equation in reversed(jaxpr.eqns):
        used = [v in live for v in equation.outvars]
        if not any(used):
            continue
        read = equation.invars
        if equation.primitive.name == "jit":
            inner = equation.params["jaxpr"].jaxpr
            read = compress(read, _inputs(inner, used))
        live.update(v for v in read if isinstance(v, jax_core.Var))
    return [v in live for v in jaxpr.invars]


class OpTrip:
    """An op in one trip, over a chunk of `width` lanes.

    Twins, which differ by their weights alone, are one op over the lanes of each in
    turn.

    Args:
        columns: of its component, by number, of `width` each.
        weights: the op's, one array each; with twins, one for each of them, stacked.
        given: rows of an INPUT op.
        twins: how many there are.
    """

    def __init__(
        self,
        op: BodyOp,
        width: int,
        columns: Any,
        weights: Sequence[Array],
        given: Array = None,
        twins: int = 1,
    ):
        self.op = op
        self.twins = twins
        self.width = width
        self.columns = columns
        self.weights = weights
        self.given = given

    def leaves(
        self, pools: Mapping[int, Array], aligned: Callable[[int], Array]
    ) -> list[Array]:
        """The rows that it reads from pools; `aligned` gives those of another op."""
        return [
            take(pools[read.pool], self.columns[read.column])
            if read.op is None
            else aligned(read.op)
            for read in self.op.reads
        ]

    def run(
        self, leaves: Sequence[Array], residuals: Sequence[Array] | None = None
    ) -> tuple[Array, list[Array]]:
        """Its rows, with zeros on empty lanes, and the contractions' results.

        Args:
            residuals: the contractions' results, if they are known.
        """
        made: list[Array] = []
        if self.op.form == MAP:
            rows = self._steps(leaves, residuals, made)
        elif self.op.form == LOOKUP:
            assert self.op.rows is not None
            (table,), ids = self.weights, self.columns[self.op.rows]
            if isinstance(table, Scaled):
                rows = take(table.array, ids) * table.factor
            else:
                rows = take(table, ids)
        else:
            rows = self.given
        return self.real(rows), made

    def pull(self, leaves: Sequence[Array], residuals: Sequence[Array]) -> Callable:
        """Cotangents of its rows to those of what takes gradients.

        These are the differentiable leaves, and the weights that are not constant.
        """
        op = self.op
        moving = [read.differentiable for read in op.reads]
        learned = [not weight.constant for weight in op.weights]

        def rows(leaves, weights):
            trip = OpTrip(op, self.width, self.columns, weights, self.given, self.twins)
            return trip.run(leaves, residuals)[0]

        def of_moving(some_leaves, some_weights):
            return rows(
                _instead(leaves, moving, some_leaves),
                _instead(self.weights, learned, some_weights),
            )

        primals = [*compress(leaves, moving)], [*compress(self.weights, learned)]
        return jax.vjp(of_moving, *primals)[1]

    def real(self, rows: Array) -> Array:
        """Rows with zeros on empty lanes, from which no gradient goes on.

        It would be 0, but 0 times an infinite slope is NaN.
        """
        mask = self.columns[self.op.valid] != 0
        return jnp.where(mask.reshape(self.width, *[1] * (rows.ndim - 1)), rows, 0)

    def _steps(self, leaves, residuals, made: list[Array]) -> Array:
        """The result of its last step; those of contractions are added to `made`."""
        values: list[Array] = []
        for step in self.op.steps:
            shared = [role == "weight" for role, _ in step.operands]
            lanes, fixed = [], []
            for k, (role, n) in enumerate(step.operands):
                if role == "step":
                    lanes.append(values[n])
                elif role == "leaf":
                    lanes.append(leaves[n])
                elif (
                    residuals is None
                    or step.op.contraction
                    or self.op.weights[n].constant
                ):
                    fixed.append(self.weights[n])
                else:  # that learns, lane by lane
                    lanes.append(self.real(self._by_lane(n)))
                    shared[k] = False
            fn = lane_function(step, shared, self.width, self.twins)
            lanes += self._runtime(step)
            if not step.op.contraction:
                values.append(fn(fixed, *lanes))
                continue
            if residuals is None:
                made.append(fn(fixed, *lanes))
            else:
                known = keep(fn)(residuals[len(made)], fixed, *lanes)
                made.append(self.real(known))
            values.append(made[-1])
        return values[-1]

    def _by_lane(self, weight: int) -> Array:
        """A weight, once for each lane."""
        array, shape = self.weights[weight], self.op.weights[weight].shape
        if self.twins == 1:
            return jnp.broadcast_to(array, (self.width, *shape))
        each = self.twins, self.width // self.twins
        array = jnp.broadcast_to(jnp.expand_dims(array, 1), (*each, *shape))
        return array.reshape(self.width, *shape)

    def _runtime(self, step: BodyStep) -> list[Array]:
        """The runtime values of a step, one per lane."""
        values, columns = [], iter(step.columns)
        for letter in step.op.runtime:
            bits = self.columns[next(columns)]
            if letter == "f":
                bits = lax.bitcast_convert_type(bits, jnp.float32)
            elif letter == "k":
                pair = jnp.stack([bits, self.columns[next(columns)]], axis=-1)
                bits = lax.bitcast_convert_type(pair, jnp.uint32)
            values.append(bits)
        return values


def _instead(
    arrays: Sequence[Array], which: Sequence[bool], others: Sequence[Array]
) -> list[Array]:
    """Arrays, some of them replaced by others in turn."""
    rest = iter(others)
    return [
        next(rest) if replaced else array
        for array, replaced in zip(arrays, which, strict=True)
    ]


def lane_function(
    step: BodyStep, shared: Sequence[bool], width: int, twins: int = 1
) -> Callable[..., Array]:
    """A step's function ``(fixed, *lanes)`` of values with a lane axis.

    Operands that are `shared` by all lanes are `fixed`, and have none; with twins, they
    have an axis for these.
    """
    if twins > 1 and any(shared):
        return _of_twins(lane_function(step, shared, width // twins), twins)
    fn = step.op.bind(step.static)

    def one(fixed: Sequence[Array], *lanes: Array) -> Array:
        rest, weight = iter(lanes), iter(fixed)
        operands = [next(weight) if s else next(rest) for s in shared]
        return fn(*operands, *rest)

    def every(fixed: Sequence[Array], *lanes: Array) -> Array:
        if width == 1:  # for XLA, the product with a matrix of one row is a slower one
            return one(fixed, *[x[0] for x in lanes])[None]
        if not lanes:
            result = one(fixed)
            return jnp.broadcast_to(result, (width, *result.shape))
        if has_few_rows(step):
            broadcast = [jnp.broadcast_to(u, (width, *u.shape)) for u in fixed]
            return jax.vmap(one)(broadcast, *lanes)
        return jax.vmap(partial(one, fixed))(*lanes)

    return every


def _of_twins(fn: Callable[..., Array], twins: int) -> Callable[..., Array]:
    """A function of fixed operands and lanes, for each of some twins."""

    def every(fixed: Sequence[Array], *lanes: Array) -> Array:
        apart = [x.reshape(twins, -1, *x.shape[1:]) for x in lanes]
        rows = jax.vmap(fn)(fixed, *apart)
        return rows.reshape(-1, *rows.shape[2:])

    return every


def has_few_rows(step: BodyStep) -> bool:
    """Whether a step makes a matrix of few rows, as a product with such a one does.

    XLA would put the matrices of all lanes side by side for one product; to lay them
    out so takes longer than a product for each lane.
    """
    return step.op.contraction and len(step.shape) == 2 and step.shape[0] <= FEW


def keep(fn: Callable[..., Array]) -> Callable[..., Array]:
    """`fn` with its result known beforehand; gradients go to it and through `fn`."""

    @jax.custom_vjp
    def known(result: Array, *operands: Any) -> Array:
        return result

    def forward(result: Array, *operands: Any):
        return result, operands

    def backward(operands, cotangent):
        _, pull = jax.vjp(fn, *operands)
        return cotangent, *pull(cotangent)

    known.defvjp(forward, backward)
    return known
