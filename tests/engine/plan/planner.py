"""The planner in Python: the second source of the one in C++, `core.FlatGraph`."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dynetjax.engine.native.core import StoredNodes
from dynetjax.engine.plan.facts import Addresses, Facts, ints
from dynetjax.engine.plan.flat import COPIES

NOTHING = -1  # zeros, which are no node


class FlatGraph:
    """The stored nodes of a graph from `start` on.

    Nodes have local numbers, in the graph's order. Nodes that an earlier run computed
    and that are read here follow as *imports*: rows that are copied in.

    Args:
        stored: all stored nodes of the graph.
        start: number of the first that is taken.
        read_by: by number of a fused op, how its nodes read others.
        imported: gives the fused op that stands for rows of another.

    Attributes:
        count: nodes, without imports.
        older: numbers in the graph of the nodes that are imported.
        fused: numbers of the fused ops of its nodes, in order of first appearance.
    """

    def __init__(
        self,
        stored: StoredNodes,
        start: int,
        read_by: Callable[[int], int],
        imported: Callable[[int], int],
    ):
        self.count: int = len(stored) - start
        self.older: list[int] = []
        self.fused: list[int] = []
        self._kinds: dict[int, int] = {}  # by number of a fused op, its place there
        self._op: list[int] = []  # of each node; its place there, until `bind`
        self._lanes: list[int] = []
        self._read: list[Sequence[int]] = []
        self._chosen: dict[int, Sequence[int]] = {}  # batch elements, by node
        self._copies: set[int] = set()  # nodes that copy rows of others lane by lane
        self._position: list[int] = []
        self._row: list[int] = []
        for node, number in enumerate(range(start, len(stored))):
            fused = stored.fused(number)
            form = read_by(fused)
            self._add(fused, stored.lanes(number), stored.reads(number))
            chosen = stored.data(number)
            if form and chosen:
                self._chosen[node] = chosen
            if form == COPIES:
                self._copies.add(node)
        if start:
            self._import(stored, start, imported)

    def _add(self, fused: int, lanes: int, read: Sequence[int]) -> None:
        kind = self._kinds.get(fused)
        if kind is None:
            kind = self._kinds[fused] = len(self.fused)
            self.fused.append(fused)
        self._op.append(kind)
        self._lanes.append(lanes)
        self._read.append(read)

    def _import(
        self,
        stored: StoredNodes,
        start: int,
        imported: Callable[[int], int],
    ) -> None:
        """Number what is read from here on, and what was computed before after that."""
        older = {r for read in self._read for r in read if NOTHING < r < start}
        self.older = sorted(older)
        local = {r: self.count + k for k, r in enumerate(self.older)}
        local[NOTHING] = NOTHING
        self._read = [
            [r - start if r >= start else local[r] for r in read] for read in self._read
        ]
        for r in self.older:
            self._add(imported(stored.fused(r)), stored.lanes(r), ())

    def bind(self, ops: Sequence[int]) -> None:
        """Say which op of a program family each of its fused ops is."""
        self._op = [ops[kind] for kind in self._op]

    def edges(self, facts: Facts) -> list[tuple[int, int]]:
        """Pairs of a group of leaves and an op that feeds it, which are new.

        They are known then.
        """
        first, groups, known = facts.first.tolist(), facts.groups.tolist(), facts.known
        met = {
            (groups[min(first[op] + k, first[op + 1] - 1)], self._op[r])
            for op, read in zip(self._op, self._read, strict=True)
            for k, r in enumerate(read)
            if r != NOTHING
        }
        new = [pair for pair in met if not known[pair]]
        for pair in new:
            known[pair] = 1
        return new

    def levels(self, facts: Facts) -> list[list[int]]:
        """Of each component, the lanes in each of its levels.

        A node in a cyclic component is a level above those of its component that it
        reads, but in the level of those that run before it in a trip.
        """
        component, cyclic = facts.component.tolist(), facts.cyclic.tolist()
        level: list[int] = []
        lanes: dict[tuple[int, int], int] = {}
        levels: list[list[int]] = [[] for _ in cyclic]
        for op, read, count in zip(self._op, self._read, self._lanes, strict=True):
            at, here = 0, component[op]
            if cyclic[here]:
                for r in read:
                    if r != NOTHING and component[self._op[r]] == here:
                        at = max(at, level[r] + (self._op[r] >= op))
            level.append(at)
            lanes[op, at] = lanes.get((op, at), 0) + count
            counts = levels[here]
            counts.extend([0] * (at + 1 - len(counts)))
            counts[at] = max(counts[at], lanes[op, at])
        return levels

    def place(self, facts: Facts, widths: Sequence[int]) -> list[int]:
        """Give every node its lanes; how many trips each component makes.

        A component runs `widths` lanes of each of its ops in a trip. A node of a loop
        runs in the first trip that has room for it after those that it reads; other
        nodes follow one another.
        """
        component, cyclic = facts.component.tolist(), facts.cyclic.tolist()
        trips = [0] * len(cyclic)
        last: list[int] = []  # the trip that completes each node
        taken = [_Taken() for _ in component]
        end = [0] * len(component)
        self._position = []
        for op, read, count in zip(self._op, self._read, self._lanes, strict=True):
            here = component[op]
            width = widths[here]
            if cyclic[here]:
                ready = 0
                for r in read:
                    if r != NOTHING and component[self._op[r]] == here:
                        ready = max(ready, last[r] + (self._op[r] >= op))
                at, trip = taken[op].take(ready, count, width)
                last.append(trip)
                trips[here] = max(trips[here], trip + 1)
            else:
                at, end[op] = end[op], end[op] + count
                last.append(0)
                trips[here] = max(trips[here], -(-end[op] // width))
            self._position.append(at)
        return trips

    def unaligned(self, facts: Facts) -> list[tuple[int, int]]:
        """Leaves that are taken to be aligned and are not: their ops and numbers."""
        first, aligned = facts.first.tolist(), facts.aligned.tolist()
        unaligned = set()
        for node, (op, read) in enumerate(zip(self._op, self._read, strict=True)):
            here = self._position[node], self._lanes[node]
            for leaf in range(min(len(read), first[op + 1] - first[op])):
                if aligned[first[op] + leaf]:
                    r = read[leaf]
                    if r == NOTHING or (self._position[r], self._lanes[r]) != here:
                        unaligned.add((op, leaf))
        return sorted(unaligned)

    def write(self, addresses: Addresses, bases: Sequence[int], buffer: Any) -> None:
        """Write which lanes are real, and the rows they read, into an index buffer.

        Args:
            bases: first row of each op.
        """
        pairs = zip(self._op, self._position, strict=True)
        self._row = [bases[op] + at for op, at in pairs]
        for node, op in enumerate(self._op):
            at, count = self._position[node], self._lanes[node]
            valid = addresses.valid[op] + at
            buffer[valid : valid + count] = 1
            for k, rows in enumerate(self._rows_read(node)):
                column = addresses.leaves[addresses.first[op] + k]
                if column >= 0:
                    buffer[column + at : column + at + count] = rows

    def _rows_read(self, node: int) -> list[Any]:
        """For each operand of a node, the rows that its lanes read."""
        row, read, chosen = self._row, self._read[node], self._chosen.get(node)
        if node in self._copies:
            if chosen is not None:
                return [row[read[0]] + np.array(chosen)]
            each = [row[r] + np.arange(self._lanes[r]) for r in read]
            return [np.concatenate(each)]
        if chosen is not None:
            return [row[r] + e for r, e in zip(read, chosen, strict=True)]
        by_operand: list[Any] = []
        for r in read:
            rows: Any = 0 if r == NOTHING else row[r]
            if r != NOTHING and self._lanes[r] > 1:
                rows = rows + np.arange(self._lanes[r])
            by_operand.append(rows)
        return by_operand

    def row(self, node: int) -> int:
        """The first row of a node in its pool."""
        return self._row[node]

    def nodes(self, op: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The nodes of an op, their first lanes, and their batch sizes."""
        numbers = [n for n, other in enumerate(self._op) if other == op]
        positions = [self._position[n] for n in numbers]
        return ints(numbers), ints(positions), ints([self._lanes[n] for n in numbers])

    def rows(self, ops: int) -> list[int]:
        """How many rows each of so many ops has."""
        counts = [0] * ops
        for op, count in zip(self._op, self._lanes, strict=True):
            counts[op] += count
        return counts

    def unused(self, root: int) -> list[int]:
        """The nodes that `root` is not made of."""
        under = [False] * len(self._op)
        under[root] = True
        for node in range(root, -1, -1):
            if under[node]:
                for r in self._read[node]:
                    if r != NOTHING:
                        under[r] = True
        return [node for node, reached in enumerate(under) if not reached]

    def clear(self, nodes: Sequence[int], addresses: Addresses, buffer: Any) -> None:
        """Let the lanes of some nodes be empty in an index buffer."""
        for node in nodes:
            op, at, count = self._op[node], self._position[node], self._lanes[node]
            leaves = addresses.leaves[addresses.first[op] : addresses.first[op + 1]]
            for column in (addresses.valid[op], *leaves[leaves >= 0]):
                buffer[column + at : column + at + count] = 0


class _Taken:
    """The trips of one op in a loop: lanes that are taken, and where there is room."""

    def __init__(self) -> None:
        self._taken: list[int] = []
        self._next: list[int] = []  # the trip itself, or a later one if it is full

    def take(self, ready: int, lanes: int, width: int) -> tuple[int, int]:
        """The first lane, and the last trip, of a node that may run from `ready` on."""
        if lanes > width:  # several trips that nothing else is in
            trip, more = max(ready, len(self._taken)), (lanes - 1) // width
            for _ in range(more):
                self._fill(trip, width, width)
                trip += 1
            self._fill(trip, lanes - more * width, width)
            return (trip - more) * width, trip
        trip = self._first_with_room(ready, width - lanes)
        at = trip * width + self._taken[trip]
        self._fill(trip, lanes, width)
        return at, trip

    def _fill(self, trip: int, lanes: int, width: int) -> None:
        self._grow(trip + 1)
        self._taken[trip] += lanes
        if self._taken[trip] == width:
            self._next[trip] = trip + 1

    def _grow(self, trips: int) -> None:
        while len(self._taken) < trips:
            self._next.append(len(self._taken))
            self._taken.append(0)

    def _first_with_room(self, ready: int, most: int) -> int:
        """The first trip from `ready` on in which no more than `most` are taken."""
        self._grow(ready + 1)
        trip = ready
        while True:
            passed = []
            while trip < len(self._next) and self._next[trip] != trip:
                passed.append(trip)
                trip = self._next[trip]
            for full in passed:
                self._next[full] = trip
            self._grow(trip + 1)
            if self._taken[trip] <= most:
                return trip
            trip += 1
