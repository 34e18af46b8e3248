"""A graph's program in words: its components, loops and macro nodes."""

from dynetjax.dims import Dim
from dynetjax.engine.engine import planned
from dynetjax.engine.macros import MACROS, Macro
from dynetjax.engine.plan import Plan, Step
from dynetjax.engine.tiling import Tiling
from dynetjax.graph import ComputationGraph, current_graph


def explain() -> None:
    """Print the program of the current graph; see `describe`."""
    print(describe(current_graph()))


def describe(graph: ComputationGraph) -> str:
    """The components in the order in which they run, with their macro nodes.

    Where the graph was built under ``init(debug=True)``, the user's line that made the
    first node of each is named.
    """
    if not graph.cells and not graph.nodes:
        return "an empty graph"
    lines = [f"{len(graph)} nodes, {len(graph.cells)} of them with rows"]
    for tiling, plan in planned(graph):
        lines.append(_head(tiling, plan))
        for number, step in enumerate(plan.steps, 1):
            lines += _component(graph, tiling, step, number)
    return "\n".join(lines)


def _head(tiling: Tiling, plan: Plan) -> str:
    count = len(tiling) - len(tiling.imports)
    first = f"nodes {tiling.start} to {tiling.start + count - 1}"
    found = f"{first}: {len(plan.steps)} components of {len(plan.fusion.parts)}"
    return f"{found}, room for {plan.fusion.pool_bytes >> 10} KB of rows"


def _component(
    graph: ComputationGraph, tiling: Tiling, step: Step, number: int
) -> list[str]:
    block = step.block
    kind = "loop" if block.component.cyclic else "once"
    trips = f"{block.trips} trip{'s' if block.trips != 1 else ''}"
    lines = [f"{number:3}. {kind}, {trips} of {block.width} lanes"]
    for number in block.component.macros:
        nodes = tiling.nodes.get(number)
        count = 0 if nodes is None else int(tiling.batch[nodes].sum())
        line = f"     {count:6} x {_formula(MACROS[number])}"
        if nodes is not None and graph.lines:
            made = graph.lines.get(tiling.cells[int(nodes[0])].index, "")
            line += f"   {made}"
        lines.append(line)
    return lines


def _formula(macro: Macro) -> str:
    """``tanh(add(matmul(W, {3}), {3}))``: rows that are read stand as dims."""
    written: list[str] = []
    for step in macro.steps:
        operands = {
            "uniform": lambda n: f"W{Dim(_shape_of_uniform(macro, n))}",
            "step": lambda n: written[n],
            "leaf": lambda n: str(Dim(macro.leaves[n].shape)),
        }
        inside = ", ".join(operands[what](n) for what, n in step.operands)
        name = step.signature.op.name
        written.append(f"{name}({inside})" if inside else f"{name} {Dim(macro.shape)}")
    return written[-1]


def _shape_of_uniform(macro: Macro, number: int) -> tuple[int, ...]:
    return next(kind.shape for kind in macro.kinds if kind.id == number)
