"""Which tier computes what.

Tier 0 interprets at once, on the host; tier 1 compiles by XLA. The work of a graph
decides, and nothing else: numbers computed, products counted by their factors.
"""

from dynetjax.engine.device import host_sees_device
from dynetjax.engine.native import core

TIERS = "auto", "native", "xla"
SMALL = 1 << 25  # work of a graph that is tier 0's for good
LARGE = 1 << 29  # that is, too, until tier 1 has its programs

tier = "auto"
is_built = core is not None


def native() -> bool:
    """Whether there is a tier 0 here, and it may be used."""
    return is_built and tier != "xla" and host_sees_device()


def most_work(waiting: bool) -> float:
    """The work from which on a graph is not for tier 0.

    Args:
        waiting: tier 1 has no programs for it so far.
    """
    if tier == "native":
        return float("inf")
    return LARGE if waiting else SMALL
