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
from operator import mul
from struct import pack_into
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
from dynetjax.engine.rooms import Sizes, rounded_alike
from dynetjax.engine.schedule import (
    Block,
    Schedule,
    changes_of_widths,
    costs_of,
    lanes_key,
    rows_of,
    settled_widths,
)
from dynetjax.engine.steps import Step, rows_of_components
from dynetjax.engine.structure import Scope
from dynetjax.engine.tape import TapeWriter
from dynetjax.engine.threads import stay_awake_for
from dynetjax.engine.tiling import (
    READS_ONE,
    Known,
    Numbered,
    Tiling,
    numbered,
    tiling_of,
)
from dynetjax.expression import Expression
from dynetjax.graph import NOTHING
from dynetjax.ops.registry import GATHER, MAP

Array = Any

USUAL = 4  # plans in a row for the same program, before it is taken for granted
BITS = 31  # of a number, one for each macro whose lanes are one
NODES = 512, 2048, 16384, 65536  # of the largest graph, for which a program is made
CAPS = (16, 64), (32, 128), (READS_ONE, 256)  # macros and leaf slots
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
        layout: to be filled in by `found`; the first rows of macros are on the tape.
        last: the row of the last node.
        read: the nodes that are read, and NOTHING.
        found: waits for the program; None if the graph does not fit. Until then the
            tape and `last` can be used, but what comes of them need not be true.
    """

    tiling: Tiling
    layout: Schedule
    writer: TapeWriter
    tape: Array
    last: Array
    read: list[int]
    found: Callable[[], Found | None]

    @property
    def has_one_end(self) -> bool:
        """Whether all nodes are read but for the last one."""
        return len({*self.read, NOTHING}) == len(self.tiling)


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
    scope: Scope, cells: list[Expression], draws: Draws
) -> tuple[Fusion, Written] | None:
    """The usual program for a graph of these nodes, and what it runs on; else None."""
    count = len(cells)
    usual = scope.usual.get(count.bit_length())
    if usual is None or usual.times < USUAL or count > NODES[-1]:
        return None
    if usual.planner is None:
        same = [u.planner for u in scope.usual.values() if u.fusion is usual.fusion]
        made = next(filter(None, same), None)
        usual.planner = made or Planner(scope, usual.fusion, usual.room)
    written = None
    if not usual.planner.misfit:
        written = usual.planner.plan(cells, draws)
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
        self._known: list[Known | None] = [None] * (1 + max(self._order))
        for k, macro in enumerate(self._order):
            self._known[macro] = Known(macro, k)
        self._widths = [part.program.width for part in fusion.parts]
        self._changes, self._settled = -1, False
        self._unsettled: list[int] = []
        self._keys = [*self._pools, *map(lanes_key, scope.components)]
        self._spans = [(1, 0)] * len(self._keys)  # of what is known to be alike
        self._caps = self._find_caps()
        if self._caps:
            self._facts = jax.device_put(self._all_facts(self._caps[0]), on_host())
            self._nothing = self._caps[0].macros - 1
        self.misfit = False

    def _find_caps(self) -> list[Caps]:
        """What this takes, for graphs of each size; none if that is too much."""
        order, fusion = self._order, self._fusion
        if any(len(component.group) > BITS for component in self._scope.components):
            return []
        slots = sum(len(MACROS[m].leaves) for m in order)
        columns = max(len(order) + 1, len(fusion.places.data))
        for macros, most in CAPS:
            if columns <= macros and slots <= most and fusion.size <= LARGEST_TAPE:
                return [Caps(n, macros, most, fusion.size) for n in NODES]
        return []

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

    def plan(self, cells: list[Expression], draws: Draws) -> Written | None:
        """Begin to lay out a graph; None if it does not fit."""
        if not self._caps:
            return None
        nodes = numbered(cells, self._known, len(self._order))
        if nodes is None:
            return None
        present = zip(self._order, nodes.nodes, strict=True)
        tiling = tiling_of(cells, {m: several for m, several in present if several})
        layout = Schedule([], _NO_ROWS, {}, _NO_ROWS, self._room)
        writer = TapeWriter(tiling, layout, {}, draws)
        caps = next(caps for caps in self._caps if len(cells) <= caps.nodes)
        given = self._given(caps, nodes, writer)
        if given is None:
            return None
        run = planning(caps)
        if run is None:
            self._caps = []
            return None
        tape, last, found = run(given, self._facts)
        fill_in = partial(self._fill_in, caps, found, tiling, layout)
        return Written(tiling, layout, writer, tape, last, nodes.read, fill_in)

    def _given(
        self, caps: Caps, nodes: Numbered, writer: TapeWriter
    ) -> np.ndarray | None:
        """What the program is given of a graph; None if that is too much."""
        where = slices_of(caps).given
        if len(nodes.read) > 2 * caps.nodes:
            return None
        given = np.empty(where["data"].stop, np.int32)
        given[0], given[where["nothing"]] = len(nodes.kinds), self._nothing
        for name, numbers in ("nodes", nodes.kinds), ("read", nodes.read):
            pack_into(f"{len(numbers)}i", given.data, 4 * where[name].start, *numbers)
        at = 0
        for k, (macro, what, details, _) in enumerate(self._fusion.places.data):
            stop = at + len(writer.tiling.nodes.get(macro, ()))
            given[where["amounts"].start + k] = stop - at
            if stop > caps.nodes:
                return None
            if stop > at:
                given[where["of"]][at:stop] = writer.lanes(macro).nodes
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
        trips = numbers[at["trips"]].tolist()[: len(rows)]
        used = numbers[at["used"]].tolist()[: len(self._pools)]
        if numbers[0] or not self._has_room(used, trips):
            self.misfit = True
            return None
        scope, parts, steps = self._scope, self._fusion.parts, []
        for k, component in enumerate(scope.components):
            if trips[k]:
                program = parts[k].program
                block = Block(component, program.width, trips[k])
                layout.blocks.append(block)
                steps.append(Step(block, self._wires[k], program, k, rows[k]))
        layout.lane, layout.row = numbers[at["lane"]], numbers[at["row"]]
        (ends,) = (numbers[at["read"]][: len(tiling)] == 0).nonzero()
        return Found(steps, ends)

    def _has_room(self, used: list[int], trips: list[int]) -> bool:
        """Whether NumPy would take this program, too, by its widths and sizes."""
        if not self._as_settled(trips):
            return False
        lanes = map(mul, trips, self._widths)
        needed = [*[1 + rows for rows in used], *[several or 1 for several in lanes]]
        spans = zip(needed, self._spans, strict=True)
        if all(least <= n <= most for n, (least, most) in spans):
            return True
        rows, room = rows_of(self._scope), self._room
        of_keys = dict(zip(self._keys, needed, strict=True))
        if self._scope.rooms.settle(of_keys, rows) is not room:
            return False
        alike = [(key, rounded_alike(n, rows[key])) for key, n in of_keys.items()]
        self._spans = [(least, min(most, room[key])) for key, (least, most) in alike]
        return True

    def _as_settled(self, trips: list[int]) -> bool:
        """Whether components have the widths that are settled now."""
        if self._changes != changes_of_widths():
            self._changes, settled = changes_of_widths(), settled_widths(self._scope)
            several = zip(settled, self._widths, strict=True)
            self._settled = all(width in (None, mine) for width, mine in several)
            self._unsettled = [k for k, width in enumerate(settled) if width is None]
        return self._settled and not any(trips[k] for k in self._unsettled)
