"""What one trip of a component computes: its cells on a chunk of lanes.

The same function serves forward, where contractions are computed and their results
handed out to be kept, and backward, where the kept results stand in for them.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import compress
from typing import Any

from dynetjax.dims import Shape
from dynetjax.engine.body import Body, Cell, CellStep
from dynetjax.engine.slices import take
from dynetjax.lazy import at_first_call, jax, jax_core, jnp, lax
from dynetjax.ops.registry import LOOKUP, MAP, Scaled
from dynetjax.tables import remembers

Array = Any

FEW = 4  # rows


def contractions(body: Body) -> list[tuple[int, CellStep]]:
    """The steps whose results are kept, with the index of their cell, in order."""
    return [
        (c, step)
        for c, cell in enumerate(body.cells)
        for step in cell.steps
        if step.op.contraction
    ]


def learned(body: Body) -> list[int]:
    """The uniforms that take a gradient."""
    return [n for n, (_, constant) in enumerate(body.uniforms) if not constant]


@remembers
def needed(body: Body) -> tuple[bool, ...]:
    """For each contraction, whether backward reads its result.

    It does not where only sums lead from it to its cell's row, which is stored.
    """
    steps = [step for _, step in contractions(body)]
    if not steps:
        return ()
    width = 2

    def rows(shape: Shape) -> "jax.ShapeDtypeStruct":
        return jax.ShapeDtypeStruct((width, *shape), jnp.float32)

    def backward(kept, uniforms, columns, leaves, stored):
        trip = Trip(body, width, columns, uniforms, None)
        return trip.pull(leaves, {}, kept, stored)(stored)

    closed = jax.make_jaxpr(backward)(
        [rows(step.shape) for step in steps],
        [jax.ShapeDtypeStruct(shape, jnp.float32) for shape, _ in body.uniforms],
        jax.ShapeDtypeStruct((body.columns, width), jnp.int32),
        {
            (c, k): rows(body.pools[read.pool])
            for c, cell in enumerate(body.cells)
            for k, read in enumerate(cell.reads)
            if read.column is not None
        },
        [rows(cell.shape) for cell in body.cells],
    )
    wanted = [True] * len(closed.jaxpr.outvars)
    return tuple(_inputs(closed.jaxpr, wanted)[: len(steps)])


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


class Trip:
    """One trip over a chunk of `width` lanes.

    Args:
        body: what to compute.
        width: lanes.
        columns: ``[columns, width]``, the chunk of the tape.
        uniforms: one array each.
        given: rows of an INPUT cell.
    """

    def __init__(
        self,
        body: Body,
        width: int,
        columns: Array,
        uniforms: Sequence[Array],
        given,
    ):
        self.body, self.width, self.columns = body, width, columns
        self.uniforms, self.given = uniforms, given

    def valid(self, cell: Cell, ndim: int) -> Array:
        """Which lanes are real, to broadcast against values with `ndim` axes."""
        mask = self.columns[cell.valid] != 0
        return mask.reshape(self.width, *[1] * (ndim - 1))

    def leaves(self, pools: Mapping[int, Array]) -> dict[tuple[int, int], Array]:
        """Rows that the cells read from pools, by (cell, leaf)."""
        return {
            (c, k): take(pools[read.pool], self.columns[read.column])
            for c, cell in enumerate(self.body.cells)
            for k, read in enumerate(cell.reads)
            if read.column is not None
        }

    def run(
        self,
        leaves: dict[tuple[int, int], Array],
        kept: Sequence[Array] | None = None,
        stored: Sequence[Array] | None = None,
    ) -> tuple[list[Array], list[Array]]:
        """The cells' rows, with zeros on empty lanes, and the contractions' results.

        Args:
            leaves: what `leaves` returned.
            kept: the contractions' results, if they are known.
            stored: the cells' rows, if they are known.
        """
        outs: list[Array] = []
        made: list[Array] = []
        for c, cell in enumerate(self.body.cells):
            if cell.form == MAP:
                out = self._cell(c, cell, outs, leaves, kept, made)
            elif cell.form == LOOKUP:
                assert cell.uniform is not None
                assert cell.column is not None
                table, ids = self.uniforms[cell.uniform], self.columns[cell.column]
                if isinstance(table, Scaled):
                    out = take(table.array, ids) * table.factor
                else:
                    out = take(table, ids)
            else:
                out = self.given
            out = self._real(cell, out)
            outs.append(out if stored is None else instead(stored[c], out))
        return outs, made

    def pull(self, moving, still, kept, stored) -> Callable:
        """Cotangents of the cells' rows to those of `moving` leaves and `learned`."""

        def rows(moving, weights):
            uniforms = [weights.get(n, u) for n, u in enumerate(self.uniforms)]
            trip = Trip(self.body, self.width, self.columns, uniforms, self.given)
            return trip.run(still | moving, kept, stored)[0]

        weights = {n: self.uniforms[n] for n in learned(self.body)}
        return jax.vjp(rows, moving, weights)[1]

    def _real(self, cell: Cell, rows: Array) -> Array:
        """Rows with zeros on empty lanes, from which no gradient goes on.

        It would be 0, but 0 times an infinite slope is NaN.
        """
        return jnp.where(self.valid(cell, rows.ndim), rows, 0)

    def _cell(self, c: int, cell: Cell, outs, leaves, kept, made) -> Array:
        """The row of a cell."""
        values: list[Array] = []
        for step in cell.steps:
            spread = [what == "uniform" for what, _ in step.operands]
            lanes, fixed = [], []
            for k, (what, n) in enumerate(step.operands):
                if what == "step":
                    lanes.append(values[n])
                elif what == "leaf":
                    lanes.append(self._leaf(c, cell, n, outs, leaves))
                elif kept is None or step.op.contraction or self.body.uniforms[n][1]:
                    fixed.append(self.uniforms[n])
                else:  # that learns, lane by lane
                    shape = self.width, *self.body.uniforms[n][0]
                    each = jnp.broadcast_to(self.uniforms[n], shape)
                    lanes.append(self._real(cell, each))
                    spread[k] = False
            fn = lane_function(step, spread, self.width)
            lanes += self.runtime(step)
            if not step.op.contraction:
                values.append(fn(fixed, *lanes))
                continue
            if kept is None:
                made.append(fn(fixed, *lanes))
            else:
                made.append(self._real(cell, keep(fn)(kept[len(made)], fixed, *lanes)))
            values.append(made[-1])
        return values[-1]

    def _leaf(self, c: int, cell: Cell, k: int, outs, leaves) -> Array:
        register = cell.reads[k].register
        if register is None:
            return leaves[c, k]
        # Lanes that are real there but not here must take no gradient from here.
        return self._real(cell, outs[register])

    def runtime(self, step: CellStep) -> list[Array]:
        """The runtime values of a step, one per lane."""
        found, columns = [], iter(step.columns)
        for letter in step.op.runtime:
            bits = self.columns[next(columns)]
            if letter == "f":
                bits = lax.bitcast_convert_type(bits, jnp.float32)
            elif letter == "k":
                pair = jnp.stack([bits, self.columns[next(columns)]], axis=-1)
                bits = lax.bitcast_convert_type(pair, jnp.uint32)
            found.append(bits)
        return found


def lane_function(
    step: CellStep, spread: Sequence[bool], width: int
) -> Callable[..., Array]:
    """A step's function ``(fixed, *lanes)`` of values with a lane axis.

    Operands that are `spread` over all lanes are `fixed`, and have none.
    """
    fn = step.op.bind(step.static)

    def one(fixed: Sequence[Array], *lanes: Array) -> Array:
        rest, uniform = iter(lanes), iter(fixed)
        operands = [next(uniform) if s else next(rest) for s in spread]
        return fn(*operands, *rest)

    def every(fixed: Sequence[Array], *lanes: Array) -> Array:
        if width == 1:  # for XLA, the product with a matrix of one row is a slower one
            return one(fixed, *[x[0] for x in lanes])[None]
        if not lanes:
            result = one(fixed)
            return jnp.broadcast_to(result, (width, *result.shape))
        if has_few_rows(step):
            several = [jnp.broadcast_to(u, (width, *u.shape)) for u in fixed]
            return jax.vmap(one)(several, *lanes)
        return jax.vmap(partial(one, fixed))(*lanes)

    return every


def has_few_rows(step: CellStep) -> bool:
    """Whether a step makes a matrix of few rows, as a product with such a one does.

    XLA would put the matrices of all lanes side by side for one product; to lay them
    out so takes longer than a product for each lane.
    """
    return step.op.contraction and len(step.shape) == 2 and step.shape[0] <= FEW


@at_first_call(lambda f: jax.custom_vjp(f))
def instead(known: Array, computed: Array) -> Array:
    """`known`, which is what `computed` would be; gradients go to `computed`."""
    return known


instead.defvjp(
    lambda known, computed: (known, None),
    lambda _, cotangent: (jnp.zeros_like(cotangent), cotangent),
)


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
