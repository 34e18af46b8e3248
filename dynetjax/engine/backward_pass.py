"""Backward through a graph: in tier 0, by the run that computed it, or on from it."""

from collections.abc import Callable
from functools import partial

import numpy as np

from dynetjax.engine.differentiate import Backward, will_sow, will_touch
from dynetjax.engine.gradients import reached_from
from dynetjax.engine.native.part import NativeBackward
from dynetjax.engine.parts import backward_natively, is_native, new_run, settle
from dynetjax.engine.run import Run
from dynetjax.engine.state import State
from dynetjax.engine.stats import count, falling_back, phase
from dynetjax.expression import Expression
from dynetjax.graph import ComputationGraph
from dynetjax.ops.registry import KINDS, OWNERS, Kind, Storage
from dynetjax.ops.rules import CHANGED

MOST_TIMES = 2  # as many nodes as the first run has, for a backward in two

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
        if not state.parts or is_native(state.parts[0]):
            here = backward_natively(graph, state, node, self._full)
            if here is not None:
                return here
        return self._differentiate()

    def _differentiate(self) -> AnyBackward:
        """Go back by the run that computed the graph, if one did."""
        graph, state, node, full = self._graph, self._state, self._node, self._full
        settle(graph, state, [node])
        run = state.parts[0] if state.parts else None
        if isinstance(run, Run) and not full and self._divides(run):
            return self._in_two(run)
        if not isinstance(run, Run) or node.args[0] >= run.stop or full:
            if graph.changes != len(CHANGED) or (run and not isinstance(run, Run)):
                state.forget()  # all is computed again in any case
                settle(graph, state, [node])
                first = None if full else self._first()
                graph.store(node)  # for a plan may take that the graph is built anew
                if first is not None and self._divides(first):
                    state.parts = [first]
                    try:
                        return self._in_two(first)
                    except BaseException:
                        state.forget()  # it may not have been run
                        raise
            run = new_run(graph, state, 0, [node], full=full)
            run.forward(True, partial(run.prepare_backward_from, node))
        elif not run.keeping:
            run = run.again()
            run.forward(keeping=True)
        self._expect_update(run)
        run.plan.scope.habit.followed()
        state.parts = [run, *[part for part in state.parts if part.stop > run.stop]]
        count(graphs=1)
        early, state.early = state.early, None
        if early is not None and early.run is run and early.node is node:
            return early
        return _send_back(run, node, full)

    def _divides(self, run: Run) -> bool:
        """Whether to take the first run as it is, and what came after it as another.

        If that is small beside most graphs, all is computed once more in one run.
        """
        if self._node.args[0] < run.stop:
            return False
        scope = run.plan.scope
        if self._graph.changes != len(CHANGED) or not scope.divides:
            return False
        return scope.in_two.after(run.stop * MOST_TIMES >= len(self._graph.cells))

    def _first(self) -> Run | None:
        """What was computed first, by the rules as they are now; it is not run yet."""
        if self._state.first is None:
            return None
        asked, before = self._state.first
        return new_run(self._graph, self._state, 0, asked, before=before)

    def _in_two(self, first: Run) -> AnyBackward:
        """Go back through a run of what came after the first one, and that one."""
        state, node = self._state, self._node
        run = first if first.keeping else first.again()
        later = self._run_from(run)
        is_new = later is None
        if later is None:
            later = new_run(self._graph, state, run.stop, [node], origin=run)
        prepare = partial(self._prepare_in_two, run, later)
        if not run.keeping:
            run.forward(True, prepare)
        prepare()
        if is_new:
            later.forward(True, partial(later.prepare_backward_from, node))
        rest = [part for part in state.parts if part.stop > later.stop]
        state.parts, state.early = [run, later, *rest], None
        count(graphs=2)
        return _send_back(later, node, full=False)

    def _run_from(self, origin: Run) -> Run | None:
        """The run on from `origin`, if it is there and computed the node."""
        for part in self._state.parts[1:2]:
            if isinstance(part, Run) and part.origin is origin:
                return part if self._node.args[0] < part.stop else None
        return None

    def _prepare_in_two(self, run: Run, later: Run) -> None:
        """Have what comes after two runs compiled, if it is new."""
        if self._expect_update(later) and run.fused:
            run.prepare_backward(will_sow(later, run))

    def _expect_update(self, run: Run) -> bool:
        """Note that this program is trained; True the first time.

        Then the update is compiled while the backward before it still is.
        """
        scope = _parts_of(run)[-1].plan.scope
        if scope.trained:
            return False
        reached: set[Kind] = set()
        touched: dict[Storage, list[np.ndarray]] = {}
        for part in _parts_of(run):
            reached |= reached_from(self._node, part.tiling)
        for table, rows in self._will_touch(run).items():
            touched.setdefault(OWNERS[KINDS[table].source], []).extend(rows)
        storages = {OWNERS[kind.source] for kind in reached}
        self._prepare_update(storages | touched.keys(), touched)
        scope.trained = True
        return True

    def _will_touch(self, run: Run) -> dict[int, list[np.ndarray]]:
        """Of each table, by kind id, the rows that there will be gradients of."""
        found: dict[int, list[np.ndarray]] = {}
        for part in _parts_of(run):
            for table, rows in will_touch(part, self._node.index):
                found.setdefault(table, []).append(rows)
        return found


def send_early(state: State, run: Run, node: Expression) -> None:
    """Send the backward that is to be expected, while the device is at work."""
    with falling_back("early backward"):  # it is raised when backward is asked for
        state.early = _send_back(run, node, full=False)


def _send_back(run: Run, node: Expression, full: bool) -> Backward:
    with phase("run"):
        return Backward(run, node, full)


def _parts_of(run: Run) -> list[Run]:
    """What a backward goes through: a run, and the one of which it reads rows."""
    return [run] if run.origin is None else [run, run.origin]
