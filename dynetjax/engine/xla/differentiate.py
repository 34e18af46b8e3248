"""Gradients: a run carried out backwards."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from dynetjax.core.expression import Expression
from dynetjax.core.registry import KINDS, Kind
from dynetjax.engine.gradients import reached_by
from dynetjax.engine.ir.part import PullBack
from dynetjax.engine.xla.executable import Gradients, run_backward
from dynetjax.engine.xla.run import Run, read_rows

Array = Any


class Backward:
    """The gradients of one node of one number, through the run that computed it.

    Attributes:
        node: where it begins.
        full: whether gradients went to constants, too.
        reached: the parameters that nodes up to it read, but for constant ones.
        weight_gradients: of parameters and what is computed of them, by kind id.
        pulled_back: what these come to for parameters alone.
    """

    def __init__(self, run: Run, nodes: Any, node: Expression, full: bool):
        self.run, self._nodes = run, nodes
        root = nodes.at(node.index)
        self.node = node
        self.full = full
        self.pulled_back: PullBack = run.weights.pull_back
        self.reached: frozenset[Kind] = reached_by(node, run.fused_up_to(node))
        wiring = run.layout.binding.wiring
        assert run.values is not None
        self._gradients: Gradients = run_backward(
            run.layout.program,
            run.pool(root),
            run.weights.several(wiring.weights),
            run.values,
            run.indices_back(root),
        )
        self.weight_gradients: dict[int, list[Array]] = {
            wiring.weights[n]: [array]
            for n, array in self._gradients.weight_gradients.items()
        }

    def has(self, node: Expression) -> bool:
        """Whether it knows the gradient of a node; if not, the next one will."""
        number = self._nodes.at(node.index)
        if not self._nodes.has_gradient(node.index) or number >= self.run.stop:
            return False
        return self.run.layout.has_gradients(self._op(number))

    def _op(self, number: int) -> int:
        """The family's op of a stored node."""
        return self.run.layout.op(self._nodes.stored.fused(number))

    def touched(self) -> Iterator[tuple[int, np.ndarray, Array]]:
        """Of every lookup up to the node: kind id of the table, row ids, gradients."""
        components = self.run.layout.family.components
        for k, values in self._gradients.tables.items():
            (op,) = components[k]
            fused = self.run.layout.family.ops[op]
            if fused.kinds and self.run.layout.trips[k]:
                table = fused.kinds[0].id
                yield table, self._looked_up(op, table, len(values)), values

    def _looked_up(self, op: int, table: int, lanes: int) -> np.ndarray:
        """Of each lane the row of the table that it reads; one past the end if none."""
        nodes = self.run.nodes(op)
        ids = np.full(lanes, KINDS[table].shape[0], np.int32)
        last = self.node.index
        indices = [self.run.index(n) for n in nodes.numbers.tolist()]
        reached = (np.array(indices) <= last).repeat(nodes.counts)
        ids[nodes.lanes[reached]] = self.run.row_ids(op)[reached]
        return ids

    def rows(self, node: Expression) -> np.ndarray:
        """The gradient of a node of this run, ``[batch, *shape]``."""
        number, lanes = self._nodes.at(node.index), max(1, node.lanes)
        pool, row = self.run.pool_and_row(number)
        reached = self.full or self._op(number) in self.run.differentiable
        if node == self.node or (reached and pool in self._gradients.pools):
            return read_rows(self._gradients.pools[pool], row, lanes)
        return np.zeros((lanes, *node.kind.shape), np.float32)
