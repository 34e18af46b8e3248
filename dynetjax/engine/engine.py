"""The engine: computes what is asked of a graph, and no more than is new."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np

from dynetjax.core.errors import error_text
from dynetjax.core.expression import Expression
from dynetjax.core.registry import DEVICES
from dynetjax.engine import policy
from dynetjax.engine.divided import Divided, DividedBackward, is_divided
from dynetjax.engine.gradients import accumulate, parameters_of, sums_of
from dynetjax.engine.ir.draws import Draws
from dynetjax.engine.ir.part import BackwardPass
from dynetjax.engine.native.part import new_executor
from dynetjax.engine.out_of_memory import let_compute, memory_of, warn_of_growth
from dynetjax.engine.parts import (
    compute_natively,
    go_back,
    loss_among,
    new_run,
    older_rows,
    run_beside,
    store,
)
from dynetjax.engine.state import State
from dynetjax.engine.stats import (
    note_build,
    note_run,
    phase,
    timing,
)
from dynetjax.engine.xla.live import live
from dynetjax.graph import ComputationGraph
from dynetjax.native import core


class Engine:
    """Computes graphs.

    Args:
        draw_seed: gives the seed of the random nodes of one evaluation of a graph.
        before_read: called before numbers are handed to the user; may raise.
        is_training: whether backward is to be expected of a program that is new.
    """

    def __init__(
        self,
        draw_seed: Callable[[], int],
        before_read: Callable[[], None],
        is_training: Callable[[], bool],
    ):
        self._draw_seed = draw_seed
        self._before_read = before_read
        self._is_training = is_training
        core.use_reader(note_run, before_read, self._begin)

    def values(
        self, graph: ComputationGraph, nodes: list[Expression]
    ) -> list[np.ndarray]:
        """Rows ``[batch, *shape]`` of each node; computes what was made so far."""
        state = self._state(graph)
        divided = _divided(graph, state)
        if divided is not None:
            self._before_read()
            with memory_of(graph):
                return divided.rows(nodes)
        lanes, done = [node for node in nodes if node.lanes], state.done
        if any(not 0 <= state.number(node) < done for node in lanes):
            with memory_of(graph):
                self._compute(graph, state, lanes)
        # not before: the device works on the last update still
        with phase("wait") if state.may_wait else nullcontext():
            self._before_read()
            with memory_of(graph):
                return [self._rows(state, node) for node in nodes]

    def executor(self, graph: ComputationGraph, node: Expression) -> Any:
        """What has computed a node in tier 0, and its number; None if another tier has.

        It is computed if it was not.
        """
        number = graph.computed(node.index)
        if number >= 0:
            return graph.state.native.graph, number
        state = self._state(graph)
        if _divided(graph, state) is not None:
            return None
        number = state.number(node)
        if not 0 <= number < state.done:
            with memory_of(graph):
                self._compute(graph, state, [node])
            number = state.number(node)
        executor = state.part_of(number).executor()
        if executor is None:
            return None
        self._before_read()
        return executor, number

    def _begin(self, graph: ComputationGraph) -> None:
        """Have a graph computed without Python from its first node on, if it may be."""
        if not policy.native() or policy.shares() or timing():
            return
        if not (DEVICES or graph.devices or graph.state is not None):
            let_compute(graph, new_executor(graph.arrays))

    def new_state(self, graph: ComputationGraph) -> State:
        """Notes on a graph that has none; tier 0 may have begun with it."""
        return State(Draws(self._draw_seed, graph.reseeded), graph)

    def _state(self, graph: ComputationGraph) -> State:
        if graph.state is None:
            graph.state = self.new_state(graph)
        state: State = graph.state
        return state

    def _compute(
        self, graph: ComputationGraph, state: State, nodes: list[Expression]
    ) -> None:
        """Run what is new, for some of `nodes` are."""
        if timing():
            note_build(graph)
        warn_of_growth(graph, state.memory())
        store(graph, nodes)
        run = None
        if policy.shares() and not state.parts:
            run = run_beside(graph, state, nodes, self._is_training())
        if run is None and compute_natively(graph, state):
            return
        asked = [node for node in nodes if state.number(node) >= state.done]
        if run is None:
            run = new_run(graph, state, state.done, asked)
        live.look()
        note_run(graph, interpreted=False)
        loss = None if state.parts else loss_among(run, asked)
        root = None if loss is None else state.number(loss)
        if root is not None and self._is_training():
            run.prepare_backward_from(root)
        run.forward(root, older_rows(state))
        state.parts.append(run)

    def _rows(self, state: State, node: Expression) -> np.ndarray:
        if not node.lanes:
            return state.weight(node.kind)[None]
        return state.rows(state.number(node), node.lanes)

    def backward(self, graph: ComputationGraph, node: Expression, full: bool) -> None:
        """Add the gradients of `node`, which is one number, to the parameters."""
        if timing():
            note_build(graph)
        state = self._state(graph)
        state.last = None
        graph.forget_root()
        if not node.lanes:
            kind = node.signature.kind
            one = np.ones(kind.shape, np.float32)
            accumulate({kind.id: [one]}, (), parameters_of(kind))
            return
        divided = _divided(graph, state)
        warn_of_growth(graph, state.memory())
        with memory_of(graph):
            last: BackwardPass
            if divided is not None:
                last = DividedBackward(divided, node, full)
            else:
                last = go_back(graph, state, node, full)
            last.weight_gradients = last.pulled_back(last.weight_gradients)
            touched = [*last.touched()]
        state.last = last
        accumulate(last.weight_gradients, touched, last.reached)

    def gradient(self, graph: ComputationGraph, node: Expression) -> np.ndarray:
        """Rows of the gradient at `node` in the last backward."""
        state = self._state(graph)
        last = state.last
        if graph.root is not None:  # C++ went back, and has not kept what is asked for
            last = state.last = _once_more(graph, state, graph.root, False)
            graph.forget_root()
        if last is None or (node.lanes and node.index > last.node.index):
            raise RuntimeError(
                error_text(
                    "gradient: there is none for this expression",
                    got="no backward()"
                    if last is None
                    else "an expression made after the last backward()'s root",
                    expected="an expression that a backward() went through",
                    fix="call backward() on a later expression first",
                )
            )
        if node.lanes or _needs_rows(graph, node, last.full):
            while not last.has(node):
                state.last = last = self._with_rows(graph, state, last, node)
            return last.rows(node)
        gradients = last.weight_gradients.get(node.signature.kind.id)
        if not gradients:
            return np.zeros((1, *node.signature.kind.shape), np.float32)
        return np.asarray(sums_of([gradients])[0])[None]

    def _with_rows(
        self,
        graph: ComputationGraph,
        state: State,
        last: BackwardPass,
        node: Expression,
    ) -> BackwardPass:
        """The last backward again, with rows for a node and its gradient."""
        state.nodes.hold(node.index)  # no longer a part of sums that it is added to
        state.forget()
        return _once_more(graph, state, last.node, last.full)


def _once_more(
    graph: ComputationGraph, state: State, root: Expression, full: bool
) -> BackwardPass:
    """A backward that adds nothing to parameters."""
    again = go_back(graph, state, root, full)
    again.weight_gradients = again.pulled_back(again.weight_gradients)
    return again


def _needs_rows(graph: ComputationGraph, node: Expression, full: bool) -> bool:
    """Whether a node of parameters alone has a gradient of its own only with rows.

    That of its kind is for all nodes that are computed once for all with this one, and
    what follows from constant parameters has none.
    """
    kind = node.signature.kind
    if node.graph is not graph:  # a parameter
        return False
    weights = graph.weights_up_to(len(graph))
    alike = sum(signature.kind is kind for signature in weights)
    return alike > 1 or (full and kind.constant)


def _divided(graph: ComputationGraph, state: State) -> Divided | None:
    """What computes a graph of which parts lie on devices of their own."""
    if state.divided is None and (graph.devices or DEVICES) and is_divided(graph):
        state.divided = Divided(state.draws)
    return state.divided
