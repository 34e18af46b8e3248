"""The engine: computes what is asked of a graph, and no more than is new."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from dynetjax.engine.plan import Plan, make_plan
from dynetjax.engine.run import Backward, Run
from dynetjax.engine.section import SIGNATURE_TABLE, Section, increment, whole
from dynetjax.engine.stats import count, phase
from dynetjax.engine.uniforms import Uniforms, add_up
from dynetjax.errors import explain
from dynetjax.graph import ComputationGraph, Storage
from dynetjax.ops.registry import KINDS

TRIES = 8  # runs of a scope that may keep what backward needs in vain


class State:
    """What was computed of a graph.

    Attributes:
        runs: in order; together they computed the nodes before `done`.
        last: the last backward.
    """

    def __init__(self, graph: ComputationGraph, seed: int):
        self.uniforms = Uniforms(graph)
        self.seed = seed
        self.runs: list[Run] = []
        self.done = 0
        self.last: Backward | None = None

    def origin(self, node: int) -> int | None:
        """The macro that stored a node in some run."""
        found = (run.origin(node) for run in reversed(self.runs))
        return next((macro for macro in found if macro is not None), None)


class Engine:
    """Computes graphs.

    Args:
        draw_seed: gives the seed of the random nodes of one evaluation of a graph.
        before_read: called before numbers are handed to the user; may raise.
    """

    def __init__(self, draw_seed: Callable[[], int], before_read: Callable[[], None]):
        self._draw_seed = draw_seed
        self._before_read = before_read

    def values(self, graph: ComputationGraph, nodes: list[int]) -> list[np.ndarray]:
        """Rows ``[batch, *shape]`` of each node; computes every node made so far."""
        with phase("wait"):
            self._before_read()
        state = self._state(graph)
        self._compute(graph, state, nodes)
        with phase("wait"):
            return [self._rows(graph, state, node) for node in nodes]

    def _state(self, graph: ComputationGraph) -> State:
        if graph.state is None:
            graph.state = State(graph, self._draw_seed())
        return graph.state

    def _compute(self, graph: ComputationGraph, state: State, nodes: list[int]) -> None:
        """Run what is new, and what of `nodes` was inlined before."""
        lanes = [n for n in nodes if not is_uniform(graph, n)]
        missing = [n for n in lanes if n < state.done and state.origin(n) is None]
        if state.done == len(graph) and not missing:
            return
        if state.done == 0:
            section = whole(graph)
            asked = lanes
        else:
            asked = missing + [n for n in lanes if n >= state.done]
            section = increment(graph, state.done, missing, state.origin)
        if not SIGNATURE_TABLE.uniform[section.sig].all():
            self._run(graph, state, section, asked)
        state.done = len(graph)

    def _run(
        self, graph: ComputationGraph, state: State, section: Section, asked: list[int]
    ) -> None:
        with phase("plan"):
            plan = make_plan(section, asked)
        run = Run(graph, plan, state.uniforms, state.seed, state.runs)
        run.forward(keeping=_will_train(graph, plan, asked))
        count(graphs=1)
        state.runs.append(run)

    def _rows(self, graph: ComputationGraph, state: State, node: int) -> np.ndarray:
        if is_uniform(graph, node):
            return np.asarray(state.uniforms.value(graph.kind[node]))[None]
        found = (run.rows(node, graph.batch[node]) for run in reversed(state.runs))
        return next(rows for rows in found if rows is not None)

    def backward(self, graph: ComputationGraph, node: int, full: bool) -> None:
        """Add the gradients of `node`, which is one number, to the parameters."""
        state = self._state(graph)
        state.last = None
        if is_uniform(graph, node):
            one = np.ones(KINDS[graph.kind[node]].shape, np.float32)
            _accumulate(graph, {graph.kind[node]: [one]}, (), node)
            return
        state.last = self._differentiate(graph, state, node, full, [])
        found = state.uniforms.pull_back(state.last.weights)
        state.last.weights = found
        _accumulate(graph, found, state.last.touched(), node)

    def _differentiate(
        self, graph: ComputationGraph, state: State, node: int, full: bool, also: list
    ) -> Backward:
        """Backward through the whole graph, with rows for the nodes `also`."""
        run = state.runs[0] if len(state.runs) == 1 else None
        reusable = run is not None and state.done == len(graph) and not (full or also)
        if run is None or not reusable or run.place(node) is None:
            with phase("plan"):
                plan = make_plan(whole(graph), [node, *also], full)
            run = Run(graph, plan, state.uniforms, state.seed)
        if not run.keeping:
            run.forward(keeping=True)
        run.plan.scope.trained = True
        if not state.runs or reusable:
            state.runs, state.done = [run], len(graph)
        count(graphs=1)
        with phase("run"):
            return Backward(run, node, full)

    def gradient(self, graph: ComputationGraph, node: int) -> np.ndarray:
        """Rows of the gradient at `node` in the last backward."""
        last = self._state(graph).last
        if last is None or node > last.node:
            raise RuntimeError(
                explain(
                    "gradient: there is none for this expression",
                    got="no backward()"
                    if last is None
                    else "an expression made after the last backward()'s root",
                    expected="an expression that a backward() went through",
                    fix="call backward() on a later expression first",
                )
            )
        dim = graph.dim(node)
        if is_uniform(graph, node):
            found = last.weights.get(graph.kind[node])
            if not found:
                return np.zeros((1, *dim.shape), np.float32)
            return np.asarray(add_up([found])[0])[None]
        rows = last.rows(node, dim.batch)
        if rows is None:
            state = graph.state
            last = self._differentiate(graph, state, last.node, last.full, [node])
            last.weights = state.last.weights
            state.last = last
            rows = last.rows(node, dim.batch)
        assert rows is not None
        return rows


def _will_train(graph: ComputationGraph, plan: Plan, asked: list[int]) -> bool:
    """Whether to keep what backward needs.

    Yes, once a backward has followed; and in a scope's first runs, if the value of one
    number is asked for, as that of a loss. Else every component would be compiled
    without first, and then with.
    """
    scope = plan.scope
    if scope.trained or scope.tries >= TRIES or not plan.differentiable:
        return scope.trained
    scope.tries += 1
    dims = [graph.dim(node) for node in asked]
    return any(dim.size * dim.batch == 1 for dim in dims)


def is_uniform(graph: ComputationGraph, node: int) -> bool:
    """Whether a node is a parameter, or made of parameters alone, without rows."""
    return KINDS[graph.kind[node]].uniform


def _accumulate(
    graph: ComputationGraph,
    found: dict[int, list[Any]],
    tables: Iterable[tuple[int, np.ndarray, Any]],
    root: int,
) -> None:
    """Add gradients to their parameters, and note which parameters were reached."""
    storages, groups = [], []
    for number, gradients in found.items():
        storage = _storage(graph, number)
        if storage is not None and not KINDS[number].constant:
            earlier = [] if storage.gradient is None else [storage.gradient]
            storages.append(storage)
            groups.append(earlier + gradients)
    for storage, gradient in zip(storages, add_up(groups), strict=True):
        storage.gradient = gradient
    for number, rows, values in tables:
        table = _storage(graph, number)
        assert table is not None
        table.add_row_gradients(rows, values)
    for number, node in graph.parameter_nodes.items():
        if node <= root and not KINDS[number].constant:
            parameter = _storage(graph, number)
            assert parameter is not None
            parameter.has_gradient = True


def _storage(graph: ComputationGraph, number: int) -> Storage | None:
    """What holds the parameter of this kind; None if the graph does not use it."""
    kind = KINDS[number]
    if not kind.is_parameter or kind.source is None:
        return None
    return graph.storage.get(kind.source)
