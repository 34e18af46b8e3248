"""Graphs as pictures: DOT for graphviz, SVG in notebooks."""

import importlib
from collections import Counter
from typing import Any, NamedTuple

from dynetjax.core.expression import Expression
from dynetjax.engine.explain import components
from dynetjax.graph import ComputationGraph, current_graph
from dynetjax.inspect.listing import Entry, entries

MOST = 150  # nodes that are drawn one by one
_BREAK = "\\n"  # in a label


def print_graphviz(
    compact: bool = False,
    show_dims: bool = True,
    expression_names: dict[Expression, str] | None = None,
    lookup_names: dict[Any, Any] | None = None,
    collapse_birnns: bool = False,
) -> None:
    r"""Write the current graph to stdout, in graphviz's language.

    Args:
        compact: draw nodes that run together as one: a component, or a loop.
        show_dims: write the dims of each node.
        expression_names: names for some expressions.
        lookup_names: accepted as DyNet's; the graph does not keep which row is which
            word.
        collapse_birnns: the same as `compact`.
    Examples:
        >>> W = dy.ParameterCollection().add_parameters((3, 2), name="W")
        >>> h = W * dy.inputVector([1, 2])
        >>> dy.print_graphviz(expression_names={h: "hidden"})
        digraph G {
          rankdir=BT;
          node [shape=box, fontname=Helvetica];
          N0 [label="input\n{2}"];
          N1 [label="/W\n{3,2}", shape=ellipse];
          N2 [label="matmul\nhidden\n{3}"];
          N1 -> N2;
          N0 -> N2;
        }
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
        fold: draw nodes that run together as one, with what they are and how many; if
            None, where there are many.
        show_dims: write the dims of each node.
        names: names for some expressions.
    Examples:
        >>> x = dy.inputVector([1, 2])
        >>> y, z = dy.tanh(x), dy.exp(x)
        >>> print(dy.dot(y, show_dims=False))
        digraph G {
          rankdir=BT;
          node [shape=box, fontname=Helvetica];
          N0 [label="input"];
          N1 [label="tanh"];
          N0 -> N1;
        }
    """
    graph = current_graph() if expression is None else expression.locate()[0]
    listed = _under(entries(graph), expression)
    if fold is None:
        fold = len(listed) > MOST
    inside = _together(graph, listed) if fold else {}
    boxes: dict[Any, list[str]] = {}
    for number, entry in listed.items():
        label = _label(entry, show_dims, (names or {}).get(entry.expression))
        boxes.setdefault(inside.get(number, number), []).append(label)
    ids = {box: f"N{k}" for k, box in enumerate(boxes)}
    lines = ["digraph G {", "  rankdir=BT;", "  node [shape=box, fontname=Helvetica];"]
    for box, labels in boxes.items():
        label = labels[0] if isinstance(box, int) else _label_of_all(box, labels)
        shape = ", shape=ellipse" if label.startswith("/") else ""
        lines.append(f'  {ids[box]} [label="{label}"{shape}];')
    edges = Counter(
        (inside.get(arg, arg), inside.get(number, number))
        for number, entry in listed.items()
        for arg in entry.args
    )
    lines += [f"  {ids[a]} -> {ids[b]};" for a, b in edges if a != b or _is_loop(b)]
    return "\n".join([*lines, "}"])


class _Box(NamedTuple):
    """A component, by its number."""

    number: int
    title: str


def _together(graph: ComputationGraph, listed: dict[int, Entry]) -> dict[int, _Box]:
    """The component of each node; those without rows are where they are read."""
    box_of = {
        node: _Box(number, component.text)
        for number, component in enumerate(components(graph))
        for node in component.nodes
    }
    boxes: dict[int, _Box] = {}
    for number in reversed(listed):
        entry = listed[number]
        at = -1 if entry.is_parameter else graph.at(entry.expression.index)
        box = box_of.get(at) or boxes.get(number)
        if box is None:
            continue
        boxes[number] = box
        for arg in entry.args:
            if not listed[arg].is_parameter:
                boxes.setdefault(arg, box)
    return boxes


def _is_loop(box: Any) -> bool:
    return isinstance(box, _Box) and box.title.startswith("loop")


def _label_of_all(box: _Box, labels: list[str]) -> str:
    """What a component is, and how many of which nodes it has."""
    counts = Counter(labels)
    written = [f"{n} x {label.replace(_BREAK, ' ')}" for label, n in counts.items()]
    return _BREAK.join([box.title, *written])


def _under(listed: list[Entry], root: Expression | None) -> dict[int, Entry]:
    """The nodes that a node is made of, by number; all of them without one."""
    numbered = dict(enumerate(listed))
    if root is None:
        return numbered
    needed = {k for k, entry in numbered.items() if entry.expression == root}
    for k in reversed(numbered):
        if k in needed:
            needed.update(numbered[k].args)
    return {k: entry for k, entry in numbered.items() if k in needed}


def _label(entry: Entry, show_dims: bool, name: str | None) -> str:
    parts = [entry.text().partition(" @ ")[2] if entry.is_parameter else entry.name]
    if name is not None:
        parts.append(name)
    if show_dims:
        parts.append(str(entry.dim))
    if entry.line is not None:
        parts.append(entry.line)
    return _BREAK.join(part.replace('"', "'") for part in parts)


def svg(expression: Expression | None = None) -> str | None:
    """A picture of `dot`; None where graphviz is not installed."""
    try:
        graphviz = importlib.import_module("graphviz")
        return graphviz.Source(dot(expression)).pipe(format="svg", encoding="utf-8")
    except (ImportError, OSError, RuntimeError):
        return None


def _svg_of(self: Expression) -> str | None:
    """For notebooks: what the expression is made of."""
    return svg(self) if self.graph is not None and self.is_live else None


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
