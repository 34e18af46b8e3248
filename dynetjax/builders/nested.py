"""Trees as users have them: nested lists, objects with children. No recursion."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from dynetjax.core.errors import error_text


def children_of(node: Any) -> list[Any]:
    """The children of a node, as far as it tells; none for all else.

    Those of a list or a tuple, NLTK's trees included, are its elements; other objects
    have them as `children`, an attribute or a method.
    """
    if isinstance(node, (list, tuple)):
        return list(node)
    children = getattr(node, "children", None)
    if callable(children):
        children = children()
    return list(children or ())


def post_order(
    root: Any, children: Callable[[Any], Iterable[Any]]
) -> Iterator[tuple[Any, int]]:
    """Every node with the number of its children; children come first.

    Raises:
        ValueError: a node is among its own descendants.
    """
    above: set[int] = set()
    stack = [_opened(root, children, above)]
    while stack:
        node, count, left = stack[-1]
        for child in left:
            stack.append(_opened(child, children, above))
            break
        else:
            stack.pop()
            above.discard(id(node))
            yield node, count


def _opened(node: Any, children, above: set[int]) -> tuple[Any, int, Iterator[Any]]:
    """A node, the number of its children, and those not gone into yet."""
    subtrees = list(children(node))
    if subtrees:
        if id(node) in above:
            raise ValueError(
                error_text(
                    "build: a node is among its own descendants",
                    got=repr(type(node).__name__),
                    expected="a tree",
                    fix="look for a child that leads back to its parent",
                )
            )
        above.add(id(node))
    return node, len(subtrees), iter(subtrees)
