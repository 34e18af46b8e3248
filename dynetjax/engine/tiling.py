"""A part of a graph as arrays: the stored nodes that one run computes, by macro.

Nodes get local numbers, in the graph's order. Nodes that were computed before and are
read here have the numbers after that. They are no part of it, or stand here as
*imports*, sources with rows to copy.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any

import numpy as np

from dynetjax.engine.macros import MACROS, Macro, import_of, macro_of_rule
from dynetjax.expression import Expression
from dynetjax.graph import NOTHING, ComputationGraph
from dynetjax.ops.registry import GATHER, JOIN, MAP, REDUCE

Reads = tuple[np.ndarray, np.ndarray, np.ndarray]


@dataclass(slots=True)
class Tiling:
    """A section of a graph.

    Attributes:
        cells: the nodes; of imports, those imported.
        start: number of the first of them in the graph.
        older: the numbers in the graph of what was computed before.
        batch: per node, the older ones included.
        macro_of: per node.
        nodes: nodes of each macro present, by macro id.
        columns: for each macro, per leaf, the node that each of its nodes reads, or
            NOTHING; for REDUCE, GATHER and JOIN see `rows`.
        rows: for each macro of those forms, the arrays (reader, operand position,
            node read), one entry per operand.
        elements: for REDUCE and GATHER nodes that read certain batch elements: which.
        single: no node has more than one batch element.
        blank: leaf slots that read NOTHING, once `reads` has looked.
    """

    cells: list[Expression]
    start: int
    older: np.ndarray
    batch: np.ndarray
    macro_of: np.ndarray
    nodes: dict[int, np.ndarray]
    columns: dict[int, np.ndarray]
    rows: dict[int, Reads]
    elements: dict[int, list[int]]
    single: bool = True
    blank: set[int] = field(default_factory=set)

    def __len__(self) -> int:
        return len(self.cells)

    def key(self) -> tuple:
        """What parts of graphs share that have the same structure."""
        arrays = [self.macro_of, self.batch, *self.columns.values()]
        arrays += [a for parts in self.rows.values() for a in parts]
        elements = tuple((n, tuple(e)) for n, e in self.elements.items())
        return (*[a.tobytes() for a in arrays], elements)

    def of(self, cells: list[Expression]) -> "Tiling":
        """The same of other nodes, those of a graph of the same structure."""
        return replace(self, cells=cells)

    def reads(self) -> Reads:
        """Every row of this part that is read: (reader, slot, node read).

        The slots that read NOTHING somewhere go to `blank`.
        """
        parts = [
            (self.nodes[m], MACROS[m].slot + k, column)
            for m, columns in self.columns.items()
            for k, column in enumerate(columns)
        ]
        parts += [
            (reader, MACROS[m].slot, read) for m, (reader, _, read) in self.rows.items()
        ]
        if not parts:
            nothing = np.zeros(0, np.int64)
            return nothing, nothing, nothing
        reader, slot, read = zip(*parts, strict=True)
        counts = [len(r) for r in read]
        readers, slots = np.concatenate(reader), np.repeat(slot, counts)
        nodes = np.concatenate(read)
        real = (nodes != NOTHING) & (nodes < len(self))
        if real.all():
            return readers, slots, nodes
        self.blank = set(slots[nodes == NOTHING].tolist())
        return readers[real], slots[real], nodes[real]

    def not_under(self, root: int, ends: np.ndarray) -> np.ndarray:
        """The nodes that `root` is not made of; `ends` are all that no other reads."""
        left = ends[ends != root].tolist()
        if not left:
            return np.zeros(0, np.int64)
        reader, _, read = self.reads()
        order = np.argsort(reader, kind="stable")
        first = np.searchsorted(reader[order], np.arange(len(self) + 1)).tolist()
        readers = np.bincount(read, minlength=len(self)).tolist()
        operands = read[order].tolist()
        found = []
        while left:
            node = left.pop()
            found.append(node)
            for x in operands[first[node] : first[node + 1]]:
                readers[x] -= 1
                if not readers[x] and x != root:
                    left.append(x)
        return np.array(found, np.int64)


def macros_of(cells: list[Expression]) -> list[int]:
    """The macro of each node."""
    macros = [cell.rule.macro for cell in cells]
    if -1 in macros:
        macros = [macro_of_rule(cell.rule) for cell in cells]
    return macros


def structure_of(cells: list[Expression]) -> tuple:
    """What whole graphs of the same structure share; it takes less time than a key."""
    macros = macros_of(cells)
    inner: list[Any] = [cell.inner for cell in cells]
    for m in set(macros).difference(_structural):
        _structural[m] = _structural_args(MACROS[m])
    for k, args in [(k, _structural[m]) for k, m in enumerate(macros)]:
        if args is not None:
            inner[k] = args(cells[k])
    return tuple(macros), tuple([cell.lanes for cell in cells]), tuple(inner)


# By macro: what of a node's args is structure, or None where all of them are.
_structural: dict[int, Callable[[Expression], Any] | None] = {}


def _structural_args(macro: Macro) -> Callable[[Expression], Any] | None:
    if macro.form in (REDUCE, GATHER):
        return _args_with_elements
    if not macro.fields:
        return None
    if not macro.places:
        return lambda cell: ()
    chosen = itemgetter(*macro.places)
    return lambda cell: chosen(cell.inner)


def _args_with_elements(cell: Expression) -> Any:
    return cell.inner if cell.data is None else (cell.inner, tuple(cell.data))


def tile(
    graph: ComputationGraph, start: int, stop: int, importing: bool = True
) -> Tiling:
    """The stored nodes of `graph` from `start` on and before `stop`.

    With `importing`, what was computed before and is read stands there as imports.
    """
    cells = graph.cells[start:stop]
    macros = macros_of(cells)
    tiling = Tiling(
        cells,
        start,
        np.zeros(0, np.int64),
        np.array([cell.lanes for cell in cells], np.int64),
        np.array(macros, np.int64),
        {},
        {},
        {},
        {},
    )
    order = np.argsort(tiling.macro_of, kind="stable")
    args = [cells[k].inner for k in order.tolist()]
    ends = np.flatnonzero(np.diff(tiling.macro_of[order], append=-1)) + 1
    first = 0
    for end in ends.tolist():
        nodes = order[first:end]
        _take_in(tiling, macros[nodes[0]], nodes, args[first:end])
        first = end
    if start:
        _number_older(tiling, graph)
        if importing:
            _import(tiling, graph)
    tiling.single = bool((tiling.batch == 1).all())
    return tiling


def _take_in(tiling: Tiling, macro: int, nodes: np.ndarray, args: list[tuple]) -> None:
    """Add the nodes of one macro; what they read by its number in the graph."""
    kind, cells = MACROS[macro], tiling.cells
    tiling.nodes[macro] = nodes
    if kind.form == MAP:
        if kind.fields:
            by_place = list(zip(*args, strict=True))
            args = [by_place[p] for p in kind.places]
            columns = np.array(args, np.int64).reshape(len(args), len(nodes))
        else:
            columns = np.array(args, np.int64).T
        tiling.columns[macro] = columns
    elif kind.form in (REDUCE, GATHER, JOIN):
        counts = [len(a) for a in args]
        position = np.array([k for n in counts for k in range(n)], np.int64)
        read = np.array([x for a in args for x in a], np.int64)
        tiling.rows[macro] = np.repeat(nodes, counts), position, read
        for k in nodes.tolist():
            if cells[k].data is not None:
                tiling.elements[k] = cells[k].data


def _number_older(tiling: Tiling, graph: ComputationGraph) -> None:
    """Number what is read from here on, and what was computed before after that."""
    start, count = tiling.start, len(tiling.cells)
    read = [c.ravel() for c in tiling.columns.values()]
    read += [parts[2] for parts in tiling.rows.values()]
    every = np.concatenate([*read, np.zeros(0, np.int64)])
    older = tiling.older = np.unique(every[(every < start) & (every != NOTHING)])

    def local(numbers: np.ndarray) -> np.ndarray:
        before = count + np.searchsorted(older, numbers)
        found = np.where(numbers < start, before, numbers - start)
        return np.where(numbers == NOTHING, NOTHING, found)

    tiling.columns = {m: local(c) for m, c in tiling.columns.items()}
    tiling.rows = {m: (r, p, local(x)) for m, (r, p, x) in tiling.rows.items()}
    lanes = [graph.cells[k].lanes for k in older.tolist()]
    tiling.batch = np.append(tiling.batch, np.array(lanes, np.int64))


def _import(tiling: Tiling, graph: ComputationGraph) -> None:
    """Let what was computed before stand among the nodes."""
    count = len(tiling.cells)
    tiling.cells += [graph.cells[k] for k in tiling.older.tolist()]
    macros = [import_of(macro_of_rule(cell.rule)) for cell in tiling.cells[count:]]
    tiling.macro_of = np.append(tiling.macro_of, np.array(macros, np.int64))
    for macro in sorted(set(macros)):
        tiling.nodes[macro] = count + np.flatnonzero(tiling.macro_of[count:] == macro)
