"""Python's garbage collector, which looks for cycles less often while graphs are large.

This is imported before all else: at Python's threshold the collector runs hundreds of
times while JAX is imported, which takes a fifth of a second and frees next to nothing.
"""

import gc
import os

PLAIN = "DYNETJAX_PLAIN_IMPORT"  # see `dynetjax.process`
OBJECTS = 200_000  # more than were freed, before it looks at the youngest
EACH = 8  # for each node of the largest graph; two graphs live at a time

_is_plain = bool(os.environ.get(PLAIN))
_before = gc.get_threshold()[0]
_ours = 0  # the threshold that was set here; 0 if none is
_empty = 0  # graphs in a row that had no nodes


def collect_less_often(objects: int = OBJECTS) -> None:
    """Let the garbage collector wait for so many objects before it looks for cycles.

    A graph is tens of thousands of objects that live until `renew_cg` and have no
    cycles then. At Python's threshold each graph makes the collector go through all
    that the process holds, which took ten times as long as building graphs of 50 trees.
    A threshold that is larger, that is 0, or that the user has set since, stays.
    """
    global _ours
    now, *others = gc.get_threshold()
    if now in (_ours, _before) and 0 < _before < objects:
        gc.set_threshold(objects, *others)
        _ours = objects


def collect_as_before() -> None:
    """Give the threshold back, unless the user has set another one since."""
    global _ours
    now, *others = gc.get_threshold()
    if _ours and now == _ours:
        gc.set_threshold(_before, *others)
    _ours = 0


def wait_for_imports() -> None:
    """Let it wait while a large package is imported, and first used in this graph."""
    if not _is_plain:
        collect_less_often()


def wait_for(nodes: int) -> None:
    """Let it wait for what graphs of so many nodes are; give it back if there are none.

    It would come by in every graph, and take as long as building it. One empty graph
    says nothing yet: many programs renew theirs in two places.
    """
    global _empty
    _empty = 0 if nodes else _empty + 1
    if _is_plain or _empty > 1:
        collect_as_before()
    elif nodes:
        collect_less_often(max(OBJECTS, nodes * EACH))


if not _is_plain:
    collect_less_often()
