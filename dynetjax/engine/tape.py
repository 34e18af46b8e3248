"""The tape: what one graph is, as numbers a compiled component reads.

One int32 array per block: the number of trips and the first row of every cell, then
the columns, each with one number per lane of all trips: rows to read, runtime data
(floats by their bits), and which lanes are real.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from dynetjax.engine.draws import Draws, keys_of
from dynetjax.engine.macros import MACROS
from dynetjax.engine.places import Places
from dynetjax.engine.reads import Reads, elements, reads_of
from dynetjax.engine.schedule import Schedule
from dynetjax.engine.tiling import Tiling, ones
from dynetjax.ops.registry import OWNERS

_NO_LANES = np.zeros(0, np.int64)


class Lanes:
    """The lanes of one macro's nodes in a block, one entry per batch element.

    Attributes:
        count: batch size of each node.
        element: batch element of each entry; None where every node has one.
        at: lane of each entry, over all trips.
        nodes, numbers: the nodes, as an array and as a list.
    """

    __slots__ = ("_at", "_batch", "_plan", "element", "nodes", "numbers")

    def __init__(self, tiling: Tiling, plan: Schedule, nodes: Any):
        self.nodes = np.asarray(nodes)
        self.numbers: list[int] = nodes if isinstance(nodes, list) else nodes.tolist()
        self.element = None
        self._batch, self._plan, self._at = tiling.batch, plan, _NO_LANES
        if not tiling.single and (self.count > 1).any():
            self.element = elements(self.count)

    @property
    def count(self) -> np.ndarray:
        return self._batch[self.nodes]

    @property
    def at(self) -> np.ndarray:
        if not len(self._at):
            self._at = self._plan.lane[self.nodes]
            if self.element is not None:
                self._at = self._at.repeat(self.count) + self.element
        return self._at

    def spread(self, each: np.ndarray) -> np.ndarray:
        """What holds for each node, on the last axis, for each entry."""
        return each if self.element is None else each.repeat(self.count, axis=-1)


class Heads(NamedTuple):
    """Where the trips and first rows of blocks stand, and what they are."""

    at: list[int]
    numbers: list[int]


class Template(NamedTuple):
    """A tape without runtime data; and the columns of that, and where they belong."""

    tape: np.ndarray
    columns: list[Any]


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
        self.known = lanes
        self._ids: dict[int, np.ndarray] = {}

    def lanes(self, macro: int) -> Lanes:
        """The lanes of a macro that has nodes."""
        found = self.known.get(macro)
        if found is None:
            nodes = self.tiling.nodes[macro]
            found = self.known[macro] = Lanes(self.tiling, self.plan, nodes)
        return found

    def written(
        self, heads: Heads, places: Places, reads: Reads
    ) -> tuple[np.ndarray, np.ndarray]:
        """All but runtime data: where a tape is not 0, and what stands there."""
        valid = self._valid(np.concatenate([*self.tiling.nodes.values()]), places)
        at, rows = _columns(reads, places)
        where: list[Any] = [heads.at, valid, at]
        what: list[Any] = [heads.numbers, ones(len(valid)), rows]
        return np.concatenate(where), np.concatenate(what)

    def clear(self, nodes: np.ndarray, places: Places, tape: np.ndarray) -> None:
        """Let the lanes of `nodes` be empty."""
        tape[self._valid(nodes, places)] = 0
        reads = reads_of(self.tiling, self.plan)
        cleared = np.zeros(len(self.tiling), bool)
        cleared[nodes] = True
        chosen = cleared[reads.reader]
        at, _ = _columns(Reads(*[a[chosen] for a in reads]), places)
        tape[at] = 0

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
            tape[at] = self.runtime(macro, what, where)

    def _valid(self, nodes: np.ndarray, places: Places) -> np.ndarray:
        """Where the lanes of `nodes` are marked as real."""
        tiling = self.tiling
        at = places.valid[tiling.macro_of[nodes]] + self.plan.lane[nodes]
        if tiling.single:
            return at
        count = tiling.batch[nodes]
        return at.repeat(count) + elements(count)

    def runtime(self, macro: int, what: str, where: list) -> np.ndarray:
        """A column of runtime data: rows of a table, or a field of a step's."""
        if what == "rows":
            ids = self.row_ids(macro)
            table = OWNERS.get(MACROS[macro].kinds[0].source)
            if table is not None:
                table.will_read(ids)
            return ids
        step, field = where
        place, cells = MACROS[macro].fields[step, field], self.tiling.cells
        lanes = self.lanes(macro)
        found = [cells[n].inner[place] for n in lanes.numbers]
        if what == "i":
            return _spread(lanes, found, np.int32)
        if what == "f":
            return _spread(lanes, found, np.float32).view(np.int32)
        return self._keys(lanes, found, second=what == "k2")

    def row_ids(self, macro: int) -> np.ndarray:
        """The rows of a table that LOOKUP nodes read, lane by lane."""
        found = self._ids.get(macro)
        if found is None:
            lanes, cells = self.lanes(macro), self.tiling.cells
            rows = [cells[n].data for n in lanes.numbers]
            found = self._ids[macro] = _spread(lanes, rows, np.int32)
        return found

    def _keys(self, lanes: Lanes, found: Sequence[int], second: bool) -> np.ndarray:
        """Half of a random key: of the seed, the node's number and the element."""
        nodes = np.array(found, np.int64)
        keys = keys_of(self.draws, nodes, lanes.count)
        return np.ascontiguousarray(keys[:, int(second)]).view(np.int32)

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


def _columns(reads: Reads, places: Places) -> tuple[np.ndarray, np.ndarray]:
    """Where rows that are read stand, and which they are."""
    start = places.leaf[reads.slot]
    (which,) = (start >= 0).nonzero()
    slot = reads.slot[which]
    at = start[which] + places.apart[slot] * reads.place[which] + reads.lane[which]
    return at, reads.row[which]
