"""The nodes of a graph as a user counts them, and as text.

A parameter has a number where it is first used, as in DyNet. What operations are made
of inside has none.
"""

import sys
from typing import Any, NamedTuple

import numpy as np

from dynetjax.core.dims import Dim
from dynetjax.core.errors import error_text
from dynetjax.core.expression import Expression
from dynetjax.core.nodes import ZEROS
from dynetjax.graph import ComputationGraph, current_graph

_INFIX = {"add": "+", "matmul": "*"}


class Entry(NamedTuple):
    """A node of the list.

    Attributes:
        expression: the node, or the parameter.
        args: numbers of its operands.
        line: where the user made it, if that was noted.
    """

    expression: Expression
    args: tuple[int, ...]
    line: str | None

    @property
    def name(self) -> str:
        """What the node does: the name of the operation."""
        return self.expression.signature.op.name

    @property
    def is_parameter(self) -> bool:
        """Whether it is a parameter, or a table used whole."""
        return self.expression.graph is None

    @property
    def dim(self) -> Dim:
        """Sizes and batch size."""
        return self.expression.full_dim

    def text(self) -> str:
        """What it computes from which nodes, ``tanh(v1)``."""
        if self.is_parameter:
            return f"parameters({self.dim}) @ {_owner(self.expression)}"
        if self.name in ("lookup", "lookup_batch"):
            return f"lookup_parameters --> {self.dim}"
        operands = [f"v{n}" for n in self.args]
        if len(operands) == 2 and self.name in _INFIX:
            return f" {_INFIX[self.name]} ".join(operands)
        return f"{self.name}({', '.join(operands) or self.dim})"


def _owner(parameter: Expression) -> str:
    storage = getattr(parameter, "storage", None)
    return storage.name if storage is not None else "?"


def entries(graph: ComputationGraph) -> list[Entry]:
    """All nodes of a graph, operands before results."""
    listed: list[Entry] = []
    numbers: dict[Any, tuple[int, ...]] = {}

    def number_of(x: Expression) -> tuple[int, ...]:
        if x.graph is None:
            key = id(x.signature)
        elif x.signature.op is ZEROS:  # which are no nodes
            return ()
        else:
            key = x.index
        if key not in numbers:  # a parameter that is used for the first time
            numbers[key] = (len(listed),)
            listed.append(Entry(x, (), None))
        return numbers[key]

    lines = graph.lines or {}
    for node in graph.nodes:
        args = tuple(n for x in node.operands for n in number_of(x))
        if node.signature.op.internal:
            numbers[node.index] = args
        else:
            numbers[node.index] = (len(listed),)
            listed.append(Entry(node, args, lines.get(node.index)))
    return listed


def node_of(graph: ComputationGraph, number: int) -> Expression:
    """The node that a user counts as this one.

    Raises:
        IndexError: there is none.
    """
    listed = entries(graph)
    if not 0 <= number < len(listed):
        raise IndexError(
            error_text(
                "cg(): there is no node of this number",
                got=number,
                expected=f"less than {len(listed)}",
                fix="str(expression) has the number of an expression",
            )
        )
    return listed[number].expression


def print_text_graphviz() -> None:
    """Write the current graph to stderr, in graphviz's language.

    Examples:
        >>> import contextlib, sys
        >>> y = dy.tanh(dy.inputVector([1, 2]))
        >>> with contextlib.redirect_stderr(sys.stdout):
        ...     dy.print_text_graphviz()
        digraph G {
          rankdir=LR;
          nodesep=.05;
          N0 [label="v0 = input({2})"];
          N1 [label="v1 = tanh(v0)"];
          N0 -> N1;
        }
    """
    print(text_graphviz(current_graph()), file=sys.stderr)


def text_graphviz(graph: ComputationGraph) -> str:
    """A graph as DyNet prints it: a line for each node, then one for each edge."""
    listed = entries(graph)
    nodes = [
        f'  N{k} [label="v{k} = {_quoted(entry.text())}"];'
        for k, entry in enumerate(listed)
    ]
    edges = [f"  N{n} -> N{k};" for k, entry in enumerate(listed) for n in entry.args]
    head = ["digraph G {", "  rankdir=LR;", "  nodesep=.05;"]
    return "\n".join([*head, *nodes, *edges, "}"])


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def dump_cg(
    filename: str = "",
    show_values: bool = True,
    show_gradients: bool = True,
    nan_check_only: bool = False,
) -> None:
    """Write all nodes of the current graph with their numbers.

    Args:
        filename: a file; stdout if it is empty.
        show_values: compute the graph, and write values.
        show_gradients: write gradients of the last `backward`.
        nan_check_only: write ``valid`` or ``invalid`` instead of numbers.
    Raises:
        OSError: the file cannot be written.
    Examples:
        >>> loss = dy.squared_norm(dy.inputVector([3, 4]))
        >>> loss.backward(full=True)
        >>> dy.dump_cg("graph.txt")
        >>> with open("graph.txt") as file:
        ...     print(*file.read().split())
        Node 0 Value: 3 4 Gradient: 6 8 Node 1 Value: 25 Gradient: 1
    """
    lines = []
    for k, entry in enumerate(entries(current_graph())):
        lines.append(f"Node {k}")
        if show_values:
            lines += ["Value: ", _shown(entry.expression.npvalue(), nan_check_only)]
        if show_gradients:
            try:
                gradient = _shown(entry.expression.gradient(), nan_check_only)
                lines += ["Gradient: ", gradient]
            except RuntimeError:
                lines.append("Gradient: (not computed)")
    text = "\n".join(lines or ["(the graph is empty)"]) + "\n"
    if not filename:
        sys.stdout.write(text)
        return
    with open(filename, "w", encoding="utf-8") as file:
        file.write(text)


def _shown(array: np.ndarray, nan_check_only: bool) -> str:
    if nan_check_only:
        return "valid" if np.isfinite(array).all() else "invalid"
    rows = array.reshape(len(array), -1, order="F") if array.ndim else array[None, None]
    cells = [[f"{x:.6g}" for x in row] for row in rows.tolist()]
    width = max((len(cell) for row in cells for cell in row), default=0)
    return "\n".join(" ".join(c.rjust(width) for c in row) for row in cells)
