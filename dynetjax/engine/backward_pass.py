"""Backward through a graph: in tier 0, or by a run of all of it."""

from dynetjax.core.expression import Expression
from dynetjax.core.rules import CHANGED
from dynetjax.engine.native.part import NativeBackward
from dynetjax.engine.parts import backward_natively, new_run, settle
from dynetjax.engine.state import State
from dynetjax.engine.stats import count, phase
from dynetjax.engine.xla.differentiate import Backward
from dynetjax.engine.xla.run import Run
from dynetjax.graph import ComputationGraph

AnyBackward = Backward | NativeBackward


def go_back(
    graph: ComputationGraph, state: State, node: Expression, full: bool
) -> AnyBackward:
    """Back to the parameters: in tier 0 if that has computed the graph, or does.

    Args:
        graph, state: what it goes through, and what was computed of that.
        node: where it begins, which is one number.
        full: whether gradients are to flow to constants, too.
    """
    if not (state.parts and isinstance(state.parts[0], Run)):
        here = backward_natively(graph, state, node, full)
        if here is not None:
            return here
    run = _run_from_the_first(graph, state, node, full)
    state.parts = [run, *[part for part in state.parts if part.stop > run.stop]]
    count(graphs=1)
    with phase("run"):
        return Backward(run, node, full)


def _run_from_the_first(
    graph: ComputationGraph, state: State, node: Expression, full: bool
) -> Run:
    """A run of the graph from its first node on, which has kept what backward needs."""
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
    return run
