"""The tape: what one graph is, as numbers a compiled component reads.

One int32 array per block: the number of trips and the first row of every cell, then
the columns, each with one number per lane of all trips: rows to read, runtime data
(floats by their bits), and which lanes are real.
"""

import numpy as np

from dynetjax.engine.plan import Plan, Step
from dynetjax.engine.schedule import Schedule
from dynetjax.engine.section import GOLDEN, Section, scramble
from dynetjax.engine.tiling import MACROS, follow
from dynetjax.graph import ComputationGraph

STRUCTURE = ("valid", "leaf", "operand")  # columns without runtime data
_NODE = np.uint64(0xD6E8FEB86659FD93)


class Lanes:
    """The lanes of one macro's nodes in a block, one entry per batch element.

    Attributes:
        node: the node of each entry.
        element: its batch element.
        at: its lane over all trips.
    """

    __slots__ = ("at", "count", "element", "node", "nodes")

    def __init__(self, section: Section, plan: Schedule, nodes: np.ndarray):
        self.nodes = nodes
        self.count = section.batch[nodes]
        if (self.count == 1).all():
            self.node, self.element = nodes, np.zeros(len(nodes), np.int64)
        else:
            self.node = np.repeat(nodes, self.count)
            self.element = np.arange(len(self.node)) - np.repeat(
                np.cumsum(self.count) - self.count, self.count
            )
        self.at = plan.lane[self.node] + self.element


class TapeWriter:
    """Writes the tapes of one graph."""

    def __init__(self, graph: ComputationGraph, plan: Plan, seed: int):
        self.graph, self.plan = graph, plan.layout
        self.tiling, self.section = plan.tiling, plan.section
        self.seed = scramble(np.array([seed], np.uint64))
        self._lanes = plan.lanes

    def lanes(self, macro: int) -> Lanes:
        """The lanes of a macro that has nodes."""
        found = self._lanes.get(macro)
        if found is None:
            nodes = self.tiling.nodes[macro]
            found = self._lanes[macro] = Lanes(self.section, self.plan, nodes)
        return found

    def write(self, step: Step, tape: np.ndarray, again: bool) -> None:
        """Write the tape of a block over zeros; if `again`, only its runtime data."""
        wires = step.wires
        head = 1 + len(wires.macros)
        if not again:
            tape[0] = step.block.trips
            tape[1:head] = [self.plan.base[m] for m in wires.macros]
        columns = tape[head:].reshape(wires.body.columns, step.program.lanes)
        start = 0
        for macro, own in zip(wires.macros, wires.columns, strict=True):
            if macro in self.tiling.nodes:
                lanes = self.lanes(macro)
                for k, what in enumerate(own):
                    if not again or what[0] not in STRUCTURE:
                        self._fill(columns[start + k], macro, lanes, what)
            start += len(own)

    def _fill(self, column: np.ndarray, macro: int, lanes: Lanes, what: tuple) -> None:
        match what:
            case ("valid", _):
                column[lanes.at] = 1
            case ("leaf", k):
                read = self.tiling.columns[macro][k]
                column[lanes.at] = self._rows(lanes, read)
            case ("operand", k):
                self._fill_operand(column, macro, lanes, k)
            case ("rows", _):
                column[lanes.at] = self.values(lanes, lanes.nodes, 0, np.int32)
            case (letter, step, field):
                nodes = follow(
                    self.section, lanes.nodes, MACROS[macro].steps[step].path
                )
                column[lanes.at] = self._runtime(lanes, nodes, letter, field)

    def _rows(self, lanes: Lanes, read: np.ndarray) -> np.ndarray:
        """Rows of the nodes `read`, one per node of `lanes`, for every lane."""
        if len(lanes.node) != len(lanes.nodes):
            read = np.repeat(read, lanes.count)
        row = self.plan.row[read]
        return row + np.where(self.section.batch[read] > 1, lanes.element, 0)

    def _fill_operand(self, column, macro: int, lanes: Lanes, k: int) -> None:
        """The k-th operand of sums; of copies, the row for each lane."""
        section, row, batch = self.section, self.plan.row, self.section.batch
        reader, position, read = self.tiling.rows[macro]
        if MACROS[macro].form == "gather":
            column[lanes.at] = self._gathered(lanes.nodes)
            return
        mine = position == k
        reader, read = reader[mine], read[mine]
        chosen = [n for n in reader.tolist() if n in section.elements]
        if chosen:
            shift = np.zeros(len(section), np.int64)
            for n in chosen:
                shift[n] = section.elements[n][k]
            column[self.plan.lane[reader]] = row[read] + shift[reader]
            plain = np.array([n not in section.elements for n in reader.tolist()])
            reader, read = reader[plain], read[plain]
        count = batch[reader]
        element = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
        at = np.repeat(self.plan.lane[reader], count) + element
        read = np.repeat(read, count)
        column[at] = row[read] + np.where(batch[read] > 1, element, 0)

    def _gathered(self, nodes: np.ndarray) -> np.ndarray:
        """Rows copied by GATHER nodes, lane by lane."""
        section, row = self.section, self.plan.row
        parts = []
        for n in nodes.tolist():
            operands = section.operands[section.first[n] : section.first[n + 1]]
            chosen = section.elements.get(n)
            if chosen is not None:
                parts.append(row[operands[0]] + np.array(chosen, np.int64))
            else:
                parts += [row[x] + np.arange(section.batch[x]) for x in operands]
        return np.concatenate(parts)

    def _runtime(self, lanes: Lanes, nodes: np.ndarray, letter: str, field: int):
        if letter == "i":
            return self.values(lanes, nodes, field, np.int32)
        if letter == "f":
            return self.values(lanes, nodes, field, np.float32).view(np.int32)
        return self._keys(lanes, nodes, second=letter == "k2")

    def values(self, lanes: Lanes, nodes: np.ndarray, field: int, dtype) -> np.ndarray:
        """One field of the nodes' runtime data for every lane."""
        data = self.graph.data
        found = [data[n] for n in self.section.ids[nodes].tolist()]
        if found and isinstance(found[0], tuple):
            found = [values[field] for values in found]
        flat: list = []
        if any(isinstance(v, list) for v in found):
            for value, count in zip(found, lanes.count.tolist(), strict=True):
                flat += value if isinstance(value, list) else [value] * count
            return np.array(flat, dtype)
        array = np.array(found, dtype)
        return array if len(lanes.node) == len(nodes) else array.repeat(lanes.count)

    def _keys(self, lanes: Lanes, nodes: np.ndarray, second: bool) -> np.ndarray:
        """Half of a random key: of the seed, the node's number and the element."""
        ids = self.section.ids[nodes].astype(np.uint64)
        ids = ids if len(lanes.node) == len(nodes) else ids.repeat(lanes.count)
        bits = scramble(ids * _NODE + lanes.element.astype(np.uint64) * GOLDEN)
        bits = scramble(bits ^ self.seed)
        half = bits >> np.uint64(32) if second else bits & np.uint64(0xFFFFFFFF)
        return half.astype(np.uint32).view(np.int32)

    def inputs(self, macro: int, capacity: int) -> np.ndarray:
        """Numbers given for the nodes of an INPUT macro: ``[capacity, *shape]``."""
        rows = np.zeros((capacity, *MACROS[macro].shape), np.float32)
        lanes, data = self.lanes(macro), self.graph.data
        given = [data[n] for n in self.section.ids[lanes.nodes].tolist()]
        if given:
            rows[lanes.at] = given[0] if len(given) == 1 else np.concatenate(given)
        return rows
