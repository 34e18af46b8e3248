"""Increments: a few nodes that were added to a graph after it was read.

An increment reads older rows in the graph's archive and adds its own, by a program
without loops: one call. What is decided about it is kept by its *pattern*: the rules of
its nodes and what they read, whatever older nodes those are. So a step of a parser is
planned once.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dynetjax.engine import sequences
from dynetjax.engine.archive import Archive
from dynetjax.engine.draws import Draws, undrawn
from dynetjax.engine.fused import Part
from dynetjax.engine.macros import MACROS, macro_of_rule
from dynetjax.engine.places import places_of
from dynetjax.engine.program import empty
from dynetjax.engine.reads import reads_of
from dynetjax.engine.schedule import Block, Schedule
from dynetjax.engine.sequences import Sequence, alike, choose
from dynetjax.engine.stats import note_work, phase
from dynetjax.engine.steps import Step, heads_of
from dynetjax.engine.structure import Component
from dynetjax.engine.tape import Column, Lanes, TapeWriter
from dynetjax.engine.tiling import Tiling, structure_of, tile
from dynetjax.engine.uniforms import Uniforms
from dynetjax.expression import Expression
from dynetjax.graph import NOTHING, ComputationGraph
from dynetjax.ops.registry import GATHER, JOIN, MAP, REDUCE
from dynetjax.tables import forgets

Array = Any

WIDTHS = (1, 4, 16, 32, 64)  # lanes of all macros of a sequence
LONGEST = 64  # sequence
MOST_TIMES = 2  # that a macro may occur in one; what recurs more often is for a loop
MOST_PATTERNS = 4096

_patterns: dict[tuple, "Pattern | None"] = {}
_unknown: Any = object()
_lock = threading.RLock()


@forgets
def _forget() -> None:
    with _lock:
        _patterns.clear()
        sequences.forget()


@dataclass(slots=True)
class Group:
    """Nodes of one macro that run together.

    Attributes:
        tiling: of these nodes alone, which have the numbers that they have in the
            increment; without the nodes themselves.
        layout: where all nodes are, and the first row of these.
        lanes: of the macro, once found.
        step: what runs.
        start: where its tape begins.
    """

    tiling: Tiling
    layout: Schedule
    lanes: dict[int, Lanes]
    step: Step
    start: int

    @property
    def macro(self) -> int:
        return self.step.wires.macros[0]

    def write(self, tape: np.ndarray) -> list[Column]:
        """Write its part of the tape, but for runtime data; where that is."""
        step, writer = self.step, self.writer([])
        places = places_of([(step.wires, step.program, self.start)])
        heads = heads_of([(step, self.start)], self.layout.base)
        reads = reads_of(self.tiling, self.layout)
        at, written = writer.written(heads, places, reads)
        tape[at] = written
        return writer.data(places)

    def writer(self, cells: list[Expression], draws: Draws = undrawn) -> TapeWriter:
        """What writes for an increment with these nodes."""
        return TapeWriter(self.tiling.of(cells), self.layout, self.lanes, draws)


@dataclass(slots=True)
class Pattern:
    """Increments that are alike, and everything decided about them.

    Attributes:
        sequence: what runs.
        groups: of nodes, by the part of the sequence that runs them.
        data: groups that have runtime data on the tape, and where.
        group, lane, row: of each node: the part, its first lane, and its first row
            among those of the increment.
        pool: of each node, the number of its pool.
        rows: how many of each pool it takes.
        work: what the counters are told.
        tape: without what differs.
        own: for each number on the tape that is a row of the increment, one more than
            the number of its pool; else 0.
        at, read: where the tape has older rows, and which of the older nodes' it is.
    """

    sequence: Sequence
    groups: dict[int, Group]
    data: list[tuple[Group, list[Column]]]
    work: list[tuple[str, int, int, int]]
    group: list[int]
    lane: list[int]
    row: list[int]
    pool: list[int]
    rows: list[int]
    tape: np.ndarray
    own: np.ndarray
    at: np.ndarray
    read: np.ndarray

    def write(
        self,
        cells: list[Expression],
        rows: list[int],
        used: list[int],
        draws: Draws,
    ) -> tuple[np.ndarray, list[Array]]:
        """The tape of an increment, and the rows that are given.

        Args:
            cells: its nodes.
            rows: of the older nodes that it reads.
            used: rows of each pool that were in use before.
            draws: see `State.draws`.
        """
        tape = self.tape + np.array([0, *used], np.int32)[self.own]
        if rows:
            tape[self.at] += np.array(rows, np.int32)[self.read]
        for group, columns in self.data:
            group.writer(cells, draws).fill(columns, tape)
        return tape, [self._given(k, cells, draws) for k in self.sequence.given]

    def _given(self, k: int, cells: list[Expression], draws: Draws) -> Array:
        """The rows that are given of a part."""
        program, group = self.sequence.parts[k].program, self.groups.get(k)
        if group is None:
            return empty(program.lanes, program.body.cells[0].shape)
        return group.writer(cells, draws).inputs(group.macro, program.lanes)


class Increment:
    """A part of a graph, computed into the archive.

    Attributes:
        start, stop: number of its first node, and one more than that of its last.
    """

    def __init__(
        self,
        pattern: Pattern,
        start: int,
        archive: Archive,
        used: list[int],
        found: list[Array],
    ):
        self.pattern, self.archive, self.start = pattern, archive, start
        self._used = used
        self.stop = start + len(pattern.row)
        self._found = dict(zip(pattern.sequence.asked, found, strict=True))

    def give_back(self) -> None:
        """Its rows are of no use any more, nor are those of later increments."""
        self.archive.release(self.pattern.sequence.pools, self._used)

    def rows(self, number: int, batch: int) -> np.ndarray:
        """The values of a node that was computed here, ``[batch, *shape]``."""
        k, pattern = number - self.start, self.pattern
        group, lane = pattern.group[k], pattern.lane[k]
        rows = self._found.get(group)
        if rows is None:
            pool = pattern.sequence.pools[pattern.pool[k]]
            return self.archive.read(pool, self.archive.row[number], batch)
        if not isinstance(rows, np.ndarray):
            rows = self._found[group] = np.asarray(rows)
        return rows[lane : lane + batch]


def compute(
    graph: ComputationGraph,
    start: int,
    asked: list[Expression],
    archive: Archive,
    uniforms: Uniforms,
    draws: Draws,
    bring: Callable[[Iterable[int]], None],
) -> Increment | None:
    """Compute the stored nodes from `start` on, of which some are `asked` for.

    `bring` sees to it that older nodes have rows in the archive. None if there are too
    many nodes, or too many sequences. If this fails, the archive may not be whole.
    """
    cells = graph.cells[start:]
    with phase("plan"):
        pattern, older = _pattern_of(graph, start, cells, asked)
        if pattern is None:
            return None
    with phase("tape"):
        bring(older)
        sequence, known = pattern.sequence, archive.row
        used = archive.reserve(sequence.pools, pattern.rows, sequence.width)
        tape, given = pattern.write(cells, [known[n] for n in older], used, draws)
    with phase("run"):
        values = uniforms.several(sequence.uniforms)
        found = archive.run(sequence.run, sequence.pools, values, given, tape)
    known += [0] * (start - len(known))
    known += [r + used[p] for r, p in zip(pattern.row, pattern.pool, strict=True)]
    note_work(pattern.work)
    return Increment(pattern, start, archive, used, found)


def _pattern_of(
    graph: ComputationGraph, start: int, cells: list[Expression], asked
) -> tuple[Pattern | None, list[int]]:
    """The pattern of an increment, and the older nodes that it reads."""
    key, older = _key(graph, start, cells)
    roots = tuple([node.args[0] - start for node in asked])
    whole = key, roots
    found = _patterns.get(whole, _unknown)
    if found is _unknown:
        with _lock:
            found = _patterns[whole] = _make(graph, start, older, roots)
            if len(_patterns) > MOST_PATTERNS:
                del _patterns[next(iter(_patterns))]
    return found, older


def _key(
    graph: ComputationGraph, start: int, cells: list[Expression]
) -> tuple[tuple, list[int]]:
    """What like increments share; and the older nodes that are read, as they come."""
    key: list[Any] = []
    older: dict[int, int] = {}
    for cell in cells:
        macro = cell.rule.macro
        if macro < 0:
            macro = macro_of_rule(cell.rule)
        kind, reads = MACROS[macro], cell.inner
        key += macro, cell.lanes
        if kind.form == MAP:
            if kind.fields:
                reads = tuple([reads[p] for p in kind.places])
        elif kind.form in (REDUCE, GATHER, JOIN):
            key.append(len(reads))
            if cell.data is not None:
                key.append(tuple(cell.data))
        else:
            continue
        for number in reads:
            if number >= start:
                key.append(number - start)
            elif number == NOTHING:
                key.append(NOTHING)
            else:
                key.append(NOTHING - 1 - older.setdefault(number, len(older)))
    lanes = tuple([graph.cells[number].lanes for number in older])
    return (tuple(key), lanes), list(older)


def _make(
    graph: ComputationGraph, start: int, older: list[int], roots: tuple[int, ...]
) -> Pattern | None:
    structure = structure_of(graph.cells[start:])
    tiling = tile(graph, start, structure, importing=False, as_if=alike)
    sets = _groups(tiling)
    sizes = [int(tiling.batch[nodes].sum()) for nodes in sets]
    width = next((w for w in WIDTHS if w >= max(sizes)), None)
    macros = tuple(int(tiling.macro_of[nodes[0]]) for nodes in sets)
    often = max(Counter(macros).values())
    if width is None or len(sets) > LONGEST or often > MOST_TIMES:
        return None
    asked = tuple(k for k, nodes in enumerate(sets) if not set(roots).isdisjoint(nodes))
    chosen = choose(macros, width, asked)
    if chosen is None:
        return None
    sequence, places = chosen
    lane = np.zeros(len(tiling), np.int64)
    row = np.zeros(len(tiling.batch) + 1, np.int64)
    group, pool = lane.copy(), lane.copy()
    first = [1] * len(sequence.pools)
    groups: dict[int, Group] = {}
    for k, nodes, size in zip(places, sets, sizes, strict=True):
        part, wires = sequence.parts[k], sequence.wires[k]
        number = part.pools[part.program.body.cells[0].pool]
        lane[nodes] = np.cumsum(tiling.batch[nodes]) - tiling.batch[nodes]
        row[nodes] = first[number] + lane[nodes]
        group[nodes], pool[nodes] = k, number
        macro = wires.macros[0]
        block = Block(Component((macro,), False), width, 1)
        step = Step(block, wires, part.program, k, size)
        layout = Schedule([], lane, {macro: first[number]}, row, {})
        of_group = tiling.only(macro, nodes)
        groups[k] = Group(of_group, layout, {}, step, part.start)
        first[number] += size
    stride = int(tiling.batch[len(tiling) :].max(initial=1))
    row[len(tiling) : -1] = -stride * np.arange(1, len(older) + 1)
    tape, own = np.zeros(sequence.size, np.int32), np.zeros(sequence.size, np.int64)
    data = []
    for k, part in enumerate(sequence.parts):
        here = slice(part.start, part.start + part.program.tape_size)
        if k in groups:
            columns = groups[k].write(tape)
            if columns:
                data.append((groups[k], columns))
        else:  # it writes zeros after all rows
            tape[part.start + 1] = first[part.pools[part.program.body.cells[0].pool]]
        _mark_rows(own[here], part)
    own[tape == 0] = 0
    at = np.flatnonzero((own > 0) & (tape < 0))
    own[at] = 0
    which = (stride - 1 - tape[at]) // stride
    tape[at] += which * stride
    order = {number: k for k, number in enumerate(older)}
    known = np.array([order[number] for number in tiling.older.tolist()], np.int64)
    return Pattern(
        sequence,
        groups,
        data,
        [group.step.work for group in groups.values()],
        group.tolist(),
        lane.tolist(),
        row[: len(tiling)].tolist(),
        pool.tolist(),
        [n - 1 for n in first],
        tape,
        own,
        at,
        known[which - 1],
    )


def _groups(tiling: Tiling) -> list[np.ndarray]:
    """Sets of nodes of one macro, each after all that it reads.

    Those that can run early do, so that rows are mostly written before any program part
    reads the array they are in: else XLA copies it.
    """
    reader, _, read = tiling.reads()
    level = [0] * len(tiling)
    for r, x in zip(reader.tolist(), read.tolist(), strict=True):
        level[r] = max(level[r], level[x] + 1)
    found: dict[tuple[int, int], list[int]] = {}
    for node, (at, macro) in enumerate(
        zip(level, tiling.macro_of.tolist(), strict=True)
    ):
        found.setdefault((at, int(tiling.nodes[macro][0])), []).append(node)
    return [np.array(found[place]) for place in sorted(found)]


def _mark_rows(own: np.ndarray, part: Part) -> None:
    """Note which numbers of a tape are rows, and of which pool."""
    program, (cell,) = part.program, part.program.body.cells
    own[1] = 1 + part.pools[cell.pool]
    columns = own[program.head :].reshape(program.body.columns, program.lanes)
    for read in cell.reads:
        columns[read.column] = 1 + part.pools[read.pool]
