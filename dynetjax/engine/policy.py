"""Which tier computes what.

Where the host is the device, tier 0 interprets at once all that it has byte code for,
and tier 1, which is XLA, compiles the rest. Beside another device tier 0 computes what
is small, and what is large until tier 1's programs are ready; a device that the user
has named computes everything.
"""

from collections.abc import Iterable

from dynetjax.core.devices import device_named
from dynetjax.engine.device import host_sees_device
from dynetjax.engine.runtime import RUNTIME

TIERS = "auto", "native", "xla"
# In multiply-adds of values alone. On two cores a graph of LEAST takes tier 0 some 20
# milliseconds there and back, a GPU 5 to 10; REPAID takes tier 0 a second or two.
LEAST = 1 << 28
REPAID = 1 << 34


def native() -> bool:
    """Whether tier 0 may be used."""
    if RUNTIME.tier == "xla":
        return False
    return RUNTIME.tier == "native" or not RUNTIME.device_named or host_sees_device()


def divides(names: Iterable[str]) -> bool:
    """Whether parts of a graph for devices of these names lie in several memories."""
    if RUNTIME.tier == "native":
        return False
    devices = {device_named(name) for name in ("", *names)}
    beside = any(device.platform != "cpu" for device in devices)
    return len(devices) > 1 and (beside or RUNTIME.tier == "xla")


def shares() -> bool:
    """Whether tier 0 and a device beside the host share the graphs among them."""
    return not host_sees_device() and RUNTIME.tier == "auto" and native()
