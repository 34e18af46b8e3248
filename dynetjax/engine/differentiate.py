"""Gradients: a run carried out backwards."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from dynetjax.engine.fused import Pools
from dynetjax.engine.gradients import reached_from
from dynetjax.engine.macros import MACROS
from dynetjax.engine.run import Run, read_rows
from dynetjax.engine.steps import Step
from dynetjax.expression import Expression
from dynetjax.ops.registry import LOOKUP

Array = Any


class Backward:
    """The gradients of one node of one number, through the run that computed it.

    Attributes:
        number: of the node among the stored ones.
        gradients: of pools, where they were scattered.
        reached: the parameters that nodes up to it read, but for constant ones.
        weights: of parameters and what is computed of them, by kind id.
        pulled_back: what these come to for parameters alone.
    """

    def __init__(self, run: Run, node: Expression, full: bool):
        self.run, self.node, self.full = run, node, full
        self.pulled_back = run.uniforms.pull_back
        self.number: int = node.args[0]
        self.reached = reached_from(node, run.tiling)
        self.gradients: dict[int, Array] = {}
        self.weights: dict[int, list[Array]] = {}
        self._tables: dict[int, Array] = {}  # of the rows of a source, by component
        root = self.number - run.start
        self._tape = run.tape_back(run.tiling.not_under((root,), run.plan.ends))
        assert run.lent is not None
        self._fused(run.lent)

    def has(self, number: int) -> bool:
        """Whether it knows the gradient of a stored node."""
        return number < self.run.stop and not self.run.needs_pool(number)

    def touched(self) -> Iterator[tuple[int, np.ndarray, Array]]:
        """Of every lookup up to the node: kind id of the table, row ids, gradients."""
        for step in self.run.plan.steps:
            is_lookup = MACROS[step.wires.macros[0]].form == LOOKUP
            if is_lookup and step.part in self._tables:
                values = self._tables[step.part]
                yield *_looked_up(self.run, step, self.node.index), values

    def rows(self, number: int, batch: int) -> np.ndarray:
        """The gradient of a stored node of this run, ``[batch, *shape]``."""
        run = self.run
        macro = run.macro(number)
        pool, row = run.place(number)
        reached = self.full or macro in run.plan.differentiable
        if number == self.number or (reached and pool in self.gradients):
            return read_rows(self.gradients[pool], row, batch)
        return np.zeros((batch, *MACROS[macro].shape), np.float32)

    def _fused(self, lent: Pools) -> None:
        run = self.run
        fusion = run.plan.fusion
        gradients, weights, self._tables = fusion.backward(
            *run.place(self.number),
            run.uniforms.several(fusion.uniforms),
            lent.pools,
            lent.kept,
            self._tape,
        )
        self.gradients = {fusion.pools[p]: a for p, a in gradients.items()}
        self.weights = {fusion.uniforms[n]: [a] for n, a in weights.items()}


def _looked_up(run: Run, step: Step, last: int) -> tuple[int, np.ndarray]:
    """The table that a step reads, by its kind id, and of each lane the row id."""
    macro = step.wires.macros[0]
    table = MACROS[macro].kinds[0]
    lanes = run.tapes.lanes(macro)
    ids = np.full(step.program.lanes, table.shape[0], np.int32)
    found = run.tapes.row_ids(macro)
    cells = run.tiling.cells
    if cells[int(lanes.nodes[-1])].index <= last:
        ids[lanes.at] = found
    else:
        indices = [cells[n].index for n in lanes.nodes.tolist()]
        reached = lanes.spread(np.array(indices) <= last)
        ids[lanes.at[reached]] = found[reached]
    return table.id, ids
