"""States: what was computed of a graph so far."""

from bisect import bisect_right
from typing import Any

import numpy as np

from dynetjax.core.expression import Expression
from dynetjax.core.registry import Kind
from dynetjax.engine import policy
from dynetjax.engine.divided import Divided
from dynetjax.engine.ir.draws import Draws
from dynetjax.engine.ir.part import BackwardPass, Interpreter, Part
from dynetjax.engine.native.part import Native, NativePart
from dynetjax.engine.native.weights import HostWeights
from dynetjax.engine.xla.weights import Weights


class State:
    """What was computed of a graph.

    Attributes:
        nodes: its `core.Nodes`, which knows the stored nodes.
        weights, host_weights: the values of weights, on the device and on the host.
        draws: gives random nodes their numbers.
        native: what tier 0 has of it; None if that is nothing.
        divided: what there is of it node by node, where parts lie on several devices.
        last: the last backward.
    """

    def __init__(self, draws: Draws, nodes: Any):
        self.nodes = nodes
        self.weights: Weights = Weights(nodes.arrays)
        self.host_weights: HostWeights = HostWeights(self.weights)
        self.draws = draws
        self._parts: list[Part] = []
        self.native: Interpreter | None = None
        if nodes.executor is not None:
            self.native = Native(self.host_weights, draws, nodes.arrays, nodes.executor)
        self.divided: Divided | None = None
        self.last: BackwardPass | None = None

    @property
    def parts(self) -> list[Part]:
        """What was computed, in order; only the first begins with the first node."""
        if not self._parts and self.native is not None and self.native.count:
            self._parts = [NativePart(0, self.nodes.stored, self.native.graph)]
        return self._parts

    @parts.setter
    def parts(self, parts: list[Part]) -> None:
        self._parts = parts

    @property
    def done(self) -> int:
        """How many of the stored nodes were computed."""
        parts = self.parts
        return parts[-1].stop if parts else 0

    @property
    def may_wait(self) -> bool:
        """Whether a device computes some of it, and may not be done."""
        return any(part.executor() is None for part in self.parts)

    def memory(self) -> int:
        """Bytes that tier 0 has taken for it."""
        return self.native.graph.memory() if self.native is not None else 0

    def forget(self) -> None:
        """Drop what was computed; the draws of random nodes stay as they are."""
        self.parts, self.native = [], None
        if self.nodes.live:
            self.nodes.use_executor(None)

    def revert(self) -> None:
        """Keep what was computed of nodes that are there still."""
        if self.last is not None and not self.last.node.is_live:
            self.last = None
        if self.divided is not None:
            self.divided.revert()
        stored = len(self.nodes.stored)
        if self.native is not None:
            self.native.graph.cut(stored)
        while self.parts and self.parts[-1].stop > stored:
            if self.parts[-1].cut(stored):
                break
            self.parts.pop()

    def rows(self, number: int, lanes: int) -> np.ndarray:
        """The values of a stored node that was computed."""
        return self.part_of(number).rows(number, lanes)

    def number(self, node: Expression) -> int:
        """The number of a node among the stored ones; -1 if it is none."""
        number: int = self.nodes.at(node.index)
        return number

    def weight(self, kind: Kind) -> np.ndarray:
        """The value of a weight, which has no rows."""
        if policy.native():
            return self.host_weights.weight(kind.id)
        return np.asarray(self.weights.value(kind))

    def part_of(self, number: int) -> Part:
        """The part that has computed a stored node."""
        if number >= self.parts[-1].start:
            return self.parts[-1]
        return self.parts[bisect_right(self.parts, number, key=_start) - 1]


def _start(part: Part) -> int:
    return part.start
