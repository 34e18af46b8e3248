"""Fused programs: all components of a scope in one compiled function per direction.

One call runs them all. Components without nodes in a graph make no trips, so one fused
program serves every graph of the scope and size class. Only a scope that keeps changing
runs its components one by one, until it has settled.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any

import jax.numpy as jnp

from dynetjax.engine import scratch
from dynetjax.engine.backward import back_pools, backward_rows, room
from dynetjax.engine.body import Wiring
from dynetjax.engine.causes import made_fused
from dynetjax.engine.cells import needed, weighted
from dynetjax.engine.compiling import Compiled
from dynetjax.engine.places import Places
from dynetjax.engine.program import Program, forward_rows, zeros
from dynetjax.engine.scratch import is_large
from dynetjax.ops.registry import INPUT, LOOKUP

Array = Any
Shapes = list[list[tuple[int, ...]]]

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

    @property
    def lending(self) -> list[int]:
        """The parts that keep large results."""
        return _lending(self.number)

    def forward(self, keeping: bool, *args: Any) -> tuple[list[Array], Any]:
        """Run `fused_forward` of its parts."""
        keeping = keeping and _keeps(self.number)
        lent = _lend(_large(self.number, backward=False)) if keeping else []
        return fused_forward(self.number, keeping)(*args, lent)

    def backward(self, root: int, *args: Any) -> tuple[dict, dict, dict]:
        """Run `fused_backward` of its parts."""
        lent = _lend(_large(self.number, backward=True))
        *found, lent = fused_backward(self.number, root)(*args, lent)
        for buffers in lent:
            scratch.take_back(buffers)
        return tuple(found)


_parts: list[tuple[Part, ...]] = []
_numbers: dict[tuple[Part, ...], int] = {}


@cache
def _keeps(number: int) -> bool:
    """Whether backward needs results that are not rows anyway."""
    return any(any(needed(part.program.body)) for part in _parts[number])


@cache
def _large(number: int, backward: bool) -> Shapes:
    """The shapes of each part's large buffers.

    Forward keeps results of contractions in them, backward their cotangents.
    """
    found = []
    for part in _parts[number]:
        program = part.program
        which = weighted(program.body) if backward else needed(program.body)
        buffers = [
            (room(rows) if backward else rows, *shape)
            for rows, *shape in program.kept(which)
        ]
        found.append([shape for shape in buffers if is_large(shape)])
    return found


@cache
def _lending(number: int) -> list[int]:
    large = _large(number, backward=False)
    return [k for k, shapes in enumerate(large) if shapes]


def _lend(shapes: Shapes) -> list[list[Array]]:
    return [scratch.lend(of_part) for of_part in shapes]


@lru_cache(maxsize=KEPT)
def fused_forward(number: int, keeping: bool) -> Callable:
    """``(uniforms, given, tape, lent) -> (pools, kept)``, compiled.

    `given` has an array for each part whose rows are given; `kept` is a list per part,
    and so is `lent`, donated.
    """
    parts = _parts[number]
    made_fused("forward", tuple(part.program.size for part in parts))

    def run(uniforms, given, tape, lent):
        pools: dict[int, Array] = {}
        kept, rows = [], iter(given)
        for k, part in enumerate(parts):
            program = part.program
            written = program.written
            fresh = tuple(p for p in written if part.pools[p] not in pools)
            read = [
                _pool(pools, part, p)
                for p in range(len(part.pools))
                if p not in written
            ]
            shared = [pools[part.pools[p]] for p in written if p not in fresh]
            component = forward_rows(program, fresh, keeping, part.start)
            arrays, results = component(
                [uniforms[n] for n in part.uniforms],
                read,
                shared,
                next(rows) if part.given else None,
                tape,
                lent[k] if lent else (),
            )
            kept.append(results)
            pools |= {part.pools[p]: a for p, a in zip(written, arrays, strict=True)}
        return [pools[p] for p in range(len(pools))], kept

    return Compiled(run, "lent")


def _pool(pools: dict[int, Array], part: Part, p: int) -> Array:
    """A pool; it starts as zeros if nothing has written it."""
    number = part.pools[p]
    if number not in pools:
        pools[number] = zeros(part.program.capacities[p], part.program.body.pools[p])
    return pools[number]


@lru_cache(maxsize=KEPT)
def fused_backward(number: int, root: int) -> Callable:
    """``(row, uniforms, pools, kept, tape, lent) -> results``, compiled.

    The results are gradients of the number at `row` of the pool `root`: of pools by
    number, of uniforms by number, and of the rows of each part that looks rows up; and
    the buffers that were `lent`, donated.
    """
    parts = _parts[number]
    made_fused("backward", tuple(part.program.size for part in parts))

    def run(row, uniforms, pools, kept, tape, lent):
        seed = jnp.zeros_like(pools[root]).at[row].set(1.0)
        gradients: dict[int, Array] = {root: seed}
        weights: dict[int, Array] = {}
        tables: dict[int, Array] = {}
        used = list(lent)
        for k in reversed(range(len(parts))):
            part = parts[k]
            reached = any(part.pools[p] in gradients for p in part.program.written)
            if part.learns and reached:
                inside = uniforms, pools, kept[k], tape, lent[k]
                used[k] = _step_back(k, part, *inside, gradients, weights, tables)
        return gradients, weights, tables, used

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
