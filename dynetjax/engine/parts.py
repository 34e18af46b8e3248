"""Parts of a graph: which tier computes each, forward and back."""

from dynetjax.core.expression import Expression
from dynetjax.engine import policy
from dynetjax.engine.ir.draws import undrawn
from dynetjax.engine.ir.fused import FUSED_OPS
from dynetjax.engine.ir.part import BackwardPass, Part, Rows
from dynetjax.engine.native.part import Native, NativeBackward, NativePart
from dynetjax.engine.out_of_memory import let_compute
from dynetjax.engine.placement import is_for_device, stay_on_host, work_of
from dynetjax.engine.plan.layout import make_layout
from dynetjax.engine.state import State
from dynetjax.engine.stats import (
    note_no_byte_code,
    note_run,
    phase,
    timing,
)
from dynetjax.engine.xla.differentiate import Backward
from dynetjax.engine.xla.run import Run
from dynetjax.graph import ComputationGraph


def store(graph: ComputationGraph, asked: list[Expression]) -> None:
    """Store what is new and needs rows, and what is asked for."""
    graph.store([node.index for node in asked if node.graph is graph])


def compute_natively(graph: ComputationGraph, state: State) -> bool:
    """Compute in tier 0 what is new; False if it is not for that."""
    if not policy.native():
        return False
    native, parts, start = state.native, state.parts, state.done
    if native is None:
        native = Native(state.host_weights, state.draws, graph.arrays)
    part = parts[-1] if parts else None
    older = None
    if parts and not (len(parts) == 1 and isinstance(part, NativePart)):
        older = older_rows(state)
    stored = state.nodes.stored
    if not native.compute(stored, start, older):
        steps = FUSED_OPS[native.lacks].steps
        note_no_byte_code(" ".join(step.signature.op.name for step in steps))
        return False
    note_run(graph)
    state.native = native
    if parts and not isinstance(part, NativePart):
        parts.append(NativePart(start, stored, native.graph))
    if len(state.parts) == 1 and not timing():
        let_compute(graph, native.graph)
    return True


def run_beside(
    graph: ComputationGraph, state: State, asked: list[Expression], training: bool
) -> Run | None:
    """A run of a new graph by the device beside the host; None if tier 0 is to have it.

    With `training`, a backward is expected.
    """
    work = work_of(state.nodes.stored)
    if work < policy.LEAST:
        return None
    run = new_run(graph, state, 0, asked)
    loss = loss_among(run, asked)
    root = state.number(loss) if training and loss is not None else None
    return run if is_for_device(run, work, loss is not None, root) else None


def loss_among(run: Run, asked: list[Expression]) -> Expression | None:
    """What a backward may follow from: the only node asked for, if it is one number."""
    if len(asked) != 1 or not run.differentiable:
        return None
    (node,) = asked
    return node if node.full_dim.size * node.lanes == 1 else None


def older_rows(state: State) -> Rows:
    """What gives a part the rows of nodes that earlier ones have computed."""
    stored = state.nodes.stored
    return lambda number: state.rows(number, stored.lanes(number))


def backward_natively(
    graph: ComputationGraph, state: State, node: Expression, full: bool
) -> NativeBackward | None:
    """Go back in tier 0; None if it has not computed the graph, and is not to."""
    if not policy.native():
        return None
    store(graph, [node])
    if not all(isinstance(part, NativePart) for part in state.parts):
        state.forget()
    if state.number(node) >= state.done and not compute_natively(graph, state):
        return None
    assert state.native is not None
    last = NativeBackward(state.native, state.nodes, node, full)
    note_run(graph)
    return last


def go_back(
    graph: ComputationGraph, state: State, node: Expression, full: bool
) -> BackwardPass:
    """Back to the parameters: in tier 0 if that has computed the graph, or does.

    Args:
        graph, state: what it goes through, and what was computed of that.
        node: where it begins, which is one number.
        full: whether gradients are to flow to constants, too.
    """
    if not _is_by_device(graph, state, node, full):
        here = backward_natively(graph, state, node, full)
        if here is not None:
            return here
    run = _run_from_the_first(graph, state, node, full)
    state.parts = [run, *[part for part in state.parts if part.stop > run.stop]]
    note_run(graph, interpreted=False)
    with phase("run", 1, " back"):
        return Backward(run, state.nodes, node, full)


def _is_by_device(
    graph: ComputationGraph, state: State, node: Expression, full: bool
) -> bool:
    """Whether tier 1 goes back from a node: where it computed the graph, or is to."""
    if not state.parts and not full and policy.shares():
        store(graph, [node])
        run = run_beside(graph, state, [node], True)
        if run is not None:
            run.forward(state.number(node))
            state.parts.append(run)
    first = state.parts[0] if state.parts else None
    if not isinstance(first, Run):
        return False
    if not policy.shares() or (first.keeping and 0 <= state.number(node) < first.stop):
        return not (full and policy.shares())
    stay_on_host(first)
    return False


def _run_from_the_first(
    graph: ComputationGraph, state: State, node: Expression, full: bool
) -> Run:
    """A run of the graph from its first node on, which has kept what backward needs."""
    store(graph, [node])
    run, number = state.parts[0] if state.parts else None, state.number(node)
    if not isinstance(run, Run) or number >= run.stop or full:
        if run is not None:
            state.forget()  # all is computed again in any case
        run = new_run(graph, state, 0, [node], full)
        number = state.number(node)
        run.prepare_backward_from(number)
        run.forward(number)
    elif not run.keeping:
        run = run.again()
        run.forward(number)
    return run


def new_run(
    graph: ComputationGraph,
    state: State,
    start: int,
    asked: list[Expression],
    full: bool = False,
) -> Run:
    """A run of the stored nodes from `start` on, for a program that asks for some."""
    stored = state.nodes.stored
    with phase("plan", 1):
        while True:
            numbers = [state.number(node) for node in asked]
            layout = make_layout(stored, start, numbers, full)
            if layout is not None:
                break
            if not state.parts:
                state.nodes.start_anew()
                store(graph, asked)
    return Run(stored, start, layout, state.weights, state.draws)


def planned(graph: ComputationGraph) -> list[Part]:
    """How a graph was computed, or would be if its last node is read, in parts."""
    state = graph.state
    if state is not None and state.parts:
        return [*state.parts]
    last = [graph.node(len(graph) - 1)] if len(graph) else []
    last = [node for node in last if node.lanes]
    state = State(undrawn(), graph)
    store(graph, last)
    return [new_run(graph, state, 0, last)] if last else []
