"""The tape: what one graph is, as numbers a compiled component reads.

One int32 array per block: the number of trips and the first row of every cell, then
the columns, each with one number per lane of all trips: rows to read, runtime data
(floats by their bits), and which lanes are real.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from dynetjax.engine.draws import Draws
from dynetjax.engine.macros import MACROS
from dynetjax.engine.places import Places
from dynetjax.engine.plan import Step
from dynetjax.engine.schedule import Schedule
from dynetjax.engine.tiling import Tiling
from dynetjax.graph import NOTHING
from dynetjax.ops.registry import OWNERS

_NODE = np.uint64(0xD6E8FEB86659FD93)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)


class Lanes:
    """The lanes of one macro's nodes in a block, one entry per batch element.

    Attributes:
        count: batch size of each node.
        element: batch element of each entry; None where every node has one.
        at: lane of each entry, over all trips.
        nodes, numbers: the nodes, as an array and as a list.
    """

    __slots__ = ("at", "count", "element", "nodes", "numbers")

    def __init__(self, tiling: Tiling, plan: Schedule, nodes: np.ndarray):
        self.nodes = nodes
        self.numbers: list[int] = nodes.tolist()
        self.count = tiling.batch[nodes]
        self.element = None
        self.at = plan.lane[nodes]
        if not tiling.single and (self.count > 1).any():
            self.element = _elements(self.count)
            self.at = self.at.repeat(self.count) + self.element

    def spread(self, each: np.ndarray) -> np.ndarray:
        """What holds for each node, on the last axis, for each entry."""
        return each if self.element is None else each.repeat(self.count, axis=-1)


class Column(NamedTuple):
    """Runtime data of a macro's nodes, and where on a tape it is."""

    macro: int
    what: str
    where: list
    at: np.ndarray


class TapeWriter:
    """Writes the tapes of one graph; `lanes` keeps those of its macros, once found."""

    def __init__(
        self,
        tiling: Tiling,
        plan: Schedule,
        lanes: dict[int, Lanes],
        draws: Draws,
    ):
        self.tiling, self.plan, self.draws = tiling, plan, draws
        self._lanes = lanes

    def lanes(self, macro: int) -> Lanes:
        """The lanes of a macro that has nodes."""
        found = self._lanes.get(macro)
        if found is None:
            nodes = self.tiling.nodes[macro]
            found = self._lanes[macro] = Lanes(self.tiling, self.plan, nodes)
        return found

    def written(
        self, steps: Iterable[tuple[Step, int]], places: Places
    ) -> tuple[np.ndarray, np.ndarray]:
        """All but runtime data: where a tape is not 0, and what stands there.

        `steps` come with where they begin.
        """
        heads: list[int] = []
        numbers: list[int] = []
        for step, start in steps:
            macros = step.wires.macros
            heads += range(start, start + 1 + len(macros))
            numbers.append(step.block.trips)
            numbers += [self.plan.base[m] for m in macros]
        valid = self._valid(np.concatenate([*self.tiling.nodes.values()]), places)
        at, rows = self._reads(places)
        where: list[Any] = [heads, valid, at]
        what: list[Any] = [numbers, np.ones(len(valid), np.int64), rows]
        for macro, start in places.copied.items():
            if macro in self.tiling.nodes:
                lanes = self.lanes(macro)
                where.append(start + lanes.at)
                what.append(self._gathered(macro, lanes.nodes))
        return np.concatenate(where), np.concatenate(what)

    def clear(self, nodes: np.ndarray, places: Places, tape: np.ndarray) -> None:
        """Let the lanes of `nodes` be empty."""
        tape[self._valid(nodes, places)] = 0
        at, _ = self._reads(places, np.isin(self.tiling.reader, nodes))
        tape[at] = 0
        for macro, start in places.copied.items():
            if macro in self.tiling.nodes:
                lanes = self.lanes(macro)
                cleared = lanes.spread(np.isin(lanes.nodes, nodes))
                tape[start + lanes.at[cleared]] = 0

    def data(self, places: Places) -> list[Column]:
        """The runtime data of the nodes, and where it belongs."""
        return [
            Column(macro, what, where, start + self.lanes(macro).at)
            for macro, what, where, start in places.data
            if macro in self.tiling.nodes
        ]

    def fill(self, columns: Iterable[Column], tape: np.ndarray) -> None:
        """Write runtime data."""
        for macro, what, where, at in columns:
            tape[at] = self._runtime(self.lanes(macro), macro, what, where)

    def _valid(self, nodes: np.ndarray, places: Places) -> np.ndarray:
        """Where the lanes of `nodes` are marked as real."""
        tiling = self.tiling
        at = places.valid[tiling.macro_of[nodes]] + self.plan.lane[nodes]
        if tiling.single:
            return at
        count = tiling.batch[nodes]
        return at.repeat(count) + _elements(count)

    def _reads(
        self, places: Places, chosen: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Where rows that are read stand, and which they are; of `chosen` reads."""
        tiling, plan = self.tiling, self.plan
        standing = places.leaf[tiling.slot] >= 0
        if chosen is not None:
            standing &= chosen
        (which,) = standing.nonzero()
        reader, read = tiling.reader[which], tiling.read[which]
        place, slot = tiling.place[which], tiling.slot[which]
        at = places.leaf[slot] + places.apart[slot] * place + plan.lane[reader]
        rows = plan.row[read] + self._chosen(reader, place)
        if tiling.single:
            return at, rows
        count = tiling.batch[reader]
        element = _elements(count)
        several = (tiling.batch[read] > 1) & (read != NOTHING)
        rows = rows.repeat(count) + np.where(several.repeat(count), element, 0)
        return at.repeat(count) + element, rows

    def _chosen(self, reader: np.ndarray, position: np.ndarray) -> Any:
        """Which batch element each operand is, for nodes that name theirs."""
        elements = self.tiling.elements
        if not elements:
            return 0
        entries = zip(reader.tolist(), position.tolist(), strict=True)
        return np.array([elements[n][p] if n in elements else 0 for n, p in entries])

    def _gathered(self, macro: int, nodes: np.ndarray) -> np.ndarray:
        """Rows copied by GATHER nodes, lane by lane."""
        row, batch = self.plan.row, self.tiling.batch
        reader, read = self.tiling.reader, self.tiling.read
        first = np.searchsorted(reader, nodes)
        last = np.searchsorted(reader, nodes, side="right")
        parts = []
        for n, start, end in zip(
            nodes.tolist(), first.tolist(), last.tolist(), strict=True
        ):
            operands = read[start:end]
            chosen = self.tiling.elements.get(n)
            if chosen is not None:
                parts.append(row[operands[0]] + np.array(chosen, np.int64))
            else:
                parts += [row[x] + np.arange(batch[x]) for x in operands]
        return np.concatenate(parts)

    def _runtime(self, lanes: Lanes, macro: int, what: str, where: list) -> np.ndarray:
        """A column of runtime data: rows of a table, or a field of a step's."""
        if what == "rows":
            ids = self.row_ids(lanes)
            table = OWNERS.get(MACROS[macro].kinds[0].source)
            if table is not None:
                table.will_read(ids)
            return ids
        step, field = where
        place, cells = MACROS[macro].fields[step, field], self.tiling.cells
        found = [cells[n].inner[place] for n in lanes.numbers]
        if what == "i":
            return _spread(lanes, found, np.int32)
        if what == "f":
            return _spread(lanes, found, np.float32).view(np.int32)
        return self._keys(lanes, found, second=what == "k2")

    def row_ids(self, lanes: Lanes) -> np.ndarray:
        """The rows of a table that LOOKUP nodes read, lane by lane."""
        cells = self.tiling.cells
        return _spread(lanes, [cells[n].data for n in lanes.numbers], np.int32)

    def _keys(self, lanes: Lanes, found: Sequence[int], second: bool) -> np.ndarray:
        """Half of a random key: of the seed, the node's number and the element."""
        seeds, numbers = self.draws(np.array(found, np.int64))
        bits = lanes.spread(numbers.astype(np.uint64)) * _NODE
        if lanes.element is not None:
            bits = bits + lanes.element.astype(np.uint64) * _GOLDEN
        bits = scramble(scramble(bits) ^ scramble(lanes.spread(seeds)))
        half = bits >> np.uint64(32) if second else bits & np.uint64(0xFFFFFFFF)
        return half.astype(np.uint32).view(np.int32)

    def inputs(self, macro: int, capacity: int) -> np.ndarray:
        """Numbers given for the nodes of an INPUT macro: ``[capacity, *shape]``."""
        rows = np.zeros((capacity, *MACROS[macro].shape), np.float32)
        lanes, cells = self.lanes(macro), self.tiling.cells
        given = [cells[n].data for n in lanes.numbers]
        rows[lanes.at] = given[0] if len(given) == 1 else np.concatenate(given)
        return rows


def _spread(lanes: Lanes, found: Sequence[Any], dtype: Any) -> np.ndarray:
    """Runtime data, one value a node or a list of them, for every lane."""
    if list in map(type, found):
        flat: list = []
        for value, count in zip(found, lanes.count.tolist(), strict=True):
            flat += value if isinstance(value, list) else [value] * count
        return np.array(flat, dtype)
    return lanes.spread(np.array(found, dtype))


def _elements(count: np.ndarray) -> np.ndarray:
    """0, 1, ... as far as each count says, one after the other."""
    return np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)


def scramble(x: np.ndarray) -> np.ndarray:
    """64 well mixed bits of each number (the finaliser of SplitMix64)."""
    x = (x ^ (x >> np.uint64(30))) * _MIX_1
    x = (x ^ (x >> np.uint64(27))) * _MIX_2
    return x ^ (x >> np.uint64(31))
