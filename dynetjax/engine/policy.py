"""Which tier computes what.

Where the host is the device, tier 0 interprets at once all that it has byte code for.
Tier 1 compiles by XLA: what has no byte code, and all work of other devices.
"""

from dynetjax.engine.device import host_sees_device
from dynetjax.engine.native import core
from dynetjax.engine.runtime import RUNTIME

TIERS = "auto", "native", "xla"

is_built = core is not None


def native() -> bool:
    """Whether there is a tier 0 here, and it may be used."""
    return is_built and RUNTIME.tier != "xla" and host_sees_device()
