"""Places: where on a tape the columns of a program's parts begin."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from dynetjax.engine.body import Wiring
from dynetjax.engine.facts import Facts
from dynetjax.engine.macros import MACROS
from dynetjax.engine.program import Program
from dynetjax.ops.registry import GATHER

STRUCTURE = ("valid", "leaf", "operand")  # columns without runtime data


@dataclass(slots=True)
class Places:
    """Where the columns of a tape begin; each has one number per lane.

    Attributes:
        valid: per macro, the column that marks real lanes.
        leaf: per leaf slot, the column with its rows, or -1; if the leaf stands for
            several operands, that of the first one.
        apart: per leaf slot, how far the columns of its operands are apart.
        data: of every column of runtime data: macro, what it is, details, and place.
    """

    valid: Facts
    leaf: Facts
    apart: Facts
    data: list[tuple[int, str, list, int]] = field(default_factory=list)


def places_of(parts: Iterable[tuple[Wiring, Program, int]]) -> Places:
    """The places of parts: what each is, runs, and where its tape begins."""
    parts = list(parts)
    macros = [MACROS[number] for wires, _, _ in parts for number in wires.macros]
    slots = [slot for m in macros for slot in range(m.slot, m.slot + len(m.leaves))]
    found = Places(
        valid=Facts([m.id for m in macros], 0),
        leaf=Facts(slots, -1),
        apart=Facts(slots, 0),
    )
    for wires, program, start in parts:
        at = start + program.head
        for macro, columns in zip(wires.macros, wires.columns, strict=True):
            for what, *where in columns:
                _note(found, macro, what, where, at, program.lanes)
                at += program.lanes
    return found


def _note(
    found: Places, macro: int, what: str, where: list, at: int, lanes: int
) -> None:
    """Take in the column at `at`."""
    kind = MACROS[macro]
    if what == "valid":
        found.valid[macro] = at
    elif what == "leaf":
        found.leaf[kind.slot + where[0]] = at
    elif what not in STRUCTURE:
        found.data.append((macro, what, where, at))
    elif where[0] == 0:
        found.leaf[kind.slot] = at
        found.apart[kind.slot] = 0 if kind.form == GATHER else lanes
