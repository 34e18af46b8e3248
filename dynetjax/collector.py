"""Python's garbage collector, which looks for cycles less often from here on.

It is imported before all else: at Python's threshold the collector runs hundreds of
times while JAX is imported, which takes a fifth of a second and frees next to nothing.
"""

import gc

OBJECTS = 200_000  # more than were freed, before it looks at the youngest
EACH = 8  # for each node of the largest graph; two graphs live at a time

_threshold = OBJECTS


def collect_less_often() -> None:
    """Let the garbage collector wait for more objects before it looks for cycles.

    A graph is tens of thousands of objects that live until `renew_cg` and have no
    cycles then. At Python's threshold each graph makes the collector go through all
    that the process holds, which took ten times as long as building graphs of 50 trees.
    A threshold that the user has raised, or set to 0, stays.
    """
    first, *others = gc.get_threshold()
    if 0 < first < OBJECTS:
        gc.set_threshold(OBJECTS, *others)


def wait_for(nodes: int) -> None:
    """Let it wait for what graphs of so many nodes are, if that is more.

    It would come by in every graph, and take as long as building it. What the user has
    set stays here, too.
    """
    global _threshold
    if nodes * EACH <= _threshold:
        return
    first, *others = gc.get_threshold()
    if first == _threshold:
        gc.set_threshold(nodes * EACH, *others)
    _threshold = nodes * EACH


collect_less_often()
