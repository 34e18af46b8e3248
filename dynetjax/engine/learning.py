"""Gradients of the weights of contractions, of many lanes at once.

They follow from what a contraction read and the cotangents of its results. A loop keeps
these and makes one product per chunk of lanes, or makes it in every trip.
"""

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Any

from dynetjax.engine.body import Read
from dynetjax.engine.cells import (
    Trip,
    added,
    alike,
    contractions,
    lane_function,
    weighted,
    weights,
)
from dynetjax.engine.program import Program
from dynetjax.engine.scratch import is_large
from dynetjax.engine.slices import cut, take, take_if_there
from dynetjax.lazy import jax, jnp, lax
from dynetjax.tables import remembers

Array = Any

CHUNKS = 16, 32, 64, 128  # lanes that a weight's gradient takes in at once
LITTLE_WORK, FEW_LANES = 1 << 16, 1024  # products of a lane; and lanes of a program


@remembers
def chunks(program: Program) -> tuple[int, ...]:
    """The lanes in a chunk, the largest last; only the last chunk may be a smaller one.

    Each is traced and compiled, so there are all of them only for large products. With
    many lanes the last chunk matters little; of few, some are added up once more.
    """
    body = program.body
    work = [
        prod(body.uniforms[n][0]) * prod(step.shape[1:])
        for _, step in contractions(body)
        for n in weights(body, step)
    ]
    if max(work, default=0) > LITTLE_WORK:
        return CHUNKS
    return CHUNKS[1:3] if program.lanes <= FEW_LANES else CHUNKS[2:]


def room(program: Program) -> int:
    """Lanes in whole chunks, the last of any size."""
    *smaller, size = chunks(program)
    for fewer in smaller:
        if program.lanes <= fewer:
            return fewer
    return -(-program.lanes // size) * size


def cotangents_kept(program: Program) -> list[bool]:
    """For each contraction, whether its cotangents are kept for weights.

    Those of several that are alike are kept once.
    """
    if program.adds_up:
        return [False] * len(contractions(program.body))
    first = alike(program.body)
    several = enumerate(weighted(program.body))
    return [has_weights and first[k] == k for k, has_weights in several]


class Learning:
    """The gradients of a component's weights, while its backward is traced.

    Attributes:
        learned: the uniforms that are weights of contractions, or only added to them.
        chunks, room: see these functions.
    """

    def __init__(self, program: Program, uniforms, pools, tape, at: int):
        self.program, self.body = program, program.body
        self.uniforms, self.pools = uniforms, pools
        self.columns = partial(program.chunk, tape, at)
        self.contractions = contractions(self.body)
        self.chunks, self.room = chunks(program), room(program)
        several = [n for _, step in self.contractions for n in weights(self.body, step)]
        self.learned = several + [n for _, n in added(self.body)]

    def of_all(self, trips, base, wide) -> dict[int, Array]:
        """Gradients of the weights of contractions, from all lanes at once.

        The last chunk comes first, and is as small as its lanes allow: most graphs have
        no more than that, and pay neither for empty lanes nor for a sum.
        """
        if all(w is None for w in wide):
            return {}
        count, chunk = trips * self.program.width, self.chunks[-1]
        whole = jnp.maximum(count - 1, 0) // chunk
        rest = count - whole * chunk

        def part(i, size: int, last: bool = True):
            at = i * chunk
            lanes = at + jnp.arange(size)
            real = lanes < count if last else None
            cotangents = [
                w if w is None else _cotangents(w, at, size, real) for w in wide
            ]
            return self.of_lanes(base, cotangents, self.columns(at, size), lanes, real)

        def add(i, total):
            found = part(i, chunk, last=False)
            return {n: total[n] + g for n, g in found.items()}

        several = self.learned
        sizes = [n for n in self.chunks if n <= self.room]
        total = lax.switch(
            sum(jnp.int32(rest > n) for n in (0, *sizes[:-1])),
            [lambda: {n: jnp.zeros(self.body.uniforms[n][0]) for n in several}]
            + [partial(part, whole, n) for n in sizes],
        )
        if self.room <= chunk:
            return total  # a loop's only chunk would be made whether it runs or not
        return lax.fori_loop(0, whole, add, total)

    def of_lanes(
        self, base, cotangents, columns: Sequence[Array], lanes: Array, real
    ) -> dict[int, Array]:
        """Gradients of the weights from `lanes`, by number, whose columns these are."""
        found: list[tuple[int, Array]] = []
        sums: dict[int, Array] = {}
        first = alike(self.body)
        for k, (c, step) in enumerate(self.contractions):
            d = cotangents[first[k]]
            if d is None:
                continue
            found += self._weight(c, step, columns, base, lanes, d, real)
            if first[k] == k:
                ones = jnp.ones(len(lanes))
                sums[k] = jnp.tensordot(ones, d, 1)  # faster than jnp.sum
        biases = added(self.body).items()
        found += [(n, sums[first[k]]) for (_, n), ks in biases for k in ks]
        total: dict[int, Array] = {}
        for n, g in found:
            total[n] = total[n] + g if n in total else g
        return total

    def _weight(self, c: int, step, columns, base, lanes, d, real):
        """Gradients of a contraction's weights from some lanes."""
        reads = self.body.cells[c].reads
        spread = [what == "uniform" for what, _ in step.operands]
        numbers = [n for what, n in step.operands if what == "uniform"]
        rows = []
        for what, n in step.operands:
            if what == "leaf":
                read = self._operand(reads[n], columns, base, lanes)
                rows.append(only(real, read))
        trip = Trip(self.body, len(d), columns, self.uniforms, None)
        rows += trip.runtime(step)

        def result(uniforms):
            return lane_function(step, spread, uniforms, len(d))(*rows)

        _, pull = jax.vjp(result, [self.uniforms[n] for n in numbers])
        (found,) = pull(d)
        constant = self.body.uniforms
        return [
            (n, g) for n, g in zip(numbers, found, strict=True) if not constant[n][1]
        ]

    def _operand(self, read: Read, columns, base, lanes) -> Array:
        """Rows a contraction read in some lanes."""
        pool = self.pools[read.pool]
        if read.column is not None:
            return take(pool, columns[read.column])
        assert read.register is not None
        return take_if_there(pool, base[read.register] + lanes)


def _cotangents(wide: Array, at: Array, size: int, real: Array | None) -> Array:
    """Those of `size` lanes from `at` on, and zeros behind the real ones.

    A large array was lent, and has there what an earlier run left; others started as
    zeros.
    """
    found = cut(wide, at, size)
    return only(real, found) if is_large(wide.shape) else found


def only(real: Array | None, rows: Array) -> Array:
    """`rows` where they are real; zeros elsewhere."""
    if real is None:
        return rows
    return jnp.where(real.reshape(-1, *[1] * (rows.ndim - 1)), rows, 0)
