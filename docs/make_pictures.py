"""Write docs/pictures.md and its drawings: one graph, and what becomes of it.

    python docs/make_pictures.py [--check]

With --check it writes nothing, and fails if the page is not what it would write. The
drawings need graphviz.
"""

import importlib
import pathlib
from collections.abc import Iterable
from typing import Any

from make_reference import write_or_check

import dynetjax as dy
from dynetjax.engine.explain import describe
from dynetjax.engine.parts import planned
from dynetjax.graph import current_graph

PAGE = pathlib.Path(__file__).with_name("pictures.md")
DRAWINGS = PAGE.with_name("pictures")
COMMAND = "python docs/make_pictures.py"
PROGRAM = """\
import dynetjax as dy

m = dy.ParameterCollection()
table = m.add_lookup_parameters((5, 4), name="words")
W, b = m.add_parameters((4, 8), name="W"), m.add_parameters(4, name="b")
out = m.add_parameters((2, 4), name="out")
words = {"the": 0, "cat": 1, "sat": 2, "on": 3, "mats": 4}
vectors = {}


def vector(tree):
    if isinstance(tree, str):
        vectors[tree] = table[words[tree]]
    else:
        children = dy.concatenate([vector(child) for child in tree])
        vectors[tree] = dy.tanh(W * children + b)
    return vectors[tree]


tree = ("the", "cat"), ("sat", ("on", "mats"))
loss = dy.pickneglogsoftmax(out * vector(tree), 1)
print(loss.value() > 0)
"""
TEXT = """\
# One graph, all the way

<!-- Written by `{command}`. -->

A program as a user writes it, for one tree, and what becomes of its graph. [How it
works](design.md) has the reasons.

```python
{program}```

## The graph

A box is a node that the program made. A tree of another shape has another graph.

![The graph, node by node](pictures/graph.svg)

## Components

Nodes that do the same are one box. The edges between these boxes do not depend on the
shape of the tree; where they go round in a circle, there is a loop. This is what XLA
compiles, once.

![The graph by components](pictures/components.svg)

`dy.explain()` tells them. What was fused into what can be seen: `tanh(...)` has rows,
and the product and the sum inside have none.

```text
{explained}
```

## Trips of the loop

A trip computes the nodes that have all they need, side by side in lanes; of fifty trees
in one graph these would be many. Another tree takes more trips, and runs the same
program.

{trips}

## The index buffer

What is different from tree to tree are numbers: a few words of data for each node, that
say which rows it reads. Rows of one shape stand in one array; row 0 is zero, and empty
lanes read it.

{buffer}
"""


def text(tree: Any) -> str:
    """The words of a tree."""
    return tree if isinstance(tree, str) else " ".join(map(text, tree))


def table(head: list[str], rows: Iterable[list[Any]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def page(names: dict[dy.Expression, str]) -> str:
    """The page about the current graph, whose nodes have these names."""
    graph = current_graph()
    (run,) = planned(graph)
    layout = run.layout
    (loop,) = [k for k, cyclic in enumerate(layout.family.cyclic) if cyclic]
    count, width = layout.trips[loop], layout.program.widths[loop]
    stored = graph.stored
    at_node = graph.at
    found = {at_node(x.index): name for x, name in names.items() if " " in name}
    nodes = run.nodes(layout.op(stored.fused(min(found))))
    places = zip(nodes.numbers.tolist(), nodes.lanes.tolist(), strict=True)
    at = {lane: number for number, lane in places}
    row = layout.flat.row
    first = min(row(number) - lane for lane, number in at.items())
    trips: list[list[Any]] = []
    buffer: list[list[Any]] = []
    for lane in range(count * width):
        trip, here = divmod(lane, width)
        if not here:
            trips.append([trip])
        number, read = at.get(lane), [0, 0]
        if number is not None:
            (pair,) = stored.reads(number)
            read = [row(n) for n in stored.reads(pair)]
        trips[-1].append("(empty)" if number is None else found[number])
        buffer.append([trip, here, *read, first + lane])
    lanes = [f"lane {k}" for k in range(width)]
    heads = ["trip", "lane", "row of the left child", "of the right child", "own row"]
    return TEXT.format(
        command=COMMAND,
        program=PROGRAM,
        explained=describe(graph),
        trips=table(["trip", *lanes], trips),
        buffer=table(heads, buffer),
    )


def draw(names: dict[dy.Expression, str]) -> None:
    """The drawings of the current graph."""
    graphviz = importlib.import_module("graphviz")
    drawings = {"graph": dy.dot(names=names), "components": dy.dot(fold=True)}
    DRAWINGS.mkdir(exist_ok=True)
    for name, drawn in drawings.items():
        made = graphviz.Source(drawn).pipe(format="svg", encoding="utf-8")
        (DRAWINGS / f"{name}.svg").write_text(made, encoding="utf-8")


def main() -> None:
    """Write the page and its drawings, or check the page."""
    dy.init(tier="xla")  # whose program is shown
    dy.renew_cg()
    scope: dict[str, Any] = {}
    exec(compile(PROGRAM, PAGE.name, "exec"), scope)
    names = {node: text(tree) for tree, node in scope["vectors"].items()}
    if write_or_check(PAGE, page(names), COMMAND):
        draw(names)


if __name__ == "__main__":
    main()
