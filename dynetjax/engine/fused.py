"""Fused programs: all components of a scope in one compiled function per direction.

One call runs them all. Components without nodes in a graph make no trips, so one fused
program serves every graph of the scope and size class. Only a scope that keeps changing
runs its components one by one, until it has settled.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache, lru_cache, partial
from itertools import chain, islice
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dynetjax.dims import Shape
from dynetjax.engine.backward import back_pools, backward_rows, room
from dynetjax.engine.body import Wiring
from dynetjax.engine.causes import made_fused
from dynetjax.engine.cells import needed, weighted
from dynetjax.engine.compiling import Compiled, shape_of
from dynetjax.engine.places import Places
from dynetjax.engine.program import Program, forward_rows
from dynetjax.engine.scratch import Scratch, is_large, scratch_for
from dynetjax.ops.registry import INPUT, LOOKUP

Array = Any

# A program takes some sixty memory maps, of which Linux grants a process 65,530: past
# that, XLA crashes. So those that were not used for long are dropped.
KEPT = 128  # of each direction
HOT = 24  # runs after which the components of a scope that kept changing are fused


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

    @property
    def learns(self) -> bool:
        """Whether a gradient comes back through it."""
        return not self.given and any(c.differentiable for c in self.program.body.cells)


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
        runs: how often it was asked for.
        number: of `parts`, which is quicker to look up.
        pool_bytes: of the rows of all pools.
    """

    parts: tuple[Part, ...]
    pools: list[int]
    uniforms: tuple[int, ...]
    size: int
    places: Places
    pool_bytes: int
    runs: int = field(default=0)
    number: int = field(init=False)

    def __post_init__(self) -> None:
        known = _numbers.get(self.parts)
        if known is None:
            known = _numbers[self.parts] = len(_parts)
            _parts.append(self.parts)
        self.number = known

    def forward(self, keeping: bool, *args: Any) -> "Pools":
        """Run `fused_forward` of its parts."""
        keeping = keeping and _keeps(self.number)
        use = self.number, keeping
        scratch = scratch_for(use, partial(_written, *use))
        pools, kept = fused_forward(*use)(*args, scratch.lend())
        return Pools(pools, kept, scratch)

    def prepare_backward(self, root: int, uniforms: Any, tape: Any) -> None:
        """Compile `fused_backward` of its parts beside other work, if it is new."""
        keeping = _keeps(self.number)
        shapes = [*map(_of_floats, _written(self.number, keeping))]
        count = len(self.pools)
        fused_backward(self.number, root).prepare(
            shape_of(np.int32(0)),
            jax.tree.map(shape_of, uniforms),
            shapes[:count],
            _dealt(shapes[count:], _kept(_parts[self.number], keeping)),
            shape_of(tape),
            [*map(_of_floats, _large(self.number))],
        )

    def backward(self, root: int, *args: Any) -> tuple[dict, dict, dict]:
        """Run `fused_backward` of its parts."""
        use = partial(_large, self.number)
        scratch = scratch_for(self.number, use)
        *found, lent = fused_backward(self.number, root)(*args, scratch.lend())
        scratch.take_back(lent)
        return tuple(found)


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


_parts: list[tuple[Part, ...]] = []
_numbers: dict[tuple[Part, ...], int] = {}


@cache
def _keeps(number: int) -> bool:
    """Whether backward needs results that are not rows anyway."""
    return any(any(needed(part.program.body)) for part in _parts[number])


def _written(number: int, keeping: bool) -> list[Shape]:
    """The shapes of the pools by number, and of each part's kept results if any."""
    parts = _parts[number]
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


def _large(number: int) -> list[Shape]:
    """The shapes of large arrays for cotangents of contractions."""
    return [*chain.from_iterable(_cotangents(_parts[number]))]


def _cotangents(parts: tuple[Part, ...]) -> list[list[Shape]]:
    """The same, per part."""
    found = []
    for part in parts:
        shapes = part.program.kept(weighted(part.program.body))
        several = [(room(rows), *shape) for rows, *shape in shapes]
        found.append([*filter(is_large, several)])
    return found


def _of_floats(shape: Shape) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def _dealt(arrays: list[Array], shapes: list[list[Shape]]) -> list[list[Array]]:
    """Arrays in as many as there are shapes."""
    rest = iter(arrays)
    return [[*islice(rest, len(several))] for several in shapes]


@lru_cache(maxsize=KEPT)
def fused_forward(number: int, keeping: bool) -> Compiled:
    """``(uniforms, given, tape, lent) -> (pools, kept)``, compiled.

    `given` has an array for each part whose rows are given; `kept` is a list per part;
    `lent`, donated, are the arrays for both.
    """
    parts = _parts[number]
    made_fused("forward", tuple(part.program.size for part in parts))

    def run(uniforms, given, tape, lent):
        shapes = _kept(parts, keeping)
        count = len(lent) - sum(map(len, shapes))
        pools, kept = lent[:count], _dealt(lent[count:], shapes)
        rows = iter(given)
        for k, part in enumerate(parts):
            written = part.program.written
            mine = [pools[n] for n in part.pools]
            component = forward_rows(part.program, (), keeping, part.start)
            arrays, kept[k] = component(
                [uniforms[n] for n in part.uniforms],
                [pool for p, pool in enumerate(mine) if p not in written],
                [mine[p] for p in written],
                next(rows) if part.given else None,
                tape,
                kept[k],
            )
            for p, array in zip(written, arrays, strict=True):
                pools[part.pools[p]] = array
        return pools, kept

    return Compiled(run, "lent")


@lru_cache(maxsize=KEPT)
def fused_backward(number: int, root: int) -> Compiled:
    """``(row, uniforms, pools, kept, tape, lent) -> results``, compiled.

    The results are gradients of the number at `row` of the pool `root`: of pools by
    number, of uniforms by number, and of the rows of each part that looks rows up; and
    the arrays that were `lent`, donated.
    """
    parts = _parts[number]
    made_fused("backward", tuple(part.program.size for part in parts))

    def run(row, uniforms, pools, kept, tape, lent):
        seed = jnp.zeros_like(pools[root]).at[row].set(1.0)
        gradients: dict[int, Array] = {root: seed}
        weights: dict[int, Array] = {}
        tables: dict[int, Array] = {}
        used = _dealt(lent, _cotangents(parts))
        for k in reversed(range(len(parts))):
            part = parts[k]
            reached = any(part.pools[p] in gradients for p in part.program.written)
            if part.learns and reached:
                inside = uniforms, pools, kept[k], tape, used[k]
                used[k] = _step_back(k, part, *inside, gradients, weights, tables)
        return gradients, weights, tables, [*chain.from_iterable(used)]

    return Compiled(run, "lent")


def _step_back(
    k: int, part: Part, uniforms, pools, kept, tape, lent, gradients, weights, tables
) -> list[Array]:
    """Add a component's gradients; returns the buffers that it was lent."""
    program = part.program
    body = program.body
    into = back_pools(body)
    fresh = tuple(p for p in into if part.pools[p] not in gradients)
    above = [
        _above(gradients, pools, part.pools[p])
        for p in program.written
        if p not in into
    ]
    back = [gradients[part.pools[p]] for p in into if p not in fresh]
    arrays, found, used = backward_rows(program, fresh, part.start)(
        [uniforms[n] for n in part.uniforms],
        [pools[n] for n in part.pools],
        kept,
        above,
        back,
        tape,
        lent,
    )
    if body.cells[0].form == LOOKUP:
        tables[k] = arrays[0]
        return used
    gradients.update({part.pools[p]: a for p, a in zip(into, arrays, strict=True)})
    for n, gradient in zip(program.learned, found, strict=True):
        number = part.uniforms[n]
        weights[number] = weights[number] + gradient if number in weights else gradient
    return used


def _above(gradients: dict[int, Array], pools, number: int) -> Array:
    found = gradients.get(number)
    return jnp.zeros_like(pools[number]) if found is None else found
