"""Reading several expressions at once."""

from typing import Any

import numpy as np

from dynetjax.core.expression import Expression, engine, to_numpy
from dynetjax.graph import current_graph


def forward(exprs: list[Expression], recalculate: bool = False) -> None:
    """Compute a list of expressions.

    Raises:
        TypeError: `exprs` is not a list.
        IndexError: it is empty.
    Examples:
        >>> x = dy.scalarInput(2)
        >>> y, z = x + 1, x * 3
        >>> dy.reset_stats()
        >>> dy.forward([y, z])
        >>> print(y.value(), z.value(), dy.stats().graphs)
        3.0 6.0 1
    """
    if not isinstance(exprs, list):
        raise TypeError(f"forward: expected a list, got {type(exprs).__name__}")
    if not exprs:
        raise IndexError("forward: the list of expressions is empty")
    npvalues(exprs, recalculate)


def npvalues(exprs: list[Expression], recalculate: bool = False) -> list[np.ndarray]:
    """`npvalue()` of each, computed together.

    Examples:
        >>> x = dy.inputTensor([[1, 2], [3, 4]])
        >>> turned, row = dy.npvalues([dy.transpose(x), x[0]])
        >>> print(turned)
        [[1. 3.]
         [2. 4.]]
        >>> print(row)
        [1. 2.]
    """
    graph = current_graph()
    if recalculate:
        graph.invalidate()
    nodes = [e.locate()[1] for e in exprs]
    pairs = zip(nodes, engine().values(graph, nodes), strict=True)
    return [to_numpy(node.without_padding(rows)) for node, rows in pairs]


def values(exprs: list[Expression], recalculate: bool = False) -> list[Any]:
    """`value()` of each, computed together.

    Examples:
        >>> x = dy.inputVector([3, 4])
        >>> print(dy.values([x, dy.squared_norm(x)]))
        [[3.0, 4.0], 25.0]
    """
    npvalues(exprs, recalculate)
    return [e.value() for e in exprs]
