"""Reads of a laid out graph: which lane reads which row."""

from typing import NamedTuple

import numpy as np

from dynetjax.engine.macros import MACROS
from dynetjax.engine.schedule import Schedule
from dynetjax.engine.tiling import Tiling
from dynetjax.graph import NOTHING
from dynetjax.ops.registry import GATHER


class Reads(NamedTuple):
    """One entry for every row that a lane reads.

    Attributes:
        reader: the node whose lane it is.
        slot, place: for which of its leaves; and for which operand, where a leaf stands
            for several.
        lane: over all trips of the reader's block.
        row: in its pool; 0 for NOTHING.
    """

    reader: np.ndarray
    slot: np.ndarray
    place: np.ndarray
    lane: np.ndarray
    row: np.ndarray


def reads_of(tiling: Tiling, layout: Schedule) -> Reads:
    """All reads of a graph."""
    reader, slot, place, read = tiling.reader, tiling.slot, tiling.place, tiling.read
    gathering = [macro for macro in tiling.nodes if MACROS[macro].form == GATHER]
    if gathering:
        rest = ~np.isin(tiling.macro_of[reader], gathering)
        reader, slot, place, read = (a[rest] for a in (reader, slot, place, read))
    lane = layout.lane[reader]
    row = layout.row[read] + _chosen(tiling, reader, place)
    if not tiling.single:
        count = tiling.batch[reader]
        element = elements(count)
        several = (tiling.batch[read] > 1) & (read != NOTHING)
        lane = lane.repeat(count) + element
        row = row.repeat(count) + np.where(several.repeat(count), element, 0)
        reader, slot, place = (a.repeat(count) for a in (reader, slot, place))
    found = Reads(reader, slot, place, lane, row)
    if not gathering:
        return found
    copied = [_copied(tiling, layout, macro) for macro in gathering]
    return Reads(*map(np.concatenate, zip(found, *copied, strict=True)))


def _chosen(tiling: Tiling, reader: np.ndarray, place: np.ndarray) -> np.ndarray | int:
    """Which batch element each operand is, for nodes that name theirs."""
    known = tiling.elements
    if not known:
        return 0
    entries = zip(reader.tolist(), place.tolist(), strict=True)
    chosen = [known[n][p] if n in known else 0 for n, p in entries]
    return np.array(chosen, np.int64)


def _copied(tiling: Tiling, layout: Schedule, macro: int) -> Reads:
    """The reads of GATHER nodes, whose lanes copy what their operands have in turn."""
    nodes = tiling.nodes[macro]
    first = np.searchsorted(tiling.reader, nodes).tolist()
    last = np.searchsorted(tiling.reader, nodes, side="right").tolist()
    rows = []
    for n, start, end in zip(nodes.tolist(), first, last, strict=True):
        operands = tiling.read[start:end]
        chosen = tiling.elements.get(n)
        if chosen is not None:
            rows.append(layout.row[operands[0]] + np.array(chosen, np.int64))
        else:
            rows += [layout.row[x] + np.arange(tiling.batch[x]) for x in operands]
    count = tiling.batch[nodes]
    reader = nodes.repeat(count)
    lane = layout.lane[reader] + elements(count)
    slot = np.full(len(reader), MACROS[macro].slot)
    return Reads(reader, slot, np.zeros_like(reader), lane, np.concatenate(rows))


def elements(count: np.ndarray) -> np.ndarray:
    """0, 1, ... as far as each count says, one after the other."""
    return np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
