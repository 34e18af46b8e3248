"""The engine: computes what is asked of a graph, and no more than is new."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial

import numpy as np

from dynetjax.engine.archive import archive
from dynetjax.engine.beside import Beside
from dynetjax.engine.compiling import compiles_well_at_once
from dynetjax.engine.device import host_sees_device
from dynetjax.engine.differentiate import Backward, will_sow, will_touch
from dynetjax.engine.draws import SeededDraws, undrawn
from dynetjax.engine.gradients import accumulate, parameters_of, reached_from
from dynetjax.engine.hosted import Hosted, compute_here
from dynetjax.engine.hosted_backward import HostedBackward, backward_here
from dynetjax.engine.increments import Increment, compute
from dynetjax.engine.macros import macro_of_rule
from dynetjax.engine.memory import memory_of
from dynetjax.engine.plan import Plan, make_plan, tidy_plans
from dynetjax.engine.run import Run
from dynetjax.engine.state import Part, State, has_no_rows
from dynetjax.engine.stats import count, phase
from dynetjax.engine.tiling import Tiling
from dynetjax.engine.uniforms import add_up
from dynetjax.errors import explain
from dynetjax.expression import Expression
from dynetjax.graph import ComputationGraph
from dynetjax.ops.registry import KINDS, OWNERS, Kind, Storage
from dynetjax.ops.rules import CHANGED

MOST_TIMES = 2  # as many nodes as the first run has, for a backward in two
TRIES = 8  # runs of a scope that may keep what backward needs in vain


class Engine:
    """Computes graphs.

    Args:
        draw_seed: gives the seed of the random nodes of one evaluation of a graph.
        before_read: called before numbers are handed to the user; may raise.
        is_training: whether backward is to be expected of a program that is new.
        prepare_update: called before the first backward of a program: of the parameters
            and tables that it reaches, and the rows of each table, which come in parts.
    """

    def __init__(
        self,
        draw_seed: Callable[[], int],
        before_read: Callable[[], None],
        is_training: Callable[[], bool],
        prepare_update: Callable[[set[Storage], dict[Storage, list[np.ndarray]]], None],
    ):
        self._draw_seed = draw_seed
        self._before_read = before_read
        self._is_training = is_training
        self._prepare_update = prepare_update
        self._known: set[int] = set()  # macros that were asked for first
        self._beside = Beside()

    def values(
        self, graph: ComputationGraph, nodes: list[Expression]
    ) -> list[np.ndarray]:
        """Rows ``[batch, *shape]`` of each node; computes what was made so far."""
        if len(nodes) == 1 and graph.state is not None:
            rows = graph.state.at_hand(nodes[0])
            if rows is not None:
                self._before_read()
                return [rows]
        state = self._state(graph)
        lanes, done = [node for node in nodes if node.lanes], state.done
        if any(has_no_rows(node) or node.args[0] >= done for node in lanes):
            with memory_of(graph):
                self._compute(graph, state, lanes)
        with phase("wait"):  # and not before: the device works on the last update still
            self._before_read()
            with memory_of(graph):
                return [self._rows(state, node) for node in nodes]

    def _state(self, graph: ComputationGraph) -> State:
        if graph.state is None:
            graph.state = State(SeededDraws(self._draw_seed, graph.reseeded))
        return graph.state

    def _compute(
        self, graph: ComputationGraph, state: State, nodes: list[Expression]
    ) -> None:
        """Run what is new, for some of `nodes` are."""
        _settle(graph, state, nodes)
        asked = [node for node in nodes if node.args[0] >= state.done]
        count(graphs=1)
        if state.parts:
            self._compute_more(graph, state, asked)
            return
        state.first = asked, len(graph.nodes)
        here = self._beside.is_busy or self._is_tentative(asked)
        if here and _compute_here(graph, state, tentative=True):
            return
        self._beside.wait()
        loss = asked[0] if len(asked) == 1 and _is_number(asked[0]) else None
        with phase("plan"):
            tiling, plan = _plan(graph, state, 0, asked)
        keeping = _will_train(plan, asked)
        run = Run(tiling, plan, state.uniforms, state.draws)
        here = keeping and run.lacks_programs and self._trains_here()
        if here and _compute_here(graph, state, tentative=True):
            return  # backward tells which programs to make
        habitual = loss is not None and plan.scope.habit.read()
        trains = keeping and (habitual or self._is_training())
        root, behind = loss if habitual else None, None  # of a backward to be expected
        if root is not None and root.args[0] == run.stop - 1:
            behind = partial(_send_early, state, run, root)
        meanwhile = None  # if the program is new
        if loss is not None and trains:
            meanwhile = partial(run.prepare_backward_from, loss)
        if not run.forward(keeping, meanwhile, behind):
            state.early = None
            run = _run_otherwise(graph, state, asked, keeping)
        state.parts.append(run)
        if root is not None and state.early is None:
            run.fetch(root)
            _send_early(state, run, root)
        tidy_plans()

    def _is_tentative(self, asked: list[Expression]) -> bool:
        """Whether a program for what is asked for first would hardly be of further use.

        In training, who reads something else than a loss goes on with it, and that may
        be other than any before: then rules change, and with them the program.
        """
        first = asked[0]
        if first.rule.macro in self._known:
            return False
        self._known.add(macro_of_rule(first.rule))
        return self._trains_here() and not any(map(_is_number, asked))

    def _trains_here(self) -> bool:
        """Whether the host may compute a graph while programs for it are made."""
        return (
            host_sees_device() and self._is_training() and not compiles_well_at_once()
        )

    def _compute_more(
        self, graph: ComputationGraph, state: State, asked: list[Expression]
    ) -> None:
        """Run what was added since the last time."""
        if host_sees_device():
            tentative = isinstance(state.parts[0], Hosted)
            if _compute_here(graph, state, tentative):
                return
        if state.archive is None:
            state.archive = archive()
        about = state.archive, state.uniforms, state.draws, state.bring
        try:
            part = compute(graph, state.done, asked, *about) or self._run_more(
                graph, state, asked
            )
        except BaseException:
            if not state.archive.whole:
                state.forget()
            raise
        state.parts.append(part)

    def _run_more(
        self, graph: ComputationGraph, state: State, asked: list[Expression]
    ) -> Run:
        """The same, where it takes loops."""
        with phase("plan"):
            tiling, plan = _plan(graph, state, state.done, asked)
        state.bring(tiling.older.tolist())
        run = Run(tiling, plan, state.uniforms, state.draws, state.archive)
        run.forward(keeping=False)  # backward begins with the first node
        return run

    def _rows(self, state: State, node: Expression) -> np.ndarray:
        if not node.lanes:
            return np.asarray(state.uniforms.value(node.rule.kind))[None]
        return state.rows(node.args[0], node.lanes)

    def backward(self, graph: ComputationGraph, node: Expression, full: bool) -> None:
        """Add the gradients of `node`, which is one number, to the parameters."""
        state = self._state(graph)
        state.last = None
        if not node.lanes:
            kind = node.rule.kind
            one = np.ones(kind.shape, np.float32)
            accumulate({kind.id: [one]}, (), parameters_of(kind))
            return
        with memory_of(graph):
            last = self._backward_meanwhile(
                graph, state, node, full
            ) or self._differentiate(graph, state, node, full)
            last.weights = state.uniforms.pull_back(last.weights)
            touched = [*last.touched()]
        state.last = last
        accumulate(last.weights, touched, last.reached)

    def _backward_meanwhile(
        self, graph: ComputationGraph, state: State, node: Expression, full: bool
    ) -> HostedBackward | None:
        """Backward on the host, while programs are made; None if that is over.

        It waits for that where the host cannot, and no run has computed the graph.
        """
        if state.parts and isinstance(state.parts[0], Run):
            return None
        here = None
        if self._beside.is_busy and not full:
            here = self._backward_here(graph, state, node)
        if here is None:
            self._beside.wait()
        return here

    def _differentiate(
        self,
        graph: ComputationGraph,
        state: State,
        node: Expression,
        full: bool,
        may_be_here: bool = True,
    ) -> Backward | HostedBackward:
        """Backward through the whole graph, by the run that computed it if one did.

        If it `may_be_here`, the host does it where programs for it are missing.
        """
        may_be_here = may_be_here and not full and self._trains_here()
        _settle(graph, state, [node])
        run = state.parts[0] if state.parts else None
        if isinstance(run, Run) and not full and _divides(run, graph, node):
            return self._in_two(graph, state, node, run, may_be_here)
        if not isinstance(run, Run) or node.args[0] >= run.stop or full:
            if graph.changes != len(CHANGED) or isinstance(run, Hosted):
                state.forget()  # all is computed again in any case
                _settle(graph, state, [node])
                first = None if full else _first(graph, state)
                graph.store(node)  # for a plan may take that the graph is built anew
                if first is not None and _divides(first, graph, node):
                    state.parts = [first]
                    try:
                        return self._in_two(graph, state, node, first, may_be_here)
                    except BaseException:
                        state.forget()  # it may not have been run
                        raise
            with phase("plan"):
                tiling, plan = _plan(graph, state, 0, [node], full)
            run = Run(tiling, plan, state.uniforms, state.draws)
            if may_be_here and run.lacks_programs:
                here = self._make_beside(graph, state, node, run)
                if here is not None:
                    return here
            if not run.forward(True, partial(run.prepare_backward_from, node)):
                run = _run_otherwise(graph, state, [node], keeping=True)
        else:
            run = _keeping(run)
        self._expect_update(run, node)
        run.plan.scope.habit.followed()
        state.parts = [run, *[part for part in state.parts if part.stop > run.stop]]
        count(graphs=1)
        early, state.early = state.early, None
        if early is not None and early.run is run and early.node is node:
            return early
        return _send_back(run, node, full)

    def _in_two(
        self,
        graph: ComputationGraph,
        state: State,
        node: Expression,
        first: Run,
        may_be_here: bool,
    ) -> Backward | HostedBackward:
        """Backward through a run of what came after the first one, and that one."""
        run = first if first.keeping else first.again()
        later = _run_from(run, state.parts[1:2], node)
        is_new = later is None
        if later is None:
            with phase("plan"):
                tiling, plan = _plan(graph, state, run.stop, [node])
            later = Run(tiling, plan, state.uniforms, state.draws, origin=run)
        if may_be_here and (run.lacks_programs or later.lacks_programs):
            here = self._make_beside(graph, state, node, later)
            if here is not None:
                return here
        prepare = partial(self._prepare_in_two, run, later, node)
        if not run.keeping:
            run.forward(True, prepare)
        prepare()
        if is_new:
            later.forward(True, partial(later.prepare_backward_from, node))
        rest = [part for part in state.parts if part.stop > later.stop]
        state.parts, state.early = [run, later, *rest], None
        count(graphs=2)
        return _send_back(later, node, full=False)

    def _make_beside(
        self, graph: ComputationGraph, state: State, node: Expression, run: Run
    ) -> HostedBackward | None:
        """Backward on the host, while programs for a run, and its origin, are made.

        If the host cannot, it waits for them, and returns None.
        """
        programs = run.programs([run.seed(node)])
        if run.origin is not None:
            programs = run.origin.programs(will_sow(run, run.origin)) + programs
        several = _will_touch(run, node).items()
        self._beside.rows = {table: [*map(len, rows)] for table, rows in several}
        self._expect_update(run, node)
        here = self._backward_here(graph, state, node)
        self._beside.make(programs)
        if here is None:
            self._beside.wait()
        return here

    def _backward_here(
        self, graph: ComputationGraph, state: State, node: Expression
    ) -> HostedBackward | None:
        """Backward on the host, which has computed the graph or does; None if not."""
        _settle(graph, state, [node])
        if graph.changes != len(CHANGED) or any(
            not isinstance(part, Hosted) for part in state.parts
        ):
            state.forget()
            _settle(graph, state, [node])
        if node.args[0] >= state.done and not _compute_here(graph, state, True):
            return None
        with phase("run"):
            count(graphs=1)
            return backward_here(state.host, node, self._beside.rows)

    def _prepare_in_two(self, run: Run, later: Run, node: Expression) -> None:
        """Have what comes after two runs compiled, if it is new."""
        if self._expect_update(later, node) and run.fused:
            run.prepare_backward(will_sow(later, run))

    def _expect_update(self, run: Run, node: Expression) -> bool:
        """Note that this program is trained; True the first time.

        Then the update is compiled while the backward before it still is.
        """
        scope = _parts_of(run)[-1].plan.scope
        if scope.trained:
            return False
        reached: set[Kind] = set()
        touched: dict[Storage, list[np.ndarray]] = {}
        for part in _parts_of(run):
            reached |= reached_from(node, part.tiling)
        for table, rows in _will_touch(run, node).items():
            touched.setdefault(OWNERS[KINDS[table].source], []).extend(rows)
        storages = {OWNERS[kind.source] for kind in reached}
        self._prepare_update(storages | touched.keys(), touched)
        scope.trained = True
        return True

    def gradient(self, graph: ComputationGraph, node: Expression) -> np.ndarray:
        """Rows of the gradient at `node` in the last backward."""
        state = self._state(graph)
        last = state.last
        if last is None or (node.lanes and node.index > last.node.index):
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
        if not node.lanes:
            found = last.weights.get(node.rule.kind.id)
            if not found:
                return np.zeros((1, *node.rule.kind.shape), np.float32)
            return np.asarray(add_up([found])[0])[None]
        if isinstance(last, HostedBackward):
            state.last = last = self._with_rows(graph, state, last, node)
        origin = last.run.origin
        if origin is not None:
            origin.plan.scope.divides = False
        apart = not node.rule.sums or node.index in graph.held
        if (
            origin is not None
            or not apart
            or has_no_rows(node)
            or node.args[0] >= last.run.stop
        ):
            state.last = last = self._with_rows(graph, state, last, node)
        while last.run.needs_pool(node.args[0]):
            state.last = last = self._with_rows(graph, state, last, node)
        return last.rows(node.args[0], node.lanes)

    def _with_rows(
        self,
        graph: ComputationGraph,
        state: State,
        last: Backward | HostedBackward,
        node: Expression,
    ) -> Backward:
        """The last backward again, with rows for a node and its gradient."""
        graph.held.add(node.index)  # no longer a part of sums that it is added to
        graph.rebuild()
        state.forget()
        self._beside.wait()
        again = self._differentiate(graph, state, last.node, last.full, False)
        assert isinstance(again, Backward)
        again.weights = last.weights
        return again


def _settle(graph: ComputationGraph, state: State, asked: list[Expression]) -> None:
    """Store what is asked for, and build the graph by the rules as they are now."""
    for node in asked:
        graph.store(node)
    if not state.parts and graph.changes != len(CHANGED):
        graph.rebuild()
        for node in asked:
            graph.store(node)


def _compute_here(graph: ComputationGraph, state: State, tentative: bool) -> bool:
    """Compute on the host what is new; False if it is not for that."""
    here = compute_here(graph, state.done, state.host, state.rows, tentative)
    if here is not None:
        state.parts.append(here)
    return here is not None


def _parts_of(run: Run) -> list[Run]:
    """What a backward goes through: a run, and the one of which it reads rows."""
    return [run] if run.origin is None else [run, run.origin]


def _will_touch(run: Run, node: Expression) -> dict[int, list[np.ndarray]]:
    """Of each table, by kind id, the rows that a backward will have gradients of."""
    found: dict[int, list[np.ndarray]] = {}
    for part in _parts_of(run):
        for table, rows in will_touch(part, node.index):
            found.setdefault(table, []).append(rows)
    return found


def _keeping(run: Run) -> Run:
    """A run that has what backward needs: this one, or it once more."""
    if not run.keeping:
        run = run.again()
        run.forward(keeping=True)
    return run


def _first(graph: ComputationGraph, state: State) -> Run | None:
    """What was computed first, by the rules as they are now; it is not run yet."""
    if state.first is None:
        return None
    asked, before = state.first
    with phase("plan"):
        planned = _plan(graph, state, 0, asked, as_usual=False, before=before)
    return Run(*planned, state.uniforms, state.draws)


def _run_from(origin: Run, parts: list[Part], node: Expression) -> Run | None:
    """The one of some parts that is a run on from `origin` and computed a node."""
    for part in parts:
        if isinstance(part, Run) and part.origin is origin:
            return part if node.args[0] < part.stop else None
    return None


def _plan(
    graph: ComputationGraph,
    state: State,
    start: int,
    asked: list[Expression],
    full: bool = False,
    as_usual: bool = True,
    before: int | None = None,
) -> tuple[Tiling, Plan]:
    """The stored nodes from `start` on, and their plan; see `make_plan`.

    Only those of nodes `before` a certain one, if that is given.
    """
    while True:
        stop = None
        if before is not None:
            later = (k for k, cell in enumerate(graph.cells) if cell.index >= before)
            stop = next(later, None)
        found = make_plan(graph, start, asked, state.draws, full, as_usual, stop)
        if found is not None:
            return found
        _settle(graph, state, asked)


def _run_otherwise(
    graph: ComputationGraph, state: State, asked: list[Expression], keeping: bool
) -> Run:
    """A run of the whole graph, where what was usual does not fit it."""
    with phase("plan"):
        tiling, plan = _plan(graph, state, 0, asked, as_usual=False)
    run = Run(tiling, plan, state.uniforms, state.draws)
    run.forward(keeping)
    return run


def _divides(run: Run, graph: ComputationGraph, node: Expression) -> bool:
    """Whether a backward from a node takes the first run as it is, and goes on from it.

    If that is small beside most graphs, all is computed once more in one run.
    """
    if node.args[0] < run.stop:
        return False
    scope = run.plan.scope
    if graph.changes != len(CHANGED) or not scope.divides:
        return False
    return scope.in_two.after(run.stop * MOST_TIMES >= len(graph.cells))


def planned(
    graph: ComputationGraph,
) -> list[tuple[Tiling, Plan] | Increment | Hosted]:
    """How a graph was computed, or would be if its last node is read, in parts."""
    state = graph.state
    if state is not None and state.parts:
        return [
            (part.tiling, part.plan) if isinstance(part, Run) else part
            for part in state.parts
        ]
    last = [node for node in graph.nodes[-1:] if node.lanes]
    state = State(undrawn)
    _settle(graph, state, last)
    return [_plan(graph, state, 0, last, as_usual=False)] if last else []


def _will_train(plan: Plan, asked: list[Expression]) -> bool:
    """Whether to keep what backward needs.

    Yes, once a backward has followed; and in a scope's first runs, if the value of one
    number is asked for, as that of a loss. Else every component would be compiled
    without first, and then with.
    """
    scope = plan.scope
    if scope.trained or scope.tries >= TRIES or not plan.differentiable:
        return scope.trained
    scope.tries += 1
    return any(map(_is_number, asked))


def _is_number(node: Expression) -> bool:
    return node.full_dim.size * node.lanes == 1


def _send_early(state: State, run: Run, node: Expression) -> None:
    """Send the backward that is to be expected, while the device is at work."""
    with suppress(Exception):  # which is raised when backward is asked for
        state.early = _send_back(run, node, full=False)


def _send_back(run: Run, node: Expression, full: bool) -> Backward:
    with phase("run"):
        return Backward(run, node, full)
