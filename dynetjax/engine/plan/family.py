"""Program families: what graphs of one kind have shown, and what follows from it.

Draw an edge from op A to op B where a node of A feeds one of B: the strongly connected
components, in topological order, are the program. Facts only widen, so that graphs of
one kind settle on one program.
"""

from math import prod
from typing import Any

import numpy as np

from dynetjax.core.dims import Shape
from dynetjax.core.registry import MAP, REDUCE
from dynetjax.engine.device import host_sees_device
from dynetjax.engine.ir.fused import FUSED_OPS, FusedOp
from dynetjax.engine.plan.capacities import Capacities, Row
from dynetjax.engine.plan.components import strongly_connected
from dynetjax.engine.plan.facts import Facts, ints, offsets

ABSENT = 4  # graphs in a row without an op, after which its loop does without it


class Family:
    """What was seen of graphs with the same roots.

    Its ops are fused ops by order of first appearance: within a cell of a network, what
    feeds comes before what is fed.

    Attributes:
        version: raised whenever a fact widens.
        hoisted: the version at which loops were last searched for what need not be in
            them.
        ops: the fused ops.
        components: the ops of each, in topological order.
        component: of each op.
        twins: ops of a loop that compute what others in it do, and which these are.
        cyclic: of each component, whether it is a loop.
        facts: the same for the planner.
        aligned: by op and leaf, the op that it reads in the same lane of the same trip,
            as far as that always was so.
        differentiable: ops whose results depend on a parameter.
        capacities: the sizes in use; `rows` is what a row of each array takes.
        width_choices: what settles on the width of each component.
        bindings: programs of this version, by what they depend on.
    """

    def __init__(self, patience: dict[int, int] | None = None) -> None:
        self.version: int = 0
        self.hoisted: int = 0
        self.ops: list[FusedOp] = []
        self.components: list[tuple[int, ...]] = []
        self.component: list[int] = []
        self.twins: dict[int, int] = {}
        self.cyclic: list[bool] = []
        none, known = ints([]), _none_known(0, 0)
        self.facts: Facts = Facts(none, none, ints([0]), none, none, known)
        self.aligned: dict[tuple[int, int], int] = {}
        self._apart: set[tuple[int, int]] = set()  # leaves that were not aligned
        self.differentiable: set[int] = set()
        self.capacities: Capacities = Capacities()
        self.rows: dict[int | Shape, Row] = {}
        self.width_choices: list[Any] = []
        self.bindings: dict[Any, Any] = {}
        self._numbers: dict[int, int] = {}  # of ops, by those of fused ops
        self._groups: list[list[int]] = []  # of each op's leaves
        self._sources: list[set[int]] = []  # by group of leaves, the ops that feed it
        self._absent: list[int] = []  # how many of the last graphs had no node of an op
        self._patience: dict[int, int] = patience or {}  # with that, by fused op

    def observe(self, flat: Any) -> None:
        """Take in what a graph shows, and say which ops its nodes are."""
        new = [number for number in flat.fused if number not in self._numbers]
        for number in new:
            self._add(number)
        if new:
            self._number()
        flat.bind([self._numbers[number] for number in flat.fused])
        edges = flat.edges(self.facts)
        for group, op in edges:
            self._sources[group].add(op)
        if new or edges:
            self._rebuild()

    def renewed(self, fused: list[int]) -> "Family":
        """What takes its place for a graph of these fused ops: mostly itself.

        A loop runs all of its ops in every trip. So where one was absent for some
        graphs, as those for a list are that has outgrown its capacity, facts are
        collected anew. An op that comes back is waited for twice as long then, so that
        programs settle.
        """
        here = {self._numbers[number] for number in fused if number in self._numbers}
        for op in range(len(self.ops)):
            self._absent[op] = 0 if op in here else self._absent[op] + 1
        idle = [
            number
            for number, op in self._numbers.items()
            if len(self.components[self.component[op]]) > 1
            and self._absent[op] >= self._patience.get(number, ABSENT)
        ]
        if not idle:
            return self
        longer = {number: 2 * self._patience.get(number, ABSENT) for number in idle}
        return Family(self._patience | longer)

    def op(self, number: int) -> int:
        """The op that a fused op is."""
        return self._numbers[number]

    def knows(self, number: int) -> bool:
        """Whether a fused op was seen."""
        return number in self._numbers

    def is_outdated(self, inner: set[int], whole: set[int]) -> bool:
        """Whether an op was seen that no graph has any more: `FusedOp.is_outdated`."""
        return any(op.is_outdated(inner, whole) for op in self.ops)

    def sources(self, op: int, leaf: int) -> set[int]:
        """The ops whose rows a leaf was seen to read."""
        return self._sources[self._groups[op][leaf]]

    def differs(self, op: int, leaf: int) -> bool:
        """Whether a gradient flows back through a leaf."""
        return not self.differentiable.isdisjoint(self.sources(op, leaf))

    def part(self, leaves: list[tuple[int, int]]) -> None:
        """Read these leaves, by op and number, from pools from now on."""
        self._apart.update(leaves)
        self._rebuild()

    def part_from(self, op: int) -> None:
        """Have the rows of an op read from its pool, where gradients are added up."""
        leaves = [leaf for leaf, source in self.aligned.items() if source == op]
        if leaves:
            self.part(leaves)

    def _add(self, number: int) -> None:
        fused, op = FUSED_OPS[number], len(self.ops)
        groups = [*range(len(self._sources), len(self._sources) + len(fused.leaves))]
        self._sources += [set() for _ in groups]
        for step in fused.steps:
            if step.signature.op.pieces:  # in some graphs the list has more of them
                leaves = [n for role, n in step.operands if role == "leaf"]
                for leaf in leaves:
                    groups[leaf] = groups[leaves[0]]
        if fused.form == REDUCE and prod(fused.shape) == 1:
            # A sum of numbers: of many, sums are summed up again, by this program, too.
            self._sources[groups[0]].add(op)
        self._numbers[number] = op
        self._absent.append(0)
        self.ops.append(fused)
        self._groups.append(groups)

    def _number(self) -> None:
        """Have the planner know new ops, in components that are found later."""
        known = _none_known(len(self._sources), len(self.ops))
        groups, ops = self.facts.known.shape
        known[:groups, :ops] = self.facts.known
        component = ints([0] * len(self.ops))
        leaves = ints([group for groups in self._groups for group in groups])
        first = offsets(self._groups)
        aligned = ints([0] * len(leaves))
        self.facts = Facts(component, ints([0]), first, leaves, aligned, known)

    def _rebuild(self) -> None:
        self.version += 1
        self.rows, self.width_choices, self.bindings = {}, [], {}
        count = len(self.ops)
        feeds: dict[int, set[int]] = {op: set() for op in range(count)}
        for op, groups in enumerate(self._groups):
            for group in groups:
                for source in self._sources[group]:
                    feeds[source].add(op)
        components, self.twins = _merged(feeds, [op.computes for op in self.ops])
        self.components = [tuple(sorted(ops)) for ops in components]
        self.component = [0] * count
        for number, ops in enumerate(self.components):
            for op in ops:
                self.component[op] = number
        self.cyclic = [len(ops) > 1 or ops[0] in feeds[ops[0]] for ops in components]
        self.facts.component = ints(self.component)
        self.facts.cyclic = ints(self.cyclic)
        self._find_aligned()
        self._find_differentiable(feeds)

    def _find_aligned(self) -> None:
        """Take leaves to be aligned that may be, and were not seen otherwise."""
        self.aligned = {
            (op, leaf): source
            for op, fused in enumerate(self.ops)
            if fused.form == MAP and self.cyclic[self.component[op]]
            for leaf, spec in enumerate(fused.leaves)
            if len(self.sources(op, leaf)) == 1
            for source in self.sources(op, leaf)
            if source < op
            and self.component[source] == self.component[op]
            and not spec.broadcast
            and (op, leaf) not in self._apart
        }
        self.facts.aligned[:] = 0
        for op, leaf in self.aligned:
            self.facts.aligned[self.facts.first[op] + leaf] = 1

    def _find_differentiable(self, feeds: dict[int, set[int]]) -> None:
        self.differentiable = set()
        new = [
            op
            for op, fused in enumerate(self.ops)
            if any(not kind.constant for kind in fused.kinds)
        ]
        while new:
            op = new.pop()
            if op not in self.differentiable:
                self.differentiable.add(op)
                new.extend(feeds[op])


def _merged(
    feeds: dict[int, set[int]], computes: list[Any]
) -> tuple[list[list[int]], dict[int, int]]:
    """Components, equal loops in one where neither needs the other; and their twins.

    So the two directions of a BiLSTM take one loop, on a device where each trip and
    each kernel costs more than its lanes. Where the host sees the device, a trip costs
    little, and each loop is one of its own.
    """
    nodes, links = [*feeds], {op: set(fed) for op, fed in feeds.items()}
    components = strongly_connected(nodes, links)
    twins: dict[int, int] = {}
    if host_sees_device():
        return components, twins
    loops = [sorted(ops) for ops in components if len(ops) > 1]
    for n, loop in enumerate(loops):
        for other in loops[:n]:
            a, b = loop[0], other[0]
            alike = [computes[op] for op in loop] == [computes[op] for op in other]
            if b in twins or not alike:
                continue
            if a not in _reached(b, links) and b not in _reached(a, links):
                links[a].add(b)
                links[b].add(a)
                twins |= zip(loop, other, strict=True)
                break
    return (strongly_connected(nodes, links) if twins else components), twins


def _reached(op: int, links: dict[int, set[int]]) -> set[int]:
    """The ops that one leads to."""
    found: set[int] = set()
    new = [op]
    while new:
        for fed in links[new.pop()] - found:
            found.add(fed)
            new.append(fed)
    return found


def _none_known(groups: int, ops: int) -> np.ndarray:
    return np.zeros((groups, ops), np.uint8)
