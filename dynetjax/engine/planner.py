"""Plans of new structures by a compiled program, where all else is as it was before.

Every tree has a structure of its own, but after a few hundred of them none shows
anything new: the same edges between macros, the same widths, the same arrays. Then
what is left of planning is to number nodes, and a program does that
(`dynetjax.engine.planning`). It is told the facts of a scope and a fused program, and
finds what `schedule` and `TapeWriter` would, or that they do not fit a graph.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import jax
import numpy as np

from dynetjax.engine.body import wiring
from dynetjax.engine.device import on_host
from dynetjax.engine.draws import Draws
from dynetjax.engine.fused import Fusion
from dynetjax.engine.macros import MACROS
from dynetjax.engine.planning import (
    LOOP,
    PLAIN,
    REGISTER,
    SCALE,
    SPAN,
    Caps,
    planning,
    slices_of,
)
from dynetjax.engine.rooms import Sizes
from dynetjax.engine.schedule import (
    Block,
    Schedule,
    costs_of,
    lanes_key,
    rows_of,
    settled_widths,
)
from dynetjax.engine.steps import Step, rows_of_components
from dynetjax.engine.structure import Scope
from dynetjax.engine.tape import TapeWriter
from dynetjax.engine.threads import stay_awake_for
from dynetjax.engine.tiling import Structure, Tiling, tiling_of
from dynetjax.expression import Expression
from dynetjax.ops.registry import GATHER, MAP

Array = Any

USUAL = 4  # plans in a row for the same program, before it is taken for granted
BITS = 31  # of a number, one for each macro whose lanes are one
NODES = 512, 2048, 16384, 65536  # of the largest graph, for which a program is made
CAPS = (16, 64), (32, 128), (64, 256)  # macros and leaf slots
LARGEST_TAPE = 1 << 21
_NO_ROWS = np.zeros(0, np.int64)


class Found(NamedTuple):
    """What follows from how a graph is laid out."""

    steps: list[Step]
    ends: np.ndarray


class Written(NamedTuple):
    """A graph that is being laid out.

    Attributes:
        tiling, writer, tape: its own.
        layout: to be filled in by `found`.
        found: waits for the program; None if the graph does not fit. Until then the
            tape can be used, but what comes of it need not be true.
    """

    tiling: Tiling
    layout: Schedule
    writer: TapeWriter
    tape: Array
    found: Callable[[], Found | None]


@dataclass(slots=True)
class Usual:
    """The program of the latest graphs of about one size, and how many these were."""

    fusion: Fusion
    room: Sizes
    times: int = 0
    planner: "Planner | None" = None


def note_usual(scope: Scope, count: int, fusion: Fusion, room: Sizes) -> None:
    """A graph of so many nodes was planned for a program, by NumPy."""
    usual = scope.usual.get(count.bit_length())
    if usual is None or usual.fusion is not fusion:
        usual = scope.usual[count.bit_length()] = Usual(fusion, room)
    usual.times += 1


def plan_as_usual(
    scope: Scope, structure: Structure, cells: list[Expression], draws: Draws
) -> tuple[Fusion, Written] | None:
    """The usual program for a graph of these nodes, and what it runs on; else None."""
    count = len(cells)
    usual = scope.usual.get(count.bit_length())
    if usual is None or usual.times < USUAL or count > NODES[-1]:
        return None
    if structure.elements or structure.lanes.count(1) != count:
        return None
    if usual.planner is None:
        same = [u.planner for u in scope.usual.values() if u.fusion is usual.fusion]
        made = next(filter(None, same), None)
        usual.planner = made or Planner(scope, usual.fusion, usual.room)
    written = None
    if not usual.planner.misfit:
        written = usual.planner.plan(structure, cells, draws)
    if written is None:
        usual.times, usual.planner.misfit = 0, False
        return None
    return usual.fusion, written


class Planner:
    """Lays graphs out for one fused program, at one version of a scope's facts.

    Attributes:
        misfit: the latest graph did not fit.
    """

    def __init__(self, scope: Scope, fusion: Fusion, room: Sizes):
        self._scope, self._fusion, self._room = scope, fusion, room
        self._version = scope.version
        self._wires = [wiring(scope, component) for component in scope.components]
        self._order = [m for c in scope.components for m in c.macros]
        self._pools = list(dict.fromkeys(scope.pools[m] for m in self._order))
        self._counts = np.zeros(0, np.int64)
        self._numbers = np.zeros(0, np.int64)
        self._caps = self._find_caps()
        if self._caps is not None:
            self._facts = jax.device_put(self._all_facts(self._caps), on_host())
            self._nothing = self._caps.macros - 1
        self.misfit = False

    def _find_caps(self) -> Caps | None:
        """What this takes at least; None if that is too much."""
        order, fusion = self._order, self._fusion
        if any(len(component.group) > BITS for component in self._scope.components):
            return None
        slots = sum(len(MACROS[m].leaves) for m in order)
        columns = max(len(order) + 1, len(fusion.places.data))
        for macros, most in CAPS:
            if columns <= macros and slots <= most and fusion.size <= LARGEST_TAPE:
                return Caps(NODES[0], macros, most, fusion.size)
        return None

    def _all_facts(self, caps: Caps) -> np.ndarray:
        """What the program is told."""
        scope, parts = self._scope, self._fusion.parts
        facts = np.zeros(slices_of(caps).facts["reads"].stop, np.int32)
        of = {name: facts[where] for name, where in slices_of(caps).facts.items()}
        data = [start for *_, start in self._fusion.places.data]
        of["counts"][:] = len(parts), len(self._order), len(data)
        of["sorts"][:] = len(scope.held) > 0
        of["data"][: len(data)] = data
        of["room"][: len(self._pools)] = [self._room[p] for p in self._pools]
        for k, prices in enumerate(zip(*costs_of(scope)[1:], strict=True)):
            component, program = scope.components[k], parts[k].program
            trip, patience, turning, lone = prices
            of["width"][k], of["lanes"][k] = program.width, program.lanes
            of["trip"][k], of["patience"][k] = trip, patience
            of["turning"][k], of["lone"][k] = turning, round(SCALE * lone)
            of["start"][k] = parts[k].start
            bits: dict[int, int] = {}
            for macro, group in component.group.items():
                at = self._order.index(macro)
                of["bit"][at] = bits[group] = 2 * bits.get(group, 0) or 1
        reads = of["reads"].reshape(caps.slots, caps.macros)
        first = 0
        for at, macro in enumerate(self._order):
            self._note_macro(of, at, macro, first)
            slot, leaves = MACROS[macro].slot, len(MACROS[macro].leaves)
            for k in range(leaves):
                self._note_slot(of, first + k, slot + k)
                self._note_reads(reads[first + k], macro, slot + k)
            first += leaves
        return facts

    def _note_macro(self, of: dict[str, np.ndarray], at: int, macro: int, first: int):
        """Take in a macro, whose first leaf has the number `first`."""
        scope = self._scope
        part = scope.component_of[macro]
        start, macros = self._fusion.parts[part].start, self._wires[part].macros
        of["first"][at], of["step"][at] = first, MACROS[macro].form == MAP
        of["group"][at] = SPAN * scope.group_of[macro]
        of["part"][at] = part
        of["valid"][at] = self._fusion.places.valid[macro]
        of["pool"][at] = self._pools.index(scope.pools[macro])
        of["head"][at] = start + 1 + macros.index(macro)

    def _note_slot(self, of: dict[str, np.ndarray], k: int, slot: int) -> None:
        """Take in a leaf."""
        of["twin"][k] = slot - self._scope.twins.get(slot, slot)
        for name in "leaf", "apart", "held", "pull", "left", "beside":
            of[name][k] = getattr(self._fusion.places, name)[slot]

    def _note_reads(self, how: np.ndarray, macro: int, slot: int) -> None:
        """Say how a leaf reads the rows of each macro, and of NOTHING."""
        scope = self._scope
        if MACROS[macro].form == GATHER:  # whose lanes are not those of its operands
            return
        loop = scope.loop_of[macro]
        for source in scope.sources(slot):
            inside = loop >= 0 and loop == scope.loop_of[source]
            usual = LOOP if inside else PLAIN
            register = slot in scope.registers
            how[self._order.index(source)] = REGISTER if register else usual
        if scope.reads_nothing(slot):
            how[-1] = PLAIN

    def plan(
        self, structure: Structure, cells: list[Expression], draws: Draws
    ) -> Written | None:
        """Begin to lay out a graph; None if it does not fit."""
        if self._caps is None:
            return None
        if len(self._counts) < len(MACROS):
            self._number()
        macro_of = np.array(structure.macros, np.int64)
        numbers, counts = self._numbers[macro_of], self._counts[macro_of]
        if np.maximum.reduce(numbers) == self._nothing:  # a macro never seen
            return None
        for k in (counts < 0).nonzero()[0].tolist():
            counts[k] = len(structure.read[k])
        total = int(np.add.reduce(counts))
        read = np.fromiter(chain.from_iterable(structure.read), np.int64, total)
        tiling = tiling_of(structure, macro_of, counts, read).of(cells)
        layout = Schedule([], _NO_ROWS, {}, _NO_ROWS, self._room)
        writer = TapeWriter(tiling, layout, {}, draws)
        caps = self._caps._replace(nodes=next(n for n in NODES if len(cells) <= n))
        given = self._given(caps, tiling, numbers, writer)
        if given is None:
            return None
        run = planning(caps)
        if run is None:
            self._caps = None
            return None
        tape, found = run(given, self._facts)
        fill_in = partial(self._fill_in, caps, found, tiling, layout)
        return Written(tiling, layout, writer, tape, fill_in)

    def _number(self) -> None:
        """Tables for all macros that there are now."""
        self._counts = np.zeros(len(MACROS), np.int64)
        self._numbers = np.full(len(MACROS), self._nothing)
        for k, macro in enumerate(self._order):
            kind = MACROS[macro]
            fixed = kind.form == MAP or not kind.leaves
            self._counts[macro] = len(kind.leaves) if fixed else -1
            self._numbers[macro] = k

    def _given(
        self, caps: Caps, tiling: Tiling, numbers: np.ndarray, writer: TapeWriter
    ) -> np.ndarray | None:
        """What the program is given of a graph; None if that is too much."""
        count, where = len(tiling), slices_of(caps).given
        given = np.empty(where["data"].stop, np.int32)
        given[0], given[where["nothing"]] = count, self._nothing
        given[where["macros"].start :][:count] = numbers
        given[where["counts"].start :][:count] = tiling.counts
        if len(tiling.read) > 2 * caps.nodes:
            return None
        given[where["read"].start :][: len(tiling.read)] = tiling.read
        at = 0
        for k, (macro, what, details, _) in enumerate(self._fusion.places.data):
            nodes = tiling.nodes.get(macro, _NO_ROWS)
            given[where["amounts"].start + k] = len(nodes)
            stop = at + len(nodes)
            if stop > caps.nodes:
                return None
            if stop > at:
                given[where["of"]][at:stop] = nodes
                given[where["data"]][at:stop] = writer.runtime(macro, what, details)
                at = stop
        return given

    def _fill_in(
        self, caps: Caps, found: Array, tiling: Tiling, layout: Schedule
    ) -> Found | None:
        """Fill in a layout; None if it is not for this program, or for none."""
        if self._version != self._scope.version:  # another thread has widened it
            return None
        rows = rows_of_components(self._scope, tiling)  # while that runs
        stay_awake_for(found)
        at, numbers = slices_of(caps).found, np.asarray(found)
        trips = numbers[at["trips"]].tolist()
        if numbers[0] or not self._has_room(at, numbers, trips):
            self.misfit = True
            return None
        scope, parts, steps = self._scope, self._fusion.parts, []
        for k, component in enumerate(scope.components):
            if trips[k]:
                program = parts[k].program
                block = Block(component, program.width, trips[k])
                layout.blocks.append(block)
                steps.append(Step(block, self._wires[k], program, k, rows[k]))
        base = zip(self._order, numbers[at["base"]].tolist(), strict=False)
        layout.base |= {macro: row for macro, row in base if row}
        layout.lane, layout.row = numbers[at["lane"]], numbers[at["row"]]
        (ends,) = (numbers[at["read"]][: len(tiling)] == 0).nonzero()
        return Found(steps, ends)

    def _has_room(
        self, at: dict[str, slice], numbers: np.ndarray, trips: list[int]
    ) -> bool:
        """Whether NumPy would take this program, too, by its widths and sizes."""
        scope, parts = self._scope, self._fusion.parts
        used = zip(self._pools, numbers[at["used"]].tolist(), strict=False)
        needed = {pool: 1 + rows for pool, rows in used if rows}
        for k, settled in enumerate(settled_widths(scope)):
            width = parts[k].program.width
            if settled != width and (trips[k] or settled is not None):
                return False
            if trips[k]:
                needed[lanes_key(scope.components[k])] = trips[k] * width
        return scope.rooms.settle(needed, rows_of(scope)) is self._room
