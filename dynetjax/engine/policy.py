"""Which of the two executors does what: C++ at once, or XLA once it has compiled.

The one in C++ is there where the package was built with a compiler.
"""

from dynetjax.engine.device import host_sees_device

try:
    from dynetjax.engine.native import core
except ImportError:
    core = None

tier: str = "auto"  # "native": C++ wherever it can; "xla": never C++


def native() -> bool:
    """Whether the executor in C++ may be used: it works in the host's memory."""
    return core is not None and tier != "xla" and host_sees_device()
