"""Components: which macro nodes run together, once or in a loop, and in what order.

A `Scope` remembers everything seen so far for graphs with the same roots. Draw an
edge from macro A to macro B where a node of A feeds one of B: the strongly connected
components, in topological order, are the program. Facts in a scope only widen, so
that graphs of one kind settle on one program:

* edges are added, never taken away;
* a leaf is read from a *register* (the producer's value in the same lane of the same
  iteration) as long as that was always possible, and from a pool ever after;
* pieces of a list may all be made by what makes one of them;
* producers that met in one leaf share a pool.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from math import prod
from typing import Any

import numpy as np

from dynetjax.engine.facts import Facts
from dynetjax.engine.macros import MACROS, SLOT_OWNERS, Macro, blank_macro
from dynetjax.engine.rooms import Rooms, Row
from dynetjax.engine.tiling import Tiling
from dynetjax.ops.registry import IMPORT, MAP, REDUCE
from dynetjax.ops.rules import Rule


@dataclass(slots=True)
class Component:
    """Macros that run together.

    Attributes:
        macros: in the order of the loop body.
        cyclic: their nodes depend on one another, so they run in iterations.
        group: for each macro, the first macro of those whose lanes it shares.
    """

    macros: tuple[int, ...]
    cyclic: bool
    group: dict[int, int] = field(default_factory=dict)


class Scope:
    """What was seen of graphs with the same roots; see the module.

    Attributes:
        version: raised whenever a fact widens.
        hoisted: the version at which loops were last searched for what need not be
            in them.
        rooms: the sizes in use; `rows` is what a row of each array takes, `costs`
            what a trip of each component does.
        wirings, fusions, usual: what the layer above derived from this version of the
            facts.
        components: in topological order; `component_of` tells each macro's index.
        registers: leaf slot -> producing macro.
        pools: macro -> representative of the macros whose rows share its pool.
        differentiable: macros whose results depend on a parameter, or may do so.
        loop_of: per macro, the index of its component if that is cyclic, else -1.
        group_of: per macro, the number of its group; `component_of_group` tells the
            index of the component that it is in.
        in_register: per leaf slot, whether it is read from a register.
    """

    def __init__(self) -> None:
        self.version = 0
        self.hoisted = 0
        self.rooms = Rooms()
        self.rows: dict[int, Row] = {}
        self.costs: tuple[Any, ...] = ()
        self.wirings: dict[tuple, Any] = {}
        self.fusions: dict[tuple, Any] = {}
        self._ranks: dict[int, int] = {}
        self._macros: dict[int, Macro] = {}  # that it mentions
        self._sources: dict[int, set[int]] = {}
        self._widened: set[int] = set()
        self._pieces: dict[int, tuple[int, ...]] = {}  # by leaf slot, those of its list
        self.components: list[Component] = []
        self.component_of: dict[int, int] = {}
        self.registers: dict[int, int] = {}
        self.pools: dict[int, int] = {}
        self.differentiable: set[int] = set()
        self.component_of_group = np.zeros(0, np.int64)
        self.loop_of = self.group_of = Facts((), 0)
        self.in_register = Facts((), False)
        self._number([])

    def observe(self, tiling: Tiling, reads) -> None:
        """Take in what a graph shows."""
        _, slot, read = reads
        producer = tiling.macro_of[read]
        self._widened |= tiling.blank  # a register holds no zeros
        widens = not tiling.blank.isdisjoint(self.registers)
        macros = [m for m in tiling.nodes if m not in self._ranks]
        if macros:
            self._macros.update((m, MACROS[m]) for m in macros)
            self._number(macros)
            self._pieces.update(chain.from_iterable(map(_pieces, macros)))
        new = self._new_edges(slot, producer)
        changed = bool(new or macros or widens)
        for to, source in new:
            for alike in self._pieces.get(to, (to,)):
                self._sources.setdefault(alike, set()).add(source)
        macros.sort(key=lambda m: tiling.nodes[m][0])
        for macro in macros:
            self._ranks[macro] = len(self._ranks)
            if _adds_losses(MACROS[macro]):
                self._sources.setdefault(MACROS[macro].slot, set()).add(macro)
        if changed:
            self._rebuild()

    def _new_edges(
        self, slot: np.ndarray, producer: np.ndarray
    ) -> list[tuple[int, int]]:
        """The pairs of leaf slot and producing macro not seen before."""
        known = self._known[self._slot_number[slot], self._macro_number[producer]]
        if np.count_nonzero(known) == len(known):
            return []
        pairs = zip(slot[~known].tolist(), producer[~known].tolist(), strict=True)
        return sorted(set(pairs))

    def widen(self, slots: list[int]) -> None:
        """Read these leaves from pools from now on."""
        self._widened.update(slots)
        self._rebuild()

    def want_gradients(self, macro: int) -> None:
        """Have rows of a macro read from its pool, where gradients are added up."""
        slots = [slot for slot, source in self.registers.items() if source == macro]
        if slots:
            self.widen(slots)

    def rank(self, macro: int) -> int:
        """Where a macro stands in the order of the bodies.

        It is that of the nodes in the first graph that showed the macro, so that
        within a cell, what feeds comes before what is fed.
        """
        return self._ranks[macro]

    def knows(self, macro: int) -> bool:
        """Whether a macro was seen."""
        return macro in self._ranks

    def follows(self, rule: Rule) -> bool:
        """Whether a macro was seen that follows this rule, or has it in it."""
        return any(MACROS[macro].follows(rule) for macro in self._ranks)

    def source(self, slot: int) -> int:
        """A macro whose rows this leaf reads; one without nodes if it never did."""
        found = self._sources.get(slot)
        if found:
            return min(found)
        blank = blank_macro(slot)
        self._macros[blank.id] = blank
        return blank.id

    def sources(self, slot: int) -> set[int]:
        """Every macro whose rows this leaf was seen to read."""
        return self._sources.get(slot, set())

    def pool(self, slot: int) -> int:
        """The representative of the pool that this leaf reads."""
        source = self.source(slot)
        return self.pools.get(source, source)

    def differs(self, slot: int) -> bool:
        """Whether a gradient flows back through this leaf."""
        return not self.differentiable.isdisjoint(self.sources(slot))

    def _rebuild(self) -> None:
        self.version += 1
        self.wirings = {}
        self.fusions = {}
        self.rows = {}
        self.costs = ()
        order = list(self._ranks)
        feeds: dict[int, set[int]] = {m: set() for m in order}
        for slot, sources in self._sources.items():
            for source in sources:
                feeds[source].add(SLOT_OWNERS[slot].id)
        self.components = [
            Component(
                tuple(sorted(c, key=self.rank)), len(c) > 1 or c[0] in feeds[c[0]]
            )
            for c in strongly_connected(order, feeds)
        ]
        self.component_of = {
            m: k for k, c in enumerate(self.components) for m in c.macros
        }
        self._choose_registers()
        self._share_pools()
        self._find_differentiable()
        self._note_arrays()

    def _number(self, macros: list[int]) -> None:
        """Make room for macros in the table of known edges."""
        several = [*self._ranks, *macros]
        self._macro_number = Facts(several, 0)
        self._macro_number[several] = np.arange(len(several))
        self._slots = [
            MACROS[m].slot + k for m in several for k in range(len(MACROS[m].leaves))
        ]
        self._slot_number = Facts(self._slots, 0)
        self._slot_number[self._slots] = np.arange(len(self._slots))
        self._known = np.zeros((len(self._slots), len(several)), bool)

    def _note_arrays(self) -> None:
        """The facts of use in every graph, as arrays."""
        for slot, sources in self._sources.items():
            row = self._known[self._slot_number[slot]]
            row[self._macro_number[list(sources)]] = True
        self.loop_of, self.group_of = Facts(self._ranks, -1), Facts(self._ranks, 0)
        of_group: list[int] = []
        for k, component in enumerate(self.components):
            macros = list(component.macros)
            if component.cyclic:
                self.loop_of[macros] = k
            numbers: dict[int, int] = {}
            for macro, group in component.group.items():
                number = numbers.setdefault(group, len(of_group) + len(numbers))
                self.group_of[macro] = number
            of_group += [k] * len(numbers)
        self.component_of_group = np.array(of_group)
        self.in_register = Facts(self._slots, False)
        self.in_register[list(self.registers)] = True

    def _choose_registers(self) -> None:
        self.registers = {}
        for macro in self._ranks:
            kind = MACROS[macro]
            if kind.form != MAP:
                continue
            for k, leaf in enumerate(kind.leaves):
                slot = kind.slot + k
                sources = self._sources.get(slot, ())
                if len(sources) == 1 and slot not in self._widened:
                    (source,) = sources
                    together = self.component_of[source] == self.component_of[macro]
                    earlier = self._ranks[source] < self._ranks[macro]
                    if together and earlier and not leaf.stretched:
                        self.registers[slot] = source
        for component in self.components:
            union = Union(component.macros)
            for slot, source in self.registers.items():
                owner = SLOT_OWNERS[slot].id
                if owner in component.macros:
                    union.join(owner, source)
            component.group = {m: union.find(m) for m in component.macros}

    def _share_pools(self) -> None:
        union = Union(self._ranks)
        for slot, sources in self._sources.items():
            if slot not in self.registers:
                first, *others = sorted(sources)
                for other in others:
                    union.join(first, other)
        self.pools = {m: union.find(m) for m in self._ranks}

    def _find_differentiable(self) -> None:
        found = {m for m in self._ranks if _learns(MACROS[m])}
        grown = True
        while grown:
            grown = False
            for slot, sources in self._sources.items():
                owner = SLOT_OWNERS[slot].id
                if owner not in found and not found.isdisjoint(sources):
                    found.add(owner)
                    grown = True
        self.differentiable = found


def _learns(macro: Macro) -> bool:
    """Whether it reads a parameter, or stands for what may have read one earlier."""
    return macro.form == IMPORT or any(not kind.constant for kind in macro.kinds)


def _pieces(macro: int) -> Iterator[tuple[int, tuple[int, ...]]]:
    """The leaf slots that are pieces of a list, each with all of that list.

    In some graphs the list is longer, and more of them read what others do in all.
    """
    for step in MACROS[macro].steps:
        if step.signature.op.pieces:
            leaves = [n for what, n in step.operands if what == "leaf"]
            slots = tuple([MACROS[macro].slot + n for n in leaves])
            for slot in slots:
                yield slot, slots


class Union:
    """Disjoint sets; a set is known by its least member."""

    def __init__(self, members) -> None:
        self.parent = {m: m for m in members}

    def find(self, x: int) -> int:
        parent = self.parent
        while parent[x] != x:
            parent[x] = x = parent[parent[x]]
        return x

    def join(self, x: int, y: int) -> None:
        x, y = self.find(x), self.find(y)
        self.parent[max(x, y)] = min(x, y)


def _adds_losses(macro: Macro) -> bool:
    """Whether it sums up numbers: of many, sums are summed up again.

    A graph with few of them is to run the program of one with many.
    """
    return macro.form == REDUCE and prod(macro.shape) == 1


def strongly_connected(nodes: list[int], feeds: dict[int, set[int]]) -> list[list[int]]:
    """Strongly connected components, in topological order (Tarjan, in a loop)."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    found: list[list[int]] = []
    for root in nodes:
        if root in index:
            continue
        work = [(root, iter(sorted(feeds[root])))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, successors = work[-1]
            child = next((c for c in successors if c not in index), None)
            if child is not None:
                index[child] = low[child] = len(index)
                stack.append(child)
                on_stack.add(child)
                work.append((child, iter(sorted(feeds[child]))))
                continue
            work.pop()
            for c in feeds[node]:
                if c in on_stack:
                    low[node] = min(low[node], low[c])
            if low[node] == index[node]:
                component: list[int] = []
                while not component or component[-1] != node:
                    component.append(stack.pop())
                    on_stack.discard(component[-1])
                found.append(component)
    return found[::-1]
