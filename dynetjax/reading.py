"""Reading several expressions at once."""

import numpy as np

from dynetjax.expression import Expression, engine, to_numpy
from dynetjax.graph import current_graph


def forward(exprs: list[Expression], recalculate: bool = False) -> None:
    """Compute a list of expressions.

    Raises:
        TypeError: `exprs` is not a list.
        IndexError: it is empty.
    """
    if not isinstance(exprs, list):
        raise TypeError(f"forward: expected a list, got {type(exprs).__name__}")
    if not exprs:
        raise IndexError("forward: the list of expressions is empty")
    npvalues(exprs, recalculate)


def npvalues(exprs: list[Expression], recalculate: bool = False) -> list[np.ndarray]:
    """`npvalue()` of each, computed together."""
    graph = current_graph()
    if recalculate:
        graph.invalidate()
    nodes = [e.locate()[1] for e in exprs]
    found = zip(nodes, engine().values(graph, nodes), strict=True)
    return [to_numpy(node.without_padding(rows)) for node, rows in found]


def values(exprs: list[Expression], recalculate: bool = False) -> list:
    """`value()` of each, computed together."""
    npvalues(exprs, recalculate)
    return [e.value() for e in exprs]
