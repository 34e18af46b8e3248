"""A part of a graph as arrays: the stored nodes that one run computes, and their reads.

Nodes get local numbers, in the graph's order. Nodes that were computed before and are
read here have the numbers after that. They are no part of it, or stand here as
*imports*, sources with rows to copy.

How long it takes to plan a small graph is a matter of how many calls of NumPy that is.
So the arrays are flat: one entry per row that is read, whichever macro reads it.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from itertools import chain
from operator import itemgetter
from typing import Any, Final, NamedTuple

import numpy as np

from dynetjax.engine.macros import MACROS, Macro, import_of, macro_of_rule
from dynetjax.expression import Expression
from dynetjax.graph import NOTHING, ComputationGraph
from dynetjax.ops.registry import GATHER, MAP, REDUCE
from dynetjax.tables import Found

_NOBODY: np.ndarray = np.zeros(0, np.int64)


class Structure(NamedTuple):
    """What graphs may have in common, which is all but runtime data.

    Attributes:
        macros, lanes: of each node.
        read: the numbers of the nodes that each node reads, in the order of leaves.
        elements: of REDUCE and GATHER nodes that read certain batch elements: which.
    """

    macros: list[int]
    lanes: list[int]
    read: list[tuple[int, ...]]
    elements: list[tuple[int, tuple[int, ...]]]


def structure_of(cells: list[Expression]) -> Structure:
    """The structure of stored nodes; numbers are those that they have in the graph."""
    macros = [cell.rule.macro for cell in cells]
    if -1 in macros:
        macros = [macro_of_rule(cell.rule) for cell in cells]
    read = [cell.inner for cell in cells]
    elements = []
    for k, leaves in enumerate(map(_leaves_of.__getitem__, macros)):
        if leaves is None:
            continue
        if leaves is not _all:
            read[k] = leaves(read[k])
        elif cells[k].data is not None:
            elements.append((k, tuple(cells[k].data)))
    return Structure(macros, [cell.lanes for cell in cells], read, elements)


def _leaves(number: int) -> Callable[[tuple], tuple] | None:
    macro = MACROS[number]
    if _picks(macro):
        return _all
    rows = _rows_among_args(macro)
    if rows is None:
        return None
    if len(rows) > 1:
        return itemgetter(*rows)
    first = rows[0] if rows else 0
    return itemgetter(slice(first, first + len(rows)))


# By macro: what of a node's args its leaves are; None where that is all of them.
_leaves_of: Final = Found(_leaves)


def _picks(macro: Macro) -> bool:
    """Whether its nodes may read certain batch elements."""
    return macro.form in (REDUCE, GATHER)


def _rows_among_args(macro: Macro) -> list[int] | None:
    """Which of a node's args are rows that it reads; None where that is all of them."""
    return None if _picks(macro) or not macro.fields else macro.places


def _all(args: tuple) -> tuple:
    """What nodes read that may have elements, too."""
    return args


class Readers(NamedTuple):
    """Of every row that is read.

    Attributes:
        reader: the node that reads it.
        place: which of its leaves, or operands, it is.
        slot: the number of the leaf; see `Macro`.
    """

    reader: np.ndarray
    place: np.ndarray
    slot: np.ndarray


class Arrays(NamedTuple):
    """Of a section of a graph, in arrays.

    Attributes:
        macro_of: per node, its macro.
        counts: per node, how many rows it reads.
        read: of every row that is read, in the order of readers, the node, or NOTHING.
    """

    macro_of: np.ndarray
    counts: np.ndarray
    read: np.ndarray


def arrays_of(structure: Structure) -> Arrays:
    """The arrays of nodes that have this structure, in a graph's numbers."""
    macros, read = structure.macros, structure.read
    counts = np.fromiter(map(len, read), np.int64, len(macros))
    total = int(np.add.reduce(counts))
    flat = np.fromiter(chain.from_iterable(read), np.int64, total)
    return Arrays(np.array(macros, np.int64), counts, flat)


@dataclass(slots=True)
class Tiling:
    """A section of a graph.

    Attributes:
        cells: the nodes; of imports, those imported.
        start: number of the first of them in the graph.
        older: the numbers in the graph of what was computed before.
        batch: per node, the older ones included.
        nodes: nodes of each macro present, by macro id; arrays, or lists.
        elements: for REDUCE and GATHER nodes that read certain batch elements: which.
        single: no node has more than one batch element.
        blank: leaf slots that read NOTHING.
    """

    cells: list[Expression]
    start: int
    older: np.ndarray
    batch: np.ndarray
    nodes: dict[int, Any]
    elements: dict[int, tuple[int, ...]]
    single: bool
    blank: set[int] = field(default_factory=set)
    _arrays: Arrays | None = None
    _readers: Readers | None = None

    @property
    def arrays(self) -> Arrays:
        """Macros, and what is read."""
        found = self._arrays
        if found is None:
            found = self._arrays = arrays_of(structure_of(self.cells))
        return found

    @property
    def macro_of(self) -> np.ndarray:
        """See `Arrays`."""
        return self.arrays.macro_of

    @property
    def counts(self) -> np.ndarray:
        """See `Arrays`."""
        return self.arrays.counts

    @property
    def read(self) -> np.ndarray:
        """See `Arrays`."""
        return self.arrays.read

    @property
    def readers(self) -> Readers:
        """Who reads each row."""
        found = self._readers
        if found is None:
            count, counts = len(self.counts), self.counts
            reader = np.arange(count).repeat(counts)
            place = np.arange(len(reader)) - (counts.cumsum() - counts).repeat(counts)
            slot = _slots(self.macro_of, reader, place)
            found = self._readers = Readers(reader, place, slot)
        return found

    @property
    def reader(self) -> np.ndarray:
        """See `Readers`."""
        return self.readers.reader

    @property
    def place(self) -> np.ndarray:
        """See `Readers`."""
        return self.readers.place

    @property
    def slot(self) -> np.ndarray:
        """See `Readers`."""
        return self.readers.slot

    def __len__(self) -> int:
        return len(self.cells)

    def key(self) -> tuple:
        """What sections of graphs share that have the same structure."""
        arrays = self.macro_of, self.batch, self.counts, self.read
        return *[a.tobytes() for a in arrays], *self.elements.items()

    def of(self, cells: list[Expression]) -> "Tiling":
        """The same of other nodes, those of a graph of the same structure."""
        about = self.start, self.older, self.batch, self.nodes, self.elements
        known = self.single, self.blank, self._arrays, self._readers
        return Tiling(cells, *about, *known)

    def reads(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The rows of this part that are read: (reader, slot, node read)."""
        real = (self.read != NOTHING) & (self.read < len(self))
        if np.count_nonzero(real) == len(real):
            return self.reader, self.slot, self.read
        return self.reader[real], self.slot[real], self.read[real]

    def columns(self, macro: int) -> np.ndarray:
        """The nodes that the leaves of a MAP macro read, ``[leaf, node]``."""
        mine = self.macro_of[self.reader] == macro
        return self.read[mine].reshape(len(self.nodes[macro]), -1).T

    def not_under(self, roots: Collection[int], ends: np.ndarray) -> np.ndarray:
        """The nodes that no root is made of; `ends` are all that no other reads."""
        if all(node in roots for node in ends.tolist()):
            return _NOBODY
        count = len(self)
        under = bytearray(count + 1)  # the last one is for NOTHING, and for older nodes
        for root in roots:
            under[root] = 1
        read: list[int] = self.read.tolist()
        counts: list[int] = self.counts.tolist()
        end = len(read)
        for node in range(len(counts) - 1, -1, -1):
            start = end - counts[node]
            if under[node]:
                for k in range(start, end):
                    under[min(read[k], count)] = 1
            end = start
        return np.equal(np.frombuffer(under, np.uint8, count), 0).nonzero()[0]


def tile(
    graph: ComputationGraph,
    start: int,
    structure: Structure,
) -> Tiling:
    """The stored nodes of `graph` from `start` on that have the given structure.

    What was computed before and is read stands there as imports.
    """
    arrays = arrays_of(structure)
    read, count = arrays.read, len(structure.macros)
    single = structure.lanes.count(1) == count
    tiling = Tiling(
        graph.cells[start : start + count],
        start,
        _NOBODY,
        ones(count) if single else np.array(structure.lanes),
        _by_macro(arrays.macro_of, 0),
        dict(structure.elements),
        single,
        _arrays=arrays,
    )
    if start:
        _number_older(tiling, graph)
        _import(tiling, graph)
    nothing = read == NOTHING
    if np.count_nonzero(nothing):
        tiling.blank = set(tiling.slot[nothing].tolist())
    return tiling


def _slots(macro_of: np.ndarray, reader: np.ndarray, place: np.ndarray) -> np.ndarray:
    """The slot of each leaf; that of the first, where it stands for all operands."""
    macros = sorted(set(macro_of.tolist()))
    several = [(m.slot, int(m.form == MAP)) for m in map(MACROS.__getitem__, macros)]
    first, step = np.array(several, np.int64).reshape(-1, 2).T
    number = np.array(macros, np.int64).searchsorted(macro_of)[reader]
    return first[number] + step[number] * place


def _by_macro(macro_of: np.ndarray, first: int) -> dict[int, np.ndarray]:
    """The nodes of each macro present, in order; the first has the number `first`."""
    order = macro_of.argsort(kind="stable")
    macros = macro_of[order]
    starts = first_of_each(macros).nonzero()[0].tolist()
    order += first
    ends = [*starts, len(order)][1:]
    several = zip(macros[starts].tolist(), starts, ends, strict=True)
    return {macro: order[start:end] for macro, start, end in several}


def first_of_each(numbers: np.ndarray) -> np.ndarray:
    """Which of them differ from the one before."""
    found: np.ndarray = np.empty(len(numbers), bool)
    found[:1] = True
    np.not_equal(numbers[1:], numbers[:-1], out=found[1:])
    return found


_ones: np.ndarray = np.ones(0, np.int64)


def ones(count: int) -> np.ndarray:
    """As many ones, not to be written to."""
    global _ones
    found = _ones  # another thread may replace it
    if len(found) < count:
        found = _ones = np.ones(2 * count, np.int64)
        found.flags.writeable = False
    return found[:count]


def _number_older(tiling: Tiling, graph: ComputationGraph) -> None:
    """Number what is read from here on, and what was computed before after that."""
    start, count, read = tiling.start, len(tiling.cells), tiling.read
    older = tiling.older = np.unique(read[(read < start) & (read != NOTHING)])
    before = count + np.searchsorted(older, read)
    found = np.where(read < start, before, read - start)
    found = np.where(read == NOTHING, NOTHING, found)
    tiling._arrays = tiling.arrays._replace(read=found)
    lanes = [graph.cells[k].lanes for k in older.tolist()]
    tiling.batch = np.append(tiling.batch, np.array(lanes, np.int64))
    tiling.single = tiling.single and lanes.count(1) == len(lanes)


def _import(tiling: Tiling, graph: ComputationGraph) -> None:
    """Let what was computed before stand among the nodes."""
    count = len(tiling.cells)
    tiling.cells += [graph.cells[k] for k in tiling.older.tolist()]
    macros = [import_of(macro_of_rule(cell.rule)) for cell in tiling.cells[count:]]
    imports = np.array(macros, np.int64)
    macro_of = np.append(tiling.macro_of, imports)
    tiling._arrays = tiling.arrays._replace(macro_of=macro_of)
    tiling.nodes |= _by_macro(imports, count)
