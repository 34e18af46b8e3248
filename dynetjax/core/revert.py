"""Checkpoints: trying how to go on with a graph, and going back."""

from itertools import chain

from dynetjax.core.expression import Expression
from dynetjax.graph import ComputationGraph, current_graph


def cg_checkpoint() -> None:
    """Mark how far the current graph has grown; marks pile up.

    An empty graph can be marked, too. Source: clab/dynet, ``dynet/dynet.cc``.

    Examples:
        >>> x = dy.scalarInput(1)
        >>> for factor in 2, 5:
        ...     dy.cg_checkpoint()
        ...     print((x * factor).value(), len(dy.cg()))
        ...     dy.cg_revert()
        2.0 2
        5.0 2
        >>> print(x.value(), len(dy.cg()))
        1.0 1
    """
    graph = current_graph()
    graph.marks.append(len(graph))


def cg_revert() -> None:
    """Remove every node that was made after the last mark, and the mark.

    Their expressions are stale from then on: to read one is a RuntimeError, to build on
    it a ValueError. Gradients that a backward() has added to parameters stay.
    Without a mark, nothing happens. Source: clab/dynet, ``dynet/dynet.cc``.

    Examples:
        >>> x = dy.scalarInput(1)
        >>> dy.cg_checkpoint()
        >>> y = x + 1
        >>> dy.cg_revert()
        >>> try:
        ...     print(y.value())
        ... except RuntimeError as error:
        ...     print(str(error).splitlines()[0])
        the expression is stale
    """
    graph = current_graph()
    if graph.marks:
        _cut(graph, graph.marks.pop())


def _cut(graph: ComputationGraph, count: int) -> None:
    """Keep the first `count` nodes, and those that were stored before others."""
    stop = next(
        (k for k, node in enumerate(graph.stored_nodes) if node.index >= count),
        len(graph.stored_nodes),
    )
    for node in graph.nodes[count:]:
        node.graph = _nowhere
    for node in graph.stored_nodes[stop:]:
        if node.index < count and graph.nodes[node.index] is node:
            _take_rows(graph, node, stop)
    del graph.nodes[count:], graph.stored_nodes[stop:]
    graph.weights[:] = [node for node in graph.weights if node.index < count]
    if graph.lines is not None:
        graph.lines = {k: line for k, line in graph.lines.items() if k < count}
    graph.late = {k for k in graph.late if k < count}
    graph.held = {k for k in graph.held if k < count}
    for number in [k for k in graph.devices if k >= count]:
        del graph.devices[number]
    for session in graph.sessions.values():
        session.revert(count)
    if graph.state is not None:
        graph.state.revert(count, stop)


def _take_rows(graph: ComputationGraph, node: Expression, stop: int) -> None:
    """Its rows are gone; they will be made anew when it is needed."""
    read = list(node.inner)
    while node.rule.sums and max(read) >= stop:  # partial sums go, too
        parts = [graph.stored_nodes[k].inner if k >= stop else (k,) for k in read]
        read = list(chain.from_iterable(parts))
    node.args, node.inner, node.spec = tuple(read), (), None


_nowhere = ComputationGraph()
_nowhere.close()
