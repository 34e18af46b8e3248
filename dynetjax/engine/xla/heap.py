"""Memory that the compiler took, given back to the system.

XLA compiles in threads, and glibc keeps what a thread has freed for later: hundreds of
megabytes after a few programs, at a time when large arrays are made.
"""

import ctypes
import sys
from collections.abc import Callable
from functools import cache


def give_back() -> None:
    """Return what is free of the heap, where the C library can."""
    trim = _malloc_trim()
    if trim is not None:
        trim(0)


@cache
def _malloc_trim() -> Callable[[int], int] | None:
    if sys.platform != "linux":
        return None
    return getattr(ctypes.CDLL(None), "malloc_trim", None)
