"""Sequences: programs without loops, of macros that each run once on a few lanes.

A macro stands by itself here, and reads and writes the archive of its graph. A sequence
serves every increment whose own macros are a part of it: the others run on empty lanes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from dynetjax.engine.body import Wiring, wiring
from dynetjax.engine.causes import made_fused
from dynetjax.engine.compiling import Compiled
from dynetjax.engine.fused import KEPT, Part, Whole, numbered, wholes
from dynetjax.engine.macros import MACROS, Macro, pool_of
from dynetjax.engine.program import once_rows, program
from dynetjax.engine.rooms import LEAST
from dynetjax.engine.structure import Component, Scope

MOST_CHOICES = 16  # of one width, for one kind of result
FAMILIES = 256


class _Pools(dict[int, int]):
    """The pool of each macro: one for each shape."""

    def __init__(self) -> None:
        self._named: list[Macro] = []

    def __missing__(self, macro: int) -> int:
        pool = pool_of(MACROS[macro].shape)
        self._named.append(pool)
        self[macro] = pool.id
        return pool.id


class _Apart(Scope):
    """Every macro by itself: nothing but its shape is known of what it reads."""

    def __init__(self) -> None:
        super().__init__()
        self.pools = _Pools()

    def pool(self, slot: int) -> int:
        return self.pools[self.source(slot)]

    def differs(self, slot: int) -> bool:
        return False


@dataclass(slots=True)
class Sequence:
    """Macros that run one after the other, each on `width` lanes.

    Attributes:
        asked: numbers of those whose rows are handed out.
        given: numbers of those whose rows are given.
        wires, parts: what runs, macro by macro.
        pools, uniforms: those of all parts, by number.
        size: of the tape.
        whole: the parts, and those asked for, by which its program is found quickly.
    """

    macros: tuple[int, ...]
    width: int
    asked: tuple[int, ...]
    given: tuple[int, ...]
    wires: list[Wiring]
    parts: tuple[Part, ...]
    pools: list[int]
    uniforms: tuple[int, ...]
    size: int
    whole: Whole

    @property
    def run(self) -> Callable:
        """The compiled program."""
        return run_sequence(self.whole)


def _sequence(macros: tuple[int, ...], width: int, asked: tuple[int, ...]) -> Sequence:
    wires = [wiring(_apart, Component((macro,), False)) for macro in macros]
    programs = [
        program(w.body, width, width, (LEAST,) * len(w.body.pools)) for w in wires
    ]
    parts, pools, uniforms, size = numbered(zip(wires, programs, strict=True))
    return Sequence(
        macros,
        width,
        asked,
        tuple(k for k, part in enumerate(parts) if part.given),
        wires,
        parts,
        pools,
        tuple(uniforms),
        size,
        wholes[parts, asked],
    )


def alike(macro: int) -> int:
    """The first of the macros that compute the same of what they read.

    Rules tell more apart, for they know what computes their operands.
    """
    found = _alike.get(macro)
    if found is None:
        found = _alike[macro] = _first_alike(macro)
    return found.id


def _first_alike(macro: int) -> Macro:
    kind, wires = MACROS[macro], wiring(_apart, Component((macro,), False))
    about = wires.body, *wires.uniforms, -1, *kind.places, *kind.fields.items()
    return _first.setdefault((about, tuple(wires.pools)), kind)


_apart = _Apart()
_first: dict[tuple, Macro] = {}
_alike: dict[int, Macro] = {}
_choices: dict[tuple, list[Sequence]] = {}


def forget() -> None:
    """Forget all sequences, while nobody chooses one."""
    global _apart
    _apart = _Apart()
    for table in _first, _alike, _choices:
        table.clear()


def choose(
    macros: tuple[int, ...], width: int, asked: tuple[int, ...]
) -> tuple[Sequence, list[int]] | None:
    """A sequence that has these macros in it, and where; None if there are too many.

    It hands out the rows of those `asked` for, unless it is one made for others.
    """
    family = frozenset(macros[k] for k in asked), width
    known = _choices.pop(family, [])
    _choices[family] = known
    if len(_choices) > FAMILIES:
        del _choices[next(iter(_choices))]
    for some in known:
        if some.macros == macros and set(asked) <= set(some.asked):
            return some, list(range(len(macros)))
    if len(known) < MOST_CHOICES:
        known.append(_sequence(macros, width, asked))
        return known[-1], list(range(len(macros)))
    fitting = [(some, _places(macros, some.macros)) for some in known]
    found = [(some, places) for some, places in fitting if places is not None]
    return min(found, key=lambda f: len(f[0].macros), default=None)


def _places(part: tuple[int, ...], whole: tuple[int, ...]) -> list[int] | None:
    """Where the members of `part` are in `whole`, in their order, if all are."""
    places, at = [], 0
    for macro in part:
        while at < len(whole) and whole[at] != macro:
            at += 1
        if at == len(whole):
            return None
        places.append(at)
        at += 1
    return places


@lru_cache(maxsize=KEPT)
def run_sequence(whole: Whole) -> Callable:
    """``(arrays, uniforms, given, tape) -> (arrays, found)``, compiled.

    The arrays are donated; `found` are the rows of the parts asked for.
    """
    parts, asked = whole.parts, whole.asked

    def run(arrays, uniforms, given, tape):
        sizes = [part.program.size for part in parts]
        rooms = [tuple(arrays[n].shape[0] for n in part.pools) for part in parts]
        about = [(b, w, r) for (b, w, _), r in zip(sizes, rooms, strict=True)]
        made_fused("increment", tuple(about))
        arrays, rest, found = list(arrays), iter(given), []
        for part in parts:
            pools, (rows,) = once_rows(part.program, part.start)(
                [uniforms[n] for n in part.uniforms],
                [arrays[n] for n in part.pools],
                next(rest) if part.given else None,
                tape,
            )
            for number, array in zip(part.pools, pools, strict=True):
                arrays[number] = array
            found.append(rows)
        return arrays, [found[k] for k in asked]

    return Compiled(run, "arrays")
