"""States: what was computed of a graph so far."""

from bisect import bisect_right
from collections.abc import Iterable

import numpy as np

from dynetjax.engine.archive import Archive
from dynetjax.engine.differentiate import Backward
from dynetjax.engine.draws import Draws
from dynetjax.engine.increments import Increment
from dynetjax.engine.macros import MACROS, pool_of
from dynetjax.engine.native.part import Native, NativeBackward, NativePart
from dynetjax.engine.run import Run
from dynetjax.engine.uniforms import Uniforms
from dynetjax.expression import Expression
from dynetjax.ops.registry import IMPORT

Part = Run | Increment | NativePart


class State:
    """What was computed of a graph.

    Attributes:
        draws: gives random nodes their numbers.
        parts: what was computed, in order; only the first begins with the first node.
        archive: rows that a part after the first reads or has on the device; None if
            there is none.
        native: what tier 0 has of it; None if that is nothing.
        last: the last backward.
        early: one that was sent before it was asked for.
        first: the nodes whose values were asked for first, and how many nodes there
            were then; None if nobody asked, or some are gone.
    """

    def __init__(self, draws: Draws):
        self.uniforms = Uniforms()
        self.draws = draws
        self.parts: list[Part] = []
        self.archive: Archive | None = None
        self.native: Native | None = None
        self.last: Backward | NativeBackward | None = None
        self.early: Backward | None = None
        self.first: tuple[list[Expression], int] | None = None

    @property
    def done(self) -> int:
        """How many of the stored nodes were computed."""
        return self.parts[-1].stop if self.parts else 0

    def forget(self) -> None:
        """Drop what was computed; the draws of random nodes stay as they are."""
        old = self.archive
        self.parts, self.archive, self.early = [], None, None
        self.native = None
        if old is not None:
            old.close()

    def revert(self, nodes: int, cells: int) -> None:
        """Keep what was computed of so many nodes and stored nodes."""
        if self.last is not None and self.last.node.index >= nodes:
            self.last = None
        self.early = None
        if self.first is not None and self.first[1] > nodes:
            self.first = None
        if self.native is not None:
            self.native.graph.cut(cells)
        while self.parts and self.parts[-1].start >= cells:
            part = self.parts.pop()
            if isinstance(part, Increment):
                part.give_back()
        if self.parts:
            self.parts[-1].stop = min(self.parts[-1].stop, cells)
        if self.archive is not None:
            del self.archive.row[cells:]

    def rows(self, number: int, lanes: int) -> np.ndarray:
        """The values of a stored node that was computed."""
        return self._part_of(number).rows(number, lanes)

    def at_hand(self, node: Expression) -> np.ndarray | None:
        """The same, where there is nothing to wait for; None if there may be."""
        part = self.part_with(node)
        if isinstance(part, NativePart):
            return part.rows(node.args[0], node.lanes)
        if isinstance(part, Run) and part is self.parts[0]:
            return part.at_hand(node)
        return None

    def part_with(self, node: Expression) -> Part | None:
        """The part that has computed a node; None if none has."""
        if not (self.parts and node.lanes) or has_no_rows(node):
            return None
        number = node.args[0]
        return self._part_of(number) if number < self.done else None

    def _part_of(self, number: int) -> Part:
        if number >= self.parts[-1].start:
            return self.parts[-1]
        return self.parts[bisect_right(self.parts, number, key=_start) - 1]

    def bring(self, numbers: Iterable[int]) -> None:
        """See to it that these nodes have rows in the archive."""
        assert self.archive is not None
        row = self.archive.row
        row += [0] * (self.done - len(row))
        for number in numbers:
            if not row[number]:
                part = self._part_of(number)
                if isinstance(part, Run):
                    self._bring(part, part.place(number)[0])
                    continue
                value = part.rows(number, 1)
                row[number] = self.archive.bring(value, pool_of(value.shape[1:]))

    def _bring(self, run: Run, pool: int) -> None:
        """Copy the rows of a pool to the archive."""
        assert self.archive is not None
        row = self.archive.row
        first = self.archive.bring(run.pools[pool], pool_of(MACROS[pool].shape))
        for macro, nodes in run.tiling.nodes.items():
            if run.plan.pools[macro] == pool and MACROS[macro].form != IMPORT:
                rows = run.plan.layout.row[nodes] + first
                numbers = (np.asarray(nodes) + run.start).tolist()
                for number, at in zip(numbers, rows.tolist(), strict=True):
                    if number < run.stop:  # what was cut is no node any more
                        row[number] = row[number] or at


def _start(part: Part) -> int:
    return part.start


def has_no_rows(node: Expression) -> bool:
    """Whether a node is a part of another, with no rows of its own."""
    return node.view is None or node.view.inlined
