"""A graph's program in words: its components, loops and fused ops."""

from collections.abc import Iterator
from typing import NamedTuple

from dynetjax.core.dims import Dim
from dynetjax.engine.divided import is_divided
from dynetjax.engine.ir.fused import FUSED_OPS, FusedOp
from dynetjax.engine.native.disassembly import listing
from dynetjax.engine.parts import planned
from dynetjax.graph import ComputationGraph, current_graph


class Explanation:
    """What `explain` returns; it shows as text.

    Attributes:
        text: the components in the order in which they run, with their fused ops.
    """

    def __init__(self, text: str):
        self.text: str = text

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__


def explain(bytecode: bool = False) -> Explanation:
    """The program of the current graph: components, loops and fused ops.

    Printed, or as what a cell or a line of the REPL comes to, it is text. Where the
    graph was built under ``init(debug=True)``, the user's line that made the first node
    of each fused op is named.

    Args:
        bytecode: show the instructions of each fused op, too: see docs/bytecode.md.
            ``x0`` is the first of the rows that a lane reads, ``W0`` a weight, ``i0``
            runtime data, ``y`` the row that it makes, ``dy`` and ``dW0`` gradients;
            ``t`` is temporary, ``s`` saved for backward, ``h`` hoisted.

    Examples:
        >>> W = dy.ParameterCollection().add_parameters((2, 2))
        >>> h = dy.inputVector([1, 2])
        >>> for _ in range(5):
        ...     h = dy.tanh(W * h)
        >>> print("loop, 5 trips" in dy.explain().text)
        True
        >>> print("TANH" in dy.explain(bytecode=True).text)
        True
    """
    return Explanation(describe(current_graph(), bytecode))


def describe(graph: ComputationGraph, bytecode: bool = False) -> str:
    """The text of `explain`, of any graph."""
    if not len(graph):
        return "an empty graph"
    if is_divided(graph):
        return f"{len(graph)} nodes, one by one, each on its device"
    parts = _parts(graph)  # which decides what has rows
    lines = [f"{len(graph)} nodes, {len(graph.stored)} of them with rows"]
    for head, listed in parts:
        lines.append(head)
        for number, component in enumerate(listed, 1):
            lines.append(f"{number:3}. {component.text}")
            lines += _fused_ops(graph, component.nodes, bytecode)
    return "\n".join(lines)


class ComponentSummary(NamedTuple):
    """Nodes that run together.

    Attributes:
        text: ``loop, 5 trips of 2 lanes``; in tier 0 a trip has lanes as it needs.
        nodes: their numbers among those that have rows.
    """

    text: str
    nodes: list[int]


def components(graph: ComputationGraph) -> list[ComponentSummary]:
    """The components of a graph in the order in which they run."""
    return [component for _, listed in _parts(graph) for component in listed]


def _parts(graph: ComputationGraph) -> list[tuple[str, list[ComponentSummary]]]:
    """What each part of a graph is, and its components."""
    parts = []
    for part in planned(graph):
        head, described = part.summary()
        parts.append((head, [ComponentSummary(*fields) for fields in described]))
    return parts


def _fused_ops(
    graph: ComputationGraph, nodes: list[int], bytecode: bool
) -> Iterator[str]:
    """The fused ops of some nodes, in a line each, and their instructions if wanted."""
    stored = graph.stored
    by_fused: dict[int, list[int]] = {}
    for node in nodes:
        by_fused.setdefault(stored.fused(node), []).append(node)
    for fused, alike in by_fused.items():
        count = sum(map(stored.lanes, alike))
        yield _line(graph, fused, count, stored.index(alike[0]))
        if bytecode:
            yield from [f"{'':15}{line}" for line in listing(FUSED_OPS[fused])]


def _line(graph: ComputationGraph, fused: int, count: int, first: int) -> str:
    """So many nodes of a fused op, and where the user made the first."""
    line = f"     {count:6} x {_formula(FUSED_OPS[fused])}"
    return f"{line}   {graph.lines.get(first, '')}" if graph.lines else line


def _formula(fused: FusedOp) -> str:
    """``tanh(add(matmul(W, {3}), {3}))``: rows that are read stand as dims."""
    written: list[str] = []
    for step in fused.steps:
        operands = {
            "weight": lambda n: f"W{Dim(_shape_of_weight(fused, n))}",
            "step": lambda n: written[n],
            "leaf": lambda n: str(Dim(fused.leaves[n].shape)),
        }
        inside = ", ".join(operands[role](n) for role, n in step.operands)
        name = step.signature.op.name
        written.append(f"{name}({inside})" if inside else f"{name} {Dim(fused.shape)}")
    return written[-1]


def _shape_of_weight(fused: FusedOp, number: int) -> tuple[int, ...]:
    return next(kind.shape for kind in fused.kinds if kind.id == number)
