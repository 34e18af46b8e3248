"""Checkpoints: trying how to go on with a graph, and going back."""

from dynetjax.graph import ComputationGraph, current_graph


def cg_checkpoint() -> None:
    """Mark how far the current graph has grown; marks pile up.

    An empty graph can be marked, too.

    Source: clab/dynet, ``dynet/dynet.cc``.

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
    Without a mark, nothing happens.

    Source: clab/dynet, ``dynet/dynet.cc``.

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
    """Keep the first `count` nodes."""
    graph.cut(count)
    if graph.state is not None:
        graph.state.revert()
    if graph.lines is not None:
        graph.lines = {k: line for k, line in graph.lines.items() if k < count}
    for number in [k for k in graph.devices if k >= count]:
        del graph.devices[number]
    for session in graph.sessions.values():
        session.revert()
