"""Parts of a graph: runs of its stored nodes, and what the host computes."""

from dynetjax.engine.archive import Archive
from dynetjax.engine.draws import undrawn
from dynetjax.engine.hosted import Hosted, compute_here
from dynetjax.engine.increments import Increment
from dynetjax.engine.plan import Plan, make_plan
from dynetjax.engine.run import Run
from dynetjax.engine.state import State
from dynetjax.engine.stats import phase
from dynetjax.engine.tiling import Tiling
from dynetjax.expression import Expression
from dynetjax.graph import ComputationGraph
from dynetjax.ops.rules import CHANGED


def settle(graph: ComputationGraph, state: State, asked: list[Expression]) -> None:
    """Store what is asked for, and build the graph by the rules as they are now."""
    for node in asked:
        graph.store(node)
    if not state.parts and graph.changes != len(CHANGED):
        graph.rebuild()
        for node in asked:
            graph.store(node)


def compute_on_host(graph: ComputationGraph, state: State, tentative: bool) -> bool:
    """Compute on the host what is new; False if it is not for that."""
    here = compute_here(graph, state.done, state.host, state.rows, tentative)
    if here is not None:
        state.parts.append(here)
    return here is not None


def new_run(
    graph: ComputationGraph,
    state: State,
    start: int,
    asked: list[Expression],
    *,
    full: bool = False,
    before: int | None = None,
    archive: Archive | None = None,
    origin: Run | None = None,
) -> Run:
    """A run of the stored nodes from `start` on, for a program that asks for some.

    Only of those nodes that were made `before` a certain one, if that is given. See
    `make_plan` and `Run` for the rest.
    """
    with phase("plan"):
        while (
            found := make_plan(graph, start, asked, full, _stop(graph, before))
        ) is None:
            settle(graph, state, asked)
    return Run(*found, state.uniforms, state.draws, archive, origin)


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
    settle(graph, state, last)
    if not last:
        return []
    run = new_run(graph, state, 0, last)
    return [(run.tiling, run.plan)]


def _stop(graph: ComputationGraph, before: int | None) -> int | None:
    """The number of the first stored node that was not made `before` a certain one."""
    if before is None:
        return None
    later = (k for k, cell in enumerate(graph.cells) if cell.index >= before)
    return next(later, None)
