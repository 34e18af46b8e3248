"""Graphs as pictures: DOT for graphviz, SVG in notebooks."""

import importlib
from collections import Counter
from typing import Any

from dynetjax.expression import Expression
from dynetjax.graph import current_graph
from dynetjax.listing import Entry, entries

MOST = 150  # nodes that are drawn one by one


def print_graphviz(
    compact: bool = False,
    show_dims: bool = True,
    expression_names: dict[Expression, str] | None = None,
    lookup_names: dict[Any, Any] | None = None,
    collapse_birnns: bool = False,
) -> None:
    """Write the current graph to stdout, in graphviz's language.

    Args:
        compact: draw nodes that do the same with the same dims as one.
        show_dims: write the dims of each node.
        expression_names: names for some expressions.
        lookup_names: accepted as DyNet's; the graph does not keep which row is which
            word.
        collapse_birnns: the same as `compact`.
    """
    del lookup_names
    fold = bool(compact or collapse_birnns)
    print(dot(fold=fold, show_dims=show_dims, names=expression_names))


def dot(
    expression: Expression | None = None,
    *,
    fold: bool | None = None,
    show_dims: bool = True,
    names: dict[Expression, str] | None = None,
) -> str:
    """A graph in graphviz's language.

    Args:
        expression: draw what it is made of; the whole current graph if None.
        fold: draw nodes that do the same with the same dims as one, with their count;
            if None, where there are many.
        show_dims: write the dims of each node.
        names: names for some expressions.
    """
    graph = current_graph() if expression is None else expression.locate()[0]
    listed = _under(entries(graph), expression)
    if fold is None:
        fold = len(listed) > MOST
    boxes: dict[int, Any] = {}
    for number, entry in listed.items():
        label = _label(entry, show_dims, (names or {}).get(entry.expression))
        boxes[number] = label if fold else (number, label)
    counts = Counter(boxes.values())
    ids = {box: f"N{k}" for k, box in enumerate(counts)}
    lines = ["digraph G {", "  rankdir=BT;", "  node [shape=box, fontname=Helvetica];"]
    for box, count in counts.items():
        label = box if fold else box[1]
        if count > 1:
            label += f"\\n{count} times"
        shape = ", shape=ellipse" if label.startswith("/") else ""
        lines.append(f'  {ids[box]} [label="{label}"{shape}];')
    edges = Counter(
        (ids[boxes[arg]], ids[boxes[number]])
        for number, entry in listed.items()
        for arg in entry.args
    )
    lines += [f"  {a} -> {b};" for a, b in edges]
    return "\n".join([*lines, "}"])


def _under(listed: list[Entry], root: Expression | None) -> dict[int, Entry]:
    """The nodes that a node is made of, by number; all of them without one."""
    found = dict(enumerate(listed))
    if root is None:
        return found
    needed = {k for k, entry in found.items() if entry.expression is root}
    for k in reversed(found):
        if k in needed:
            needed.update(found[k].args)
    return {k: entry for k, entry in found.items() if k in needed}


def _label(entry: Entry, show_dims: bool, name: str | None) -> str:
    parts = [entry.text().partition(" @ ")[2] if entry.is_parameter else entry.name]
    if name is not None:
        parts.append(name)
    if show_dims:
        parts.append(str(entry.dim))
    if entry.line is not None:
        parts.append(entry.line)
    return "\\n".join(part.replace('"', "'") for part in parts)


def svg(expression: Expression | None = None) -> str | None:
    """A picture of `dot`; None where graphviz is not installed."""
    try:
        graphviz = importlib.import_module("graphviz")
        return graphviz.Source(dot(expression)).pipe(format="svg", encoding="utf-8")
    except (ImportError, OSError, RuntimeError):
        return None


def _svg_of(self: Expression) -> str | None:
    """For notebooks: what the expression is made of."""
    return svg(self) if self.graph is not None and self.graph.live else None


Expression._repr_svg_ = _svg_of  # type: ignore[attr-defined]


def _nothing(self: Expression, *args: Any, **kwargs: Any) -> None:
    """What drawing without computing has for a value."""


def compute_nothing() -> None:
    """Let values be None from now on: graphs are drawn, and not computed."""
    for name in (
        "value",
        "npvalue",
        "vec_value",
        "scalar_value",
        "tensor_value",
        "forward",
        "backward",
        "gradient",
    ):
        setattr(Expression, name, _nothing)
