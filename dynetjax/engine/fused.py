"""Fused programs: all components of a scope in one compiled function per direction.

One call runs them all. Components without nodes in a graph make no trips, so one fused
program serves every graph of the scope and size class.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from itertools import chain, islice
from typing import Any, NamedTuple

import numpy as np

from dynetjax.dims import Shape
from dynetjax.engine.backward import backward_rows, scattered_pools
from dynetjax.engine.body import Wiring
from dynetjax.engine.causes import note_made
from dynetjax.engine.cells import learned, needed
from dynetjax.engine.compiling import Compiled, shape_of
from dynetjax.engine.places import Places
from dynetjax.engine.program import Program, forward_rows
from dynetjax.engine.scratch import Scratch, scratch_for
from dynetjax.lazy import jax, jnp
from dynetjax.ops.registry import INPUT, LOOKUP
from dynetjax.tables import Life, Shared

Array = Any

# A program takes some sixty memory maps, of which Linux grants a process 65,530: past
# that, XLA crashes. So those that were not used for long are dropped.
KEPT = 128  # of each direction


@dataclass(frozen=True)
class Part:
    """A component in a fused program; its pools and uniforms are numbered in it.

    `start` is where its tape begins.
    """

    program: Program
    pools: tuple[int, ...]
    uniforms: tuple[int, ...]
    start: int

    @property
    def given(self) -> bool:
        """Whether its rows are given from outside."""
        return self.program.body.cells[0].form == INPUT


class Whole:
    """Parts of one program.

    Equal ones are one object, for parts are slow to look up.
    """

    def __init__(self, parts: tuple[Part, ...]):
        self.parts = parts
        self.life = Life(self)

    @cached_property
    def keeps(self) -> bool:
        """Whether backward needs results that are not rows anyway."""
        return any(any(needed(part.program.body)) for part in self.parts)


wholes: Shared[tuple[Part, ...], Whole] = Shared(Whole)


def numbered(
    several: Iterable[tuple[Wiring, Program]],
) -> tuple[tuple[Part, ...], list[int], tuple[int, ...], int]:
    """Programs with their wiring as parts of one, its pools and uniforms, and its tape.

    Pools and kind ids stand where the parts' numbers say; of the tape, it is the size.
    """
    pools: dict[int, int] = {}
    uniforms: dict[int, int] = {}
    parts, start = [], 0
    for wires, made in several:
        part = Part(
            made,
            tuple(pools.setdefault(p, len(pools)) for p in wires.pools),
            tuple(uniforms.setdefault(k, len(uniforms)) for k in wires.uniforms),
            start,
        )
        start += made.tape_size
        parts.append(part)
    return tuple(parts), list(pools), tuple(uniforms), start


@dataclass(slots=True)
class Fusion:
    """A scope's components at one size class, and what their numbers stand for.

    Attributes:
        parts: in order.
        pools, uniforms: the scope's pools and the kind ids, by number.
        size: of the tape; `places` says where on it is what.
        whole: `parts` as the one object that stands for them.
        pool_bytes: of the rows of all pools.
    """

    parts: tuple[Part, ...]
    pools: list[int]
    uniforms: tuple[int, ...]
    size: int
    places: Places
    pool_bytes: int
    whole: Whole = field(init=False)

    def __post_init__(self) -> None:
        self.whole = wholes[self.parts]

    def forward(
        self,
        keeping: bool,
        uniforms: list[Array],
        given: list[Array],
        tape: Array,
    ) -> "Pools":
        """Run `fused_forward` of its parts."""
        use = self.whole, keeping and self.whole.keeps
        scratch = scratch_for(use, partial(_written, *use))
        run = fused_forward(*use, self.size)
        args = uniforms, given, tape
        if run.is_new:  # what compiling takes is free again before arrays are made
            shapes = [*map(_of_floats, scratch.shapes)]
            run.compile(*jax.tree.map(shape_of, args), shapes)
        pools, kept = run(*args, scratch.lend())
        return Pools(pools, kept, scratch)

    def prepare_back(self, pool: int, uniforms: list[Array]) -> None:
        """Have `fused_backward` of its parts, from a row of a pool, compiled if new."""
        run = fused_backward(self.whole, self.pools.index(pool))
        if not run.is_new:
            return
        keeping = self.whole.keeps
        shapes = [*map(_of_floats, _written(self.whole, keeping))]
        count = len(self.pools)
        run.prepare(
            jax.ShapeDtypeStruct((), jnp.int32),
            jax.tree.map(shape_of, uniforms),
            shapes[:count],
            _dealt(shapes[count:], _kept(self.parts, keeping)),
            jax.ShapeDtypeStruct((self.size,), jnp.int32),
        )

    def backward(self, pool: int, row: int, *args: Any) -> tuple[dict, dict, dict]:
        """Run `fused_backward` of its parts, from the number in a row of a pool."""
        run = fused_backward(self.whole, self.pools.index(pool))
        return run(np.int32(row), *args)


class Pools(NamedTuple):
    """What a run forward has written.

    Attributes:
        pools: by number.
        kept: per part, the results of contractions that backward reads.
        scratch: what all of them are lent from.
    """

    pools: list[Array]
    kept: list[list[Array]]
    scratch: Scratch

    def give_back(self) -> None:
        """Nobody reads them any more."""
        self.scratch.take_back([*self.pools, *chain.from_iterable(self.kept)])


def _written(whole: Whole, keeping: bool) -> list[Shape]:
    """The shapes of the pools by number, and of each part's kept results if any."""
    parts = whole.parts
    pools: dict[int, Shape] = {}
    for part in parts:
        program = part.program
        sizes = zip(program.capacities, program.body.pools, strict=True)
        several = [(rows, *shape) for rows, shape in sizes]
        pools |= zip(part.pools, several, strict=True)
    return [*pools.values(), *chain.from_iterable(_kept(parts, keeping))]


def _kept(parts: tuple[Part, ...], keeping: bool) -> list[list[Shape]]:
    """Per part, the shapes of the results of contractions that are kept."""
    if not keeping:
        return [[] for _ in parts]
    return [part.program.kept(needed(part.program.body)) for part in parts]


def _of_floats(shape: Shape) -> "jax.ShapeDtypeStruct":
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def _dealt(arrays: list[Array], shapes: list[list[Shape]]) -> list[list[Array]]:
    """Arrays in as many as there are shapes."""
    rest = iter(arrays)
    return [[*islice(rest, len(several))] for several in shapes]


@lru_cache(maxsize=KEPT)
def fused_forward(whole: Whole, keeping: bool, size: int) -> Compiled:
    """``(uniforms, given, tape, lent) -> (pools, kept)``, compiled.

    `given` has an array for each part whose rows are given; `kept` is a list per part;
    `lent`, donated, are the arrays for both. The tape has `size` numbers.
    """
    parts = whole.parts
    note_made("forward", tuple(part.program.size for part in parts))

    def run(uniforms, given, tape, lent):
        shapes = _kept(parts, keeping)
        count = len(lent) - sum(map(len, shapes))
        pools, kept = lent[:count], _dealt(lent[count:], shapes)
        rows = iter(given)
        for k, part in enumerate(parts):
            forward = forward_rows(part.program, keeping, part.start)
            arrays, kept[k] = forward(
                [uniforms[n] for n in part.uniforms],
                [pools[n] for n in part.pools],
                next(rows) if part.given else None,
                tape,
                kept[k],
            )
            for p, array in zip(part.program.written, arrays, strict=True):
                pools[part.pools[p]] = array
        return pools, kept

    return Compiled(run, "lent")


@lru_cache(maxsize=KEPT)
def fused_backward(whole: Whole, root: int) -> Compiled:
    """``(row, uniforms, pools, kept, tape) -> results``, compiled.

    The results are gradients of the number in a row of pool `root`: of pools by number;
    of uniforms by number; and of the rows of each part that looks rows up.
    """
    parts = whole.parts
    note_made("backward", tuple(part.program.size for part in parts))

    def run(row, uniforms, pools, kept, tape):
        found = _Found({root: sown(jnp.zeros_like(pools[root]), row)})
        for k in reversed(range(len(parts))):
            part = parts[k]
            reached = any(part.pools[p] in found.pools for p in part.program.written)
            if part.program.learns and reached:
                _step_back(k, part, uniforms, pools, kept[k], tape, found)
        return found.pools, found.weights, found.tables

    return Compiled(run)


def sown(zeros: Array, row: Array) -> Array:
    """The gradients of a pool's rows where a backward begins with the number in one."""
    return zeros.at[row].set(1.0)


@dataclass
class _Found:
    """Gradients, while a backward is traced.

    Attributes:
        pools: of rows, by number.
        weights, tables: see `fused_backward`.
    """

    pools: dict[int, Array]
    weights: dict[int, Array] = field(default_factory=dict)
    tables: dict[int, Array] = field(default_factory=dict)


def _step_back(k: int, part: Part, uniforms, pools, kept, tape, found: _Found) -> None:
    """Add a component's gradients."""
    body = part.program.body
    arrays, weights = backward_rows(part.program, part.start)(
        [uniforms[n] for n in part.uniforms],
        [pools[n] for n in part.pools],
        kept,
        [found.pools.get(n) for n in part.pools],
        tape,
    )
    if body.cells[0].form in (LOOKUP, INPUT):
        found.tables[k] = arrays[0]
        return
    for p, array in zip(scattered_pools(body), arrays, strict=True):
        found.pools[part.pools[p]] = array
    total = found.weights
    for n, gradient in zip(learned(body), weights, strict=True):
        number = part.uniforms[n]
        total[number] = total[number] + gradient if number in total else gradient
