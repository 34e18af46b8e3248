"""What one trip of a component computes: its cells on a chunk of lanes.

The same function serves forward, where contractions are computed and their results
handed out to be kept, and backward, where the kept results stand in for them.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import compress, count, pairwise
from typing import Any

from dynetjax.dims import Shape
from dynetjax.engine.body import Body, Cell, CellStep
from dynetjax.engine.slices import take
from dynetjax.lazy import at_first_call, jax, jax_core, jnp, lax
from dynetjax.ops.registry import LOOKUP, MAP, Scaled
from dynetjax.tables import remembers

Array = Any

FEW = 4  # rows
ADDING = ("add", "affine_transform")  # operations that add up their operands


def contractions(body: Body) -> list[tuple[int, CellStep]]:
    """The steps whose results are kept, with the index of their cell, in order."""
    return [
        (c, step)
        for c, cell in enumerate(body.cells)
        for step in cell.steps
        if step.op.contraction
    ]


def weights(body: Body, step: CellStep) -> list[int]:
    """The uniforms among a step's operands that take a gradient."""
    return [
        n for what, n in step.operands if what == "uniform" and not body.uniforms[n][1]
    ]


def weighted(body: Body) -> list[bool]:
    """For each contraction, whether it has weights that take a gradient."""
    return [bool(weights(body, step)) for _, step in contractions(body)]


def cheap(body: Body) -> list[tuple[int, int]]:
    """The uniforms whose gradients are taken lane by lane, as (cell, uniform)."""
    found = {
        (c, n)
        for c, cell in enumerate(body.cells)
        for step in cell.steps
        if not step.op.contraction
        for n in weights(body, step)
    }
    return sorted(found - added(body).keys())


@remembers
def added(body: Body) -> dict[tuple[int, int], list[int]]:
    """The uniforms that a cell only adds to contractions, as (cell, uniform).

    With the numbers of those contractions: their cotangents are the uniform's too.
    """
    found: dict[tuple[int, int], list[int | None]] = {}
    numbers = count()
    for c, cell in enumerate(body.cells):
        known: dict[int | None, int] = {
            j: next(numbers) for j, step in enumerate(cell.steps) if step.op.contraction
        }
        for step in cell.steps:
            if not step.op.contraction:
                for n in weights(body, step):
                    other = _added_to(body, cell, step, n)
                    found.setdefault((c, n), []).append(known.get(other))
    return {
        key: [k for k in others if k is not None]
        for key, others in found.items()
        if None not in others
    }


def _added_to(body: Body, cell: Cell, step: CellStep, n: int) -> int | None:
    """The step that computes a weighted contraction of its cell, to which `step` adds.

    It has one user, like all steps.
    """
    if step.op.name not in ADDING or body.uniforms[n][0] != step.shape:
        return None
    for what, j in step.operands:
        other = cell.steps[j] if what == "step" else step
        if other.op.contraction and other.shape == step.shape and weights(body, other):
            return j
    return None


@remembers
def alike(body: Body) -> tuple[int, ...]:
    """For each contraction, the first with weights that has the same cotangents.

    Those do that are added up, in one cell. Without weights, it is just its own number.
    """
    found: list[int] = []
    first: dict[tuple[int, int], int] = {}
    for c, cell in enumerate(body.cells):
        users = {
            j: k
            for k, step in enumerate(cell.steps)
            for what, j in step.operands
            if what == "step"
        }
        for j, step in enumerate(cell.steps):
            if step.op.contraction:
                number = len(found)
                if weights(body, step):
                    total = c, _total(cell, users, j)
                    number = first.setdefault(total, number)
                found.append(number)
    return tuple(found)


def _total(cell: Cell, users: dict[int, int], j: int) -> int:
    """The step that is the sum of `j` and others; `j` if nothing is added to it."""
    while j in users:
        user = cell.steps[users[j]]
        if user.op.name not in ADDING or user.shape != cell.steps[j].shape:
            break
        j = users[j]
    return j


def is_range(step: CellStep) -> bool:
    """Whether a step takes a range along the first axis of a value with lanes."""
    return (
        step.op.name == "pick_range"
        and step.static[2] == 0
        and step.operands[0][0] != "uniform"
    )


def range_source(c: int, cell: Cell, operand: tuple[str, int]) -> tuple:
    """The value that a range is taken of."""
    what, n = operand
    if what == "leaf" and cell.reads[n].register is not None:
        return "row", cell.reads[n].register
    return what, c, n


@remembers
def cuts(body: Body) -> dict[tuple, list[int]]:
    """Where values are cut for the ranges that are taken of them."""
    found: dict[tuple, set[int]] = {}
    for c, cell in enumerate(body.cells):
        for step in filter(is_range, cell.steps):
            (what, n) = step.operands[0]
            if what == "leaf":
                shape = body.pools[cell.reads[n].pool]
            else:
                shape = cell.steps[n].shape
            source = range_source(c, cell, (what, n))
            found.setdefault(source, {0, shape[0]}).update(step.static[:2])
    return {source: sorted(bounds) for source, bounds in found.items()}


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
        tiled = {(c, n): jnp.stack([uniforms[n]] * width) for c, n in cheap(body)}
        return trip.pull(leaves, {}, tiled, kept, stored)(stored)

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
        tiled: dict[tuple[int, int], Array] | None = None,
        stored: Sequence[Array] | None = None,
    ) -> tuple[list[Array], list[Array]]:
        """The cells' rows, with zeros on empty lanes, and the contractions' results.

        Args:
            leaves: what `leaves` returned.
            kept: the contractions' results, if they are known.
            tiled: uniforms with a lane axis, to take gradients lane by lane, by
                (cell, uniform).
            stored: the cells' rows, if they are known.
        """
        outs: list[Array] = []
        made: list[Array] = []
        self.pieces: dict[tuple, dict[int, Array]] = {}
        for c, cell in enumerate(self.body.cells):
            if cell.form == MAP:
                row = None if stored is None else stored[c]
                out = self._cell(c, cell, outs, leaves, kept, tiled or {}, made, row)
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
            out = jnp.where(self.valid(cell, out.ndim), out, 0)
            outs.append(out if stored is None else instead(stored[c], out))
        return outs, made

    def pull(self, moving, still, tiled, kept, stored) -> Callable:
        """Cotangents of the cells' rows to those of (`moving` leaves, tiled, kept)."""

        def rows(moving, tiled, kept):
            return self.run(still | moving, kept, tiled, stored)[0]

        return jax.vjp(rows, moving, tiled, kept)[1]

    def _cell(self, c: int, cell: Cell, outs, leaves, kept, tiled, made, row) -> Array:
        """The row of a cell; if it is known beforehand, `row` is it."""
        values: list[Array] = []
        for step in cell.steps:
            if is_range(step):
                values.append(self._range(c, cell, step, values, outs, leaves))
                continue
            lanes, fixed, spread = [], [], []
            for what, n in step.operands:
                apart = what == "uniform" and (
                    step.op.contraction or (c, n) not in tiled
                )
                spread.append(apart)
                if apart:
                    fixed.append(self.uniforms[n])
                elif what == "uniform":
                    lanes.append(tiled[c, n])
                elif what == "step":
                    lanes.append(values[n])
                else:
                    lanes.append(self._leaf(c, cell, n, outs, leaves))
            fn = lane_function(step, spread, fixed, self.width)
            lanes += self.runtime(step)
            if not step.op.contraction:
                last = len(values) == len(cell.steps) - 1 and len(lanes) == 1
                if last and row is not None and step.op.slope is not None:
                    fn = partial(by_slope(step.op.slope), row)
                values.append(fn(*lanes))
                continue
            known = None if kept is None else kept[len(made)]
            made.append(fn(*lanes) if known is None else keep(fn)(known, *lanes))
            values.append(made[-1])
        return values[-1]

    def _leaf(self, c: int, cell: Cell, k: int, outs, leaves) -> Array:
        register = cell.reads[k].register
        if register is None:
            return leaves[c, k]
        # Lanes that are real there but not here must take no gradient from here.
        rows = outs[register]
        return jnp.where(self.valid(cell, rows.ndim), rows, 0)

    def _range(self, c: int, cell: Cell, step: CellStep, values, outs, leaves) -> Array:
        """A range of a value that is cut once for all that read a range of it.

        Backward then joins the gradients of the pieces; ranges taken one by one would
        each be padded to the whole, and added.
        """
        (operand,) = step.operands
        source = range_source(c, cell, operand)
        start, end, _ = step.static
        if source not in self.pieces:
            what, n = operand
            if what == "step":
                value = values[n]
            elif source[0] == "row":
                value = outs[source[1]]
            else:
                value = leaves[c, n]
            bounds = cuts(self.body)[source]
            sizes = [b - a for a, b in pairwise(bounds)]
            parts = lax.split(value, sizes, axis=1)
            self.pieces[source] = dict(zip(bounds, parts, strict=False))
        found = [p for at, p in self.pieces[source].items() if start <= at < end]
        part = jnp.concatenate(found, axis=1)
        if source[0] == "row":
            part = jnp.where(self.valid(cell, part.ndim), part, 0)
        return part

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
    step: CellStep, spread: Sequence[bool], fixed: Sequence[Array], width: int
) -> Callable[..., Array]:
    """A step's function of values with a lane axis; `fixed` operands have none."""
    fn = step.op.bind(step.static)

    def one(fixed: Sequence[Array], *lanes: Array) -> Array:
        rest, uniform = iter(lanes), iter(fixed)
        operands = [next(uniform) if s else next(rest) for s in spread]
        return fn(*operands, *rest)

    def every(*lanes: Array) -> Array:
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


def by_slope(slope: Callable[[Array], Array]) -> Callable[[Array, Array], Array]:
    """``(known, operand) -> known``; the operand's gradient follows from `known`."""

    @jax.custom_vjp
    def result(known: Array, operand: Array) -> Array:
        return known

    def backward(known, cotangent):
        return jnp.zeros_like(known), cotangent * jax.vmap(slope)(known)

    result.defvjp(lambda known, operand: (known, known), backward)
    return result


def keep(fn: Callable[..., Array]) -> Callable[..., Array]:
    """`fn` with its result known beforehand; gradients go to it and through `fn`."""

    @jax.custom_vjp
    def known(result: Array, *lanes: Array) -> Array:
        return result

    def forward(result: Array, *lanes: Array):
        return result, lanes

    def backward(lanes, cotangent):
        _, pull = jax.vjp(fn, *lanes)
        return cotangent, *pull(cotangent)

    known.defvjp(forward, backward)
    return known
