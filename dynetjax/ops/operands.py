"""Checks of operands, and the graph that they belong to."""

from typing import Any

from dynetjax.core.errors import error_text
from dynetjax.core.expression import Expression, Leaf, stale
from dynetjax.graph import ComputationGraph, current_graph


def not_an_expression(name: str, *values: Any) -> TypeError:
    """The error for an operand that is no Expression."""
    wrong = next((v for v in values if not isinstance(v, Expression)), values[0])
    return TypeError(
        error_text(
            f"{name}: an operand is not an Expression",
            got=f"{wrong!r} ({type(wrong).__name__})",
            expected="an Expression, Parameters or LookupParameters",
            fix="wrap numbers with scalarInput, arrays with inputTensor",
        )
    )


def graph_of(name: str, *xs: Any) -> ComputationGraph:
    """The graph that operands belong to; this thread's for parameters alone.

    Raises:
        TypeError: an operand is not an Expression.
        ValueError: one is stale, or they belong to different graphs.
    """
    owner = None
    for x in xs:
        if not isinstance(x, Expression):
            raise not_an_expression(name, *xs)
        graph = x.graph
        if graph is None and not isinstance(x, Leaf):
            raise not_an_expression(name, *xs)
        if graph is not None:
            if not x.is_live or (owner is not None and graph is not owner):
                raise ValueError(stale("operand"))
            owner = graph
    return current_graph() if owner is None else owner


def _has_none(xs: list[Any]) -> bool:
    try:
        return None in xs
    except ValueError:  # an array among them compares all of its numbers
        return any(x is None for x in xs)


def operands(name: str, xs: Any) -> ComputationGraph:
    """The graph that a list of operands belongs to.

    Raises:
        TypeError: `xs` is not a list, or an element is not an Expression.
        AssertionError: the list is empty or has None in it, as in DyNet.
        ValueError: an element is stale.
    """
    if not isinstance(xs, list):
        raise TypeError(
            error_text(
                f"{name}: the expressions are not in a list",
                got=type(xs).__name__,
                expected="a list",
                fix="list(...)",
            )
        )
    if not xs or _has_none(xs):
        raise AssertionError(
            error_text(
                f"{name}: the list of expressions is empty or has None in it",
                got=xs,
                expected="a list of at least one Expression",
                fix="leave None out, and check for an empty list before",
            )
        )
    return graph_of(name, *xs)
