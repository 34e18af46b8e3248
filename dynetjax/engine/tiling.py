"""A part of a graph as arrays: the stored nodes that one run computes, by macro.

Nodes get local numbers, in the graph's order. A node that an earlier run computed
stands here as an *import*, a source with rows to copy; imports come last.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from dynetjax.engine.macros import MACROS, import_of, macro_of_rule
from dynetjax.expression import Expression
from dynetjax.graph import NOTHING, ComputationGraph
from dynetjax.ops.registry import GATHER, MAP, REDUCE

Reads = tuple[np.ndarray, np.ndarray, np.ndarray]


@dataclass(slots=True)
class Tiling:
    """A section of a graph.

    Attributes:
        cells: the nodes; of imports, those imported.
        start: number of the first of them in the graph.
        imports: the numbers of those imported.
        batch, macro_of: per node.
        nodes: nodes of each macro present, by macro id.
        columns: for each macro, per leaf, the node that each of its nodes reads, or
            NOTHING; for REDUCE and GATHER see `rows`.
        rows: for each REDUCE or GATHER macro, the arrays (reader, operand position,
            node read), one entry per operand.
        elements: for REDUCE and GATHER nodes that read certain batch elements: which.
        args: for each macro with runtime data, the args of its nodes, transposed.
        single: no node has more than one batch element.
        blank: leaf slots that read NOTHING, once `reads` has looked.
    """

    cells: list[Expression]
    start: int
    imports: np.ndarray
    batch: np.ndarray
    macro_of: np.ndarray
    nodes: dict[int, np.ndarray]
    columns: dict[int, np.ndarray]
    rows: dict[int, Reads]
    elements: dict[int, list[int]]
    args: dict[int, list[tuple]]
    single: bool = True
    blank: set[int] = field(default_factory=set)

    def __len__(self) -> int:
        return len(self.cells)

    def key(self) -> tuple:
        """What graphs of the same structure share."""
        arrays = [self.macro_of, self.batch, *self.columns.values()]
        arrays += [a for parts in self.rows.values() for a in parts]
        elements = tuple((n, tuple(e)) for n, e in self.elements.items())
        return (*[a.tobytes() for a in arrays], elements)

    def reads(self) -> Reads:
        """Every stored row that is read: (reader, slot, node read).

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
        real = nodes != NOTHING
        if real.all():
            return readers, slots, nodes
        self.blank = set(slots[~real].tolist())
        return readers[real], slots[real], nodes[real]


def tile(
    graph: ComputationGraph, start: int, stop: int, origin: Callable[[int], int]
) -> Tiling:
    """The stored nodes of `graph` from `start` on and before `stop`.

    `origin(number)` tells which macro computed an earlier node.
    """
    cells = graph.cells[start:stop]
    macros = [cell.rule.macro for cell in cells]
    if -1 in macros:
        macros = [macro_of_rule(cell.rule) for cell in cells]
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
        _import(tiling, graph, origin)
    tiling.single = bool((tiling.batch == 1).all())
    return tiling


def _take_in(tiling: Tiling, macro: int, nodes: np.ndarray, args: list[tuple]) -> None:
    """Add the nodes of one macro; what they read by its number in the graph."""
    kind, cells = MACROS[macro], tiling.cells
    tiling.nodes[macro] = nodes
    if kind.form == MAP:
        if kind.fields:
            by_place = tiling.args[macro] = list(zip(*args, strict=True))
            args = [by_place[p] for p in kind.places]
            columns = np.array(args, np.int64).reshape(len(args), len(nodes))
        else:
            columns = np.array(args, np.int64).T
        tiling.columns[macro] = columns
    elif kind.form in (REDUCE, GATHER):
        counts = [len(a) for a in args]
        position = np.array([k for n in counts for k in range(n)], np.int64)
        read = np.array([x for a in args for x in a], np.int64)
        tiling.rows[macro] = np.repeat(nodes, counts), position, read
        for k in nodes.tolist():
            if cells[k].data is not None:
                tiling.elements[k] = cells[k].data


def _import(
    tiling: Tiling, graph: ComputationGraph, origin: Callable[[int], int]
) -> None:
    """Number what is read from here on, and import what lies before."""
    start, count = tiling.start, len(tiling.cells)
    read = [c.ravel() for c in tiling.columns.values()]
    read += [parts[2] for parts in tiling.rows.values()]
    every = np.concatenate([*read, np.zeros(0, np.int64)])
    old = tiling.imports = np.unique(every[(every < start) & (every != NOTHING)])
    number = np.empty(start + count + 1, np.int64)
    number[NOTHING] = NOTHING
    number[old] = count + np.arange(len(old))
    number[start : start + count] = np.arange(count)
    tiling.columns = {m: number[c] for m, c in tiling.columns.items()}
    tiling.rows = {m: (r, p, number[x]) for m, (r, p, x) in tiling.rows.items()}
    groups: dict[int, list[int]] = {}
    for k, cell in enumerate(old.tolist(), count):
        groups.setdefault(import_of(origin(cell)), []).append(k)
        tiling.cells.append(graph.cells[cell])
    more = [cell.lanes for cell in tiling.cells[count:]]
    tiling.batch = np.append(tiling.batch, np.array(more, np.int64))
    tiling.macro_of = np.append(tiling.macro_of, np.empty(len(more), np.int64))
    for macro in sorted(groups):
        tiling.nodes[macro] = np.array(groups[macro], np.int64)
        tiling.macro_of[groups[macro]] = macro
