"""A graph's program in words: its components, loops and macro nodes."""

from typing import NamedTuple

from dynetjax.dims import Dim
from dynetjax.engine.macros import MACROS, Macro, macro_of_rule
from dynetjax.engine.native.part import NativePart
from dynetjax.engine.parts import planned
from dynetjax.engine.plan import Plan
from dynetjax.engine.steps import Step
from dynetjax.engine.tiling import Tiling
from dynetjax.expression import Expression
from dynetjax.graph import ComputationGraph, current_graph


def explain() -> None:
    """Print the program of the current graph; see `describe`.

    Examples:
        >>> import contextlib, io
        >>> W = dy.ParameterCollection().add_parameters((2, 2))
        >>> h = dy.inputVector([1, 2])
        >>> for _ in range(5):
        ...     h = dy.tanh(W * h)
        >>> with contextlib.redirect_stdout(io.StringIO()) as told:
        ...     dy.explain()
        >>> print("loop, 5 trips" in told.getvalue())
        True
    """
    print(describe(current_graph()))


def describe(graph: ComputationGraph) -> str:
    """The components in the order in which they run, with their macro nodes.

    Where the graph was built under ``init(debug=True)``, the user's line that made the
    first node of each is named.
    """
    if not graph.cells and not graph.nodes:
        return "an empty graph"
    parts = planned(graph)  # which decides what has rows
    lines = [f"{len(graph)} nodes, {len(graph.cells)} of them with rows"]
    for part in parts:
        if not isinstance(part, tuple):
            lines += _native(graph, part)
            continue
        tiling, plan = part
        lines.append(_head(tiling, plan))
        for number, step in enumerate(plan.steps, 1):
            lines += _component(graph, tiling, step, number)
    return "\n".join(lines)


class Component(NamedTuple):
    """Nodes that run together.

    Attributes:
        about: ``loop, 5 trips of 2 lanes``.
        cells: the nodes that have rows.
    """

    about: str
    cells: list[Expression]


def components(graph: ComputationGraph) -> list[Component]:
    """The components of a graph in the order in which they run."""
    found = []
    for part in planned(graph):
        if not isinstance(part, tuple):
            cells = graph.cells[part.start : part.stop]
            found.append(Component("one step", cells))
            continue
        tiling, plan = part
        for step in plan.steps:
            macros = step.block.component.macros
            nodes = [n for macro in macros for n in tiling.nodes.get(macro, ())]
            cells = [tiling.cells[int(n)] for n in nodes]
            found.append(Component(_how(step), cells))
    return found


def _how(step: Step) -> str:
    """Whether it is a loop, its trips, and their width."""
    block = step.block
    kind = "loop" if block.component.cyclic else "once"
    trips, lanes = _several(block.trips, "trip"), _several(block.width, "lane")
    return f"{kind}, {trips} of {lanes}"


def _several(count: int, what: str) -> str:
    return f"{count} {what}{'s' if count != 1 else ''}"


def _native(graph: ComputationGraph, part: NativePart) -> list[str]:
    """A part that tier 0 computed."""
    cells = graph.cells[part.start : part.stop]
    lines = [f"nodes {part.start} to {part.stop - 1}: in tier 0, on the host"]
    return lines + [_line(graph, macro_of_rule(c.rule), c.lanes, c) for c in cells]


def _head(tiling: Tiling, plan: Plan) -> str:
    count = len(tiling) - len(tiling.older)
    first = f"nodes {tiling.start} to {tiling.start + count - 1}"
    found = f"{first}: {len(plan.steps)} components of {len(plan.fusion.parts)}"
    return f"{found}, room for {plan.fusion.pool_bytes >> 10} KB of rows"


def _component(
    graph: ComputationGraph, tiling: Tiling, step: Step, number: int
) -> list[str]:
    lines = [f"{number:3}. {_how(step)}"]
    for number in step.block.component.macros:
        nodes = tiling.nodes.get(number)
        count = 0 if nodes is None else int(tiling.batch[nodes].sum())
        first = None if nodes is None else tiling.cells[int(nodes[0])]
        lines.append(_line(graph, number, count, first))
    return lines


def _line(
    graph: ComputationGraph, macro: int, count: int, first: Expression | None
) -> str:
    """So many nodes of a macro, and where the user made the first."""
    line = f"     {count:6} x {_formula(MACROS[macro])}"
    if first is None or not graph.lines:
        return line
    return f"{line}   {graph.lines.get(first.index, '')}"


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
