"""XLA's threads and Python's: who makes way, and who waits awake.

XLA has as many threads that begin programs, and that run kernels, as there are cores,
and one that has nothing to do looks for work for a while. On few cores such threads
take the place of the one that builds the next graph. As batch work (``SCHED_BATCH``)
they do not when they wake up; large products still have every core.
"""

import os
import sys
import threading
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

WORKERS = "tf_XLAEigen"  # what XLA calls those that run kernels
LOOKS = 6000  # of a sixth of a microsecond, before it is better to sleep
ASLEEP = 64  # waits, after one for which that was too short

_asleep = 0  # of the next waits, those that are slept through


@cache
def stand_back() -> None:
    """Make XLA's threads batch work, on Linux. They are there once anything has run."""
    tasks = Path("/proc/self/task")
    if sys.platform != "linux" or not tasks.is_dir():
        return
    nameless = Path("/proc/self/comm").read_text()  # those that begin programs
    python = {str(thread.native_id) for thread in threading.enumerate()}
    for task in tasks.iterdir():
        with suppress(OSError):  # the thread is gone, or somebody forbids it
            name = (task / "comm").read_text()
            nobodys = name == nameless and task.name not in python
            if nobodys or name.startswith(WORKERS):
                parameters = os.sched_param(0)
                os.sched_setscheduler(int(task.name), os.SCHED_BATCH, parameters)


def stay_awake_for(array: Any) -> None:
    """Look for a while whether an array is there, if there is a core to spare.

    To fall asleep and be woken up takes about as long as a small program runs: from 30
    to 80 microseconds on a virtual machine. But where other processes take the cores,
    who looks takes what is left from the threads that compute; so where that was in
    vain, the next waits are slept through.
    """
    global _asleep
    if _asleep:
        _asleep -= 1
    elif _has_spare_core():
        is_ready = array.is_ready
        for _ in range(LOOKS):
            if is_ready():
                return
        _asleep = ASLEEP


@cache
def _has_spare_core() -> bool:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0)) > 1
    return (os.cpu_count() or 1) > 1
