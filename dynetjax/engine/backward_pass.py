"""Backward through a graph: in tier 0, by the run that computed it, or on from it."""

from collections.abc import Callable

import numpy as np

from dynetjax.engine.differentiate import Backward, will_touch
from dynetjax.engine.gradients import reached_from
from dynetjax.engine.native.part import NativeBackward
from dynetjax.engine.parts import backward_natively, new_run, settle
from dynetjax.engine.run import Run
from dynetjax.engine.state import State
from dynetjax.engine.stats import count, phase
from dynetjax.expression import Expression
from dynetjax.graph import ComputationGraph
from dynetjax.ops.registry import KINDS, OWNERS, Storage
from dynetjax.ops.rules import CHANGED

AnyBackward = Backward | NativeBackward

PrepareUpdate = Callable[[set[Storage], dict[Storage, list[np.ndarray]]], None]


class BackwardPass:
    """One backward, and how it comes about.

    Args:
        graph, state: what it goes through, and what was computed of that.
        node: where it begins, which is one number.
        full: whether gradients are to flow to constants, too.
        prepare_update: called before the first backward of a program: of the parameters
            and tables that it reaches, and the rows of each table, which come in parts.
    """

    def __init__(
        self,
        graph: ComputationGraph,
        state: State,
        node: Expression,
        full: bool,
        prepare_update: PrepareUpdate,
    ):
        self._graph, self._state, self._node, self._full = graph, state, node, full
        self._prepare_update = prepare_update

    def go(self) -> AnyBackward:
        """Back to the parameters: in tier 0 if that has computed the graph, or does."""
        graph, state, node = self._graph, self._state, self._node
        if not (state.parts and isinstance(state.parts[0], Run)):
            here = backward_natively(graph, state, node, self._full)
            if here is not None:
                return here
        return self._differentiate()

    def _differentiate(self) -> AnyBackward:
        """Go back by the run that computed the graph from its first node on."""
        graph, state, node, full = self._graph, self._state, self._node, self._full
        settle(graph, state, [node])
        run = state.parts[0] if state.parts else None
        if not isinstance(run, Run) or node.args[0] >= run.stop or full:
            if graph.changes != len(CHANGED) or (run and not isinstance(run, Run)):
                state.forget()  # all is computed again in any case
                settle(graph, state, [node])
            run = new_run(graph, state, 0, [node], full)
            run.prepare_backward_from(node)
            run.forward(keeping=True)
        elif not run.keeping:
            run = run.again()
            run.forward(keeping=True)
        self._expect_update(run)
        state.parts = [run, *[part for part in state.parts if part.stop > run.stop]]
        count(graphs=1)
        with phase("run"):
            return Backward(run, node, full)

    def _expect_update(self, run: Run) -> None:
        """Note that this program is trained.

        The first time the update is compiled while the backward before it still is.
        """
        scope = run.plan.scope
        if scope.trained:
            return
        reached = reached_from(self._node, run.tiling)
        touched: dict[Storage, list[np.ndarray]] = {}
        for table, rows in self._will_touch(run).items():
            touched.setdefault(OWNERS[KINDS[table].source], []).extend(rows)
        storages = {OWNERS[kind.source] for kind in reached}
        self._prepare_update(storages | touched.keys(), touched)
        scope.trained = True

    def _will_touch(self, run: Run) -> dict[int, list[np.ndarray]]:
        """Of each table, by kind id, the rows that there will be gradients of."""
        found: dict[int, list[np.ndarray]] = {}
        for table, rows in will_touch(run, self._node.index):
            found.setdefault(table, []).append(rows)
        return found
