"""What one trip of a component computes: its cells on a chunk of lanes.

The same function serves forward, where contractions are computed and their results
handed out to be kept, and backward, where the kept results stand in for them.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from dynetjax.engine.body import Body, Cell, CellStep
from dynetjax.ops.registry import LOOKUP, MAP

Array = Any


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
        self, body: Body, width: int, columns: Array, uniforms: Sequence[Array], given
    ):
        self.body, self.width, self.columns = body, width, columns
        self.uniforms, self.given = uniforms, given

    def valid(self, cell: Cell, ndim: int) -> Array:
        """Which lanes are real, to broadcast against values with `ndim` axes."""
        mask = self.columns[cell.valid] != 0
        return mask.reshape(self.width, *[1] * (ndim - 1))

    def leaves(self, pools: Sequence[Array]) -> dict[tuple[int, int], Array]:
        """Rows that the cells read from pools, by (cell, leaf)."""
        gathered: dict[tuple[int, int], Array] = {}
        found = {}
        for c, cell in enumerate(self.body.cells):
            for k, read in enumerate(cell.reads):
                if read.column is None:
                    continue
                key = read.pool, read.column
                if key not in gathered:
                    gathered[key] = take(pools[read.pool], self.columns[read.column])
                found[c, k] = gathered[key]
        return found

    def run(
        self,
        leaves: dict[tuple[int, int], Array],
        kept: Sequence[Array] | None = None,
        tiled: dict[tuple[int, int], Array] | None = None,
    ) -> tuple[list[Array], list[Array]]:
        """The cells' rows, with zeros on empty lanes, and the contractions' results.

        Args:
            leaves: what `leaves` returned.
            kept: the contractions' results, if they are known.
            tiled: uniforms with a lane axis, to take gradients lane by lane, by
                (cell, uniform).
        """
        outs: list[Array] = []
        made: list[Array] = []
        for c, cell in enumerate(self.body.cells):
            if cell.form == MAP:
                out = self._cell(c, cell, outs, leaves, kept, tiled or {}, made)
            elif cell.form == LOOKUP:
                assert cell.uniform is not None
                assert cell.column is not None
                out = take(self.uniforms[cell.uniform], self.columns[cell.column])
            else:
                out = self.given
            outs.append(jnp.where(self.valid(cell, out.ndim), out, 0))
        return outs, made

    def _cell(self, c: int, cell: Cell, outs, leaves, kept, tiled, made) -> Array:
        values: list[Array] = []
        for step in cell.steps:
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


def take(pool: Array, rows: Array) -> Array:
    """Rows of a pool; they are known to be within it."""
    return pool.at[rows].get(mode="promise_in_bounds")


def lane_function(
    step: CellStep, spread: Sequence[bool], fixed: Sequence[Array], width: int
) -> Callable[..., Array]:
    """A step's function of values with a lane axis; `fixed` operands have none."""
    fn = step.op.bind(step.static)

    def one(*lanes: Array) -> Array:
        rest, uniform = iter(lanes), iter(fixed)
        operands = [next(uniform) if s else next(rest) for s in spread]
        return fn(*operands, *rest)

    def every(*lanes: Array) -> Array:
        if lanes:
            return jax.vmap(one)(*lanes)
        result = one()
        return jnp.broadcast_to(result, (width, *result.shape))

    return every


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
