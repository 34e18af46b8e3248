"""Gradients of the weights of contractions, of many lanes at once.

They follow from what a contraction read and the cotangents of its results. A loop keeps
these and makes one product per chunk of lanes, or makes it in every trip.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from dynetjax.engine.body import Read
from dynetjax.engine.cells import (
    Trip,
    added,
    contractions,
    lane_function,
    weighted,
    weights,
)
from dynetjax.engine.program import Program
from dynetjax.engine.scratch import is_large
from dynetjax.engine.slices import cut, take, take_if_there

Array = Any

GRADIENT_CHUNK = 128  # lanes a weight's gradient takes in at once
FEW, ROUND = 1024, 512  # rows of a weight whose cotangents are better laid out anew
LAST_CHUNKS = (16, 32, 64, 128)  # and at the end


def room(lanes: int) -> int:
    """Lanes in whole chunks, the last of any size."""
    for size in LAST_CHUNKS:
        if lanes <= size:
            return size
    return -(-lanes // GRADIENT_CHUNK) * GRADIENT_CHUNK


def cotangents_kept(program: Program) -> list[bool]:
    """For each contraction, whether its cotangents are kept for its weights."""
    if program.adds_up:
        return [False] * len(contractions(program.body))
    return weighted(program.body)


class Learning:
    """The gradients of a component's weights, while its backward is traced.

    Attributes:
        learned: the uniforms that are weights of contractions, or only added to them.
    """

    def __init__(self, program: Program, uniforms, pools, tape, at: int):
        self.program, self.body = program, program.body
        self.uniforms, self.pools = uniforms, pools
        self.columns = partial(program.chunk, tape, at)
        self.contractions = contractions(self.body)
        self.room = room(program.lanes)
        several = [n for _, step in self.contractions for n in weights(self.body, step)]
        self.learned = several + [n for _, n in added(self.body)]

    def of_all(self, trips, base, wide) -> dict[int, Array]:
        """Gradients of the weights of contractions, from all lanes at once.

        The last chunk comes first, and is as small as its lanes allow: most graphs have
        no more than that, and pay neither for empty lanes nor for a sum.
        """
        if all(w is None for w in wide):
            return {}
        lanes = trips * self.program.width
        whole = jnp.maximum(lanes - 1, 0) // GRADIENT_CHUNK
        rest = lanes - whole * GRADIENT_CHUNK

        def part(i, size: int, last: bool = True):
            at = i * GRADIENT_CHUNK
            real = at + jnp.arange(size) < lanes if last else None
            cotangents = _cotangents(wide, at, size, real)
            return self.of_lanes(base, cotangents, at, size, real)

        def add(i, total):
            found = part(i, GRADIENT_CHUNK, last=False)
            return {n: total[n] + g for n, g in found.items()}

        several = self.learned
        sizes = [n for n in LAST_CHUNKS if n <= self.room]
        total = lax.switch(
            sum(jnp.int32(rest > n) for n in (0, *sizes[:-1])),
            [lambda: {n: jnp.zeros(self.body.uniforms[n][0]) for n in several}]
            + [partial(part, whole, n) for n in sizes],
        )
        if self.room <= GRADIENT_CHUNK:
            return total  # a loop's only chunk would be made whether it runs or not
        return lax.fori_loop(0, whole, add, total)

    def of_lanes(self, base, cotangents, at, size: int, real) -> dict[int, Array]:
        """Gradients of the weights from `size` lanes, the first of which is `at`."""
        found: list[tuple[int, Array]] = []
        sums: dict[int, Array] = {}
        part = self.columns(at, size)
        several = zip(self.contractions, cotangents, strict=True)
        for k, ((c, step), d) in enumerate(several):
            if d is None:
                continue
            if d.ndim == 2 and (d.shape[1] <= FEW or d.shape[1] % ROUND == 0):
                d = lax.optimization_barrier(d.T).T
            found += self._weight(c, step, part, base, at, d, real)
            sums[k] = jnp.tensordot(jnp.ones(size), d, 1)  # faster than jnp.sum
        found += [(n, sums[k]) for (_, n), ks in added(self.body).items() for k in ks]
        total: dict[int, Array] = {}
        for n, g in found:
            total[n] = total[n] + g if n in total else g
        return total

    def _weight(self, c: int, step, part, base, at, d, real):
        """Gradients of a contraction's weights from one chunk of lanes."""
        reads = self.body.cells[c].reads
        spread = [what == "uniform" for what, _ in step.operands]
        numbers = [n for what, n in step.operands if what == "uniform"]
        lanes = []
        for what, n in step.operands:
            if what == "leaf":
                lanes.append(only(real, self._operand(reads[n], part, base, at)))
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
        rows = base[read.register] + at + jnp.arange(len(part[0]))
        return take_if_there(pool, rows)


def _cotangents(wide, at, size: int, real) -> list[Array | None]:
    """Those of `size` lanes of what was kept; zeros for lanes that are not `real`.

    What lies behind the real ones was never written in this run.
    """
    found: list[Array | None] = []
    for w in wide:
        d = None if w is None else cut(w, at, size)
        found.append(only(real, d) if d is not None and is_large(w.shape) else d)
    return found


def only(real: Array | None, rows: Array) -> Array:
    """`rows` where they are real; zeros elsewhere."""
    if real is None:
        return rows
    return jnp.where(real.reshape(-1, *[1] * (rows.ndim - 1)), rows, 0)
