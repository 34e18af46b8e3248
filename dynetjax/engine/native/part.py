"""Parts of a graph that tier 0 computes, and backward through these."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from dynetjax.core.expression import Expression
from dynetjax.core.registry import KINDS, OWNERS, Kind
from dynetjax.engine.gradients import reached_by
from dynetjax.engine.ir.draws import Draws
from dynetjax.engine.ir.fused import FUSED_OPS
from dynetjax.engine.ir.part import (
    HostValues,
    Interpreter,
    PullBack,
    Rows,
    Summary,
)
from dynetjax.engine.native.program import program_of
from dynetjax.engine.runtime import RUNTIME
from dynetjax.engine.stats import note_work, phase, timing
from dynetjax.native import core

DONE = -1  # what `extend` returns


class _Tables:
    """What the executor asks Python for."""

    def __init__(self, weights: HostValues, draws: Draws):
        self.weight, self.draws = weights.weight, draws
        self.older: Rows | None = None

    def program(self, number: int) -> Any:
        program = RUNTIME.byte_code[number] = program_of(FUSED_OPS[number])
        return program

    def lookup(self, kind: int, ids: bytes) -> np.ndarray:
        """Rows of a table, as they are now."""
        rows = np.frombuffer(ids, np.int32)
        table = OWNERS.get(KINDS[kind].source)
        if table is None:
            return np.zeros((len(rows), *KINDS[kind].shape[1:]), np.float32)
        return table.host_rows(rows)

    def rows(self, number: int) -> np.ndarray:
        """Rows of a node that another tier computed."""
        assert self.older is not None
        return np.ascontiguousarray(self.older(number), np.float32)


def _note_times(graph: Any) -> None:
    """Note what an executor did, where fused operations are timed."""
    if timing():
        note_work(
            [
                (FUSED_OPS[number].label, groups, rows, rows, seconds)
                for number, groups, rows, seconds in graph.times()
            ]
        )


def new_executor(arrays: dict[int, np.ndarray]) -> Any:
    """An executor for a graph whose weights were read so far as `arrays` has them."""
    return core.Executor(None, RUNTIME.byte_code, timing(), arrays)


class Native:
    """What tier 0 computes of one graph.

    Args:
        weights, draws: the graph's.
        arrays: of weights that were read, by kind id.
        executor: that has begun with it, if one has.
    Attributes:
        tables: what the executor asks for.
        lacks: a fused operation that it met and that has no program; -1 if none.
    """

    def __init__(
        self,
        weights: HostValues,
        draws: Draws,
        arrays: dict[int, np.ndarray],
        executor: Any = None,
    ):
        self.weights = weights
        self.tables = _Tables(weights, draws)
        self.graph: Any = new_executor(arrays) if executor is None else executor
        self.graph.tables = self.tables
        self.lacks: int = -1

    @property
    def count(self) -> int:
        """How many stored nodes it knows."""
        found: int = self.graph.count
        return found

    def compute(self, stored: Any, start: int, older: Rows | None) -> bool:
        """Compute the stored nodes from `start` on; False if some have no byte code.

        `older` tells the rows of nodes that another tier computed, if one did.
        """
        self.tables.older = older
        try:
            with phase("run", 0, " forward"):
                self.lacks = self.graph.extend(stored, start)
        finally:
            self.tables.older = None
        if self.lacks != DONE:
            return False
        _note_times(self.graph)
        return True


class NativePart:
    """A part of a graph that tier 0 computed.

    Attributes:
        start: number of its first node.
        graph: the executor's, which has computed it.
    """

    def __init__(self, start: int, stored: Any, graph: Any):
        self.start = start
        self._stored = stored
        self.graph = graph

    @property
    def stop(self) -> int:
        """One more than the number of its last node."""
        found: int = self.graph.count
        return found

    def rows(self, number: int, batch: int) -> np.ndarray:
        """The values of a node that was computed here, ``[its batch, *shape]``."""
        del batch
        values = np.frombuffer(self.graph.rows(number), np.float32)
        return values.reshape(-1, *FUSED_OPS[self._stored.fused(number)].shape)

    def cut(self, stop: int) -> bool:
        """Whether there are nodes before this one: the executor keeps those."""
        return self.start < stop

    def executor(self) -> Any:
        """What has computed it, and writes rows where they are wanted."""
        return self.graph

    def summary(self) -> Summary:
        """What this part is, in words, and its components with their nodes."""
        components = []
        for trips, numbers in self.graph.components():
            nodes = [n for n in numbers if self.start <= n < self.stop]
            kind = "loop" if trips > 1 else "once"
            if nodes:
                components.append(
                    (f"{kind}, {trips} trip{'s' if trips > 1 else ''}", nodes)
                )
        head = f"nodes {self.start} to {self.stop - 1}: in tier 0, on the host"
        return head, components


class NativeBackward:
    """The gradients of one node of one number, through a graph that tier 0 computed.

    Attributes:
        reached: the parameters that nodes up to it read, but for constant ones.
        weight_gradients: of parameters and what is computed of them, by kind id.
        pulled_back: what these come to for parameters alone.
    """

    def __init__(self, native: Interpreter, nodes: Any, node: Expression, full: bool):
        self.node = node
        self._nodes = nodes
        self.full = full
        self._graph = native.graph
        self.pulled_back: PullBack = native.weights.pull_back
        self._count = native.count
        gradients: dict[int, np.ndarray] = {}

        def zeros(kind: int) -> np.ndarray:
            array = gradients[kind] = np.zeros(KINDS[kind].shape, np.float32)
            return array

        with phase("run", 0, " back"):
            fused_ops, self._tables = self._graph.backward(
                _root(node, nodes.at(node.index)), node.index, full, zeros
            )
        _note_times(self._graph)
        self.weight_gradients: dict[int, list[Any]] = {
            k: [a] for k, a in gradients.items()
        }
        self.reached: frozenset[Kind] = reached_by(node, fused_ops)

    def touched(self) -> Iterator[tuple[int, np.ndarray, Any]]:
        """Of every lookup up to the node: kind id of the table, row ids, gradients."""
        for table, ids, gradients in self._tables:
            values = np.frombuffer(gradients, np.float32)
            row = KINDS[table].shape[1:]
            yield table, np.frombuffer(ids, np.int32), values.reshape(-1, *row)

    def has(self, node: Expression) -> bool:
        """Whether it knows the gradient of a node."""
        number = self._nodes.at(node.index)
        return bool(self._nodes.has_gradient(node.index)) and number < self._count

    def rows(self, node: Expression) -> np.ndarray:
        """The gradient of a node, ``[batch, *shape]``."""
        shape = max(1, node.lanes), *node.kind.shape
        gradient = self._graph.gradient(self._nodes.at(node.index))
        if gradient is None:
            return np.zeros(shape, np.float32)
        return np.frombuffer(gradient, np.float32).reshape(shape)


def _root(node: Expression, number: int) -> Any:
    """Where backward begins; with its gradient where its one number has padding."""
    kind = node.kind
    if not kind.ragged:
        return number
    gradient = np.zeros(kind.shape, np.float32)
    gradient.flat[0] = 1
    return [(number, gradient)]
