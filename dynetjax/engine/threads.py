"""XLA's threads make way for Python's.

XLA hands the kernels of a program to as many threads as there are cores, whatever
their size, and a thread that has nothing to do looks for work for a while. On few
cores such threads take the place of the one that builds the next graph. As batch work
(``SCHED_BATCH``) they do not when they wake up; large products still have every core.
"""

import os
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path

WORKERS = "tf_XLAEigen"  # what XLA calls them


@cache
def stand_back() -> None:
    """Make XLA's threads batch work, on Linux. They are there once anything has run."""
    tasks = Path("/proc/self/task")
    if sys.platform != "linux" or not tasks.is_dir():
        return
    for task in tasks.iterdir():
        with suppress(OSError):  # the thread is gone, or somebody forbids it
            if (task / "comm").read_text().startswith(WORKERS):
                parameters = os.sched_param(0)
                os.sched_setscheduler(int(task.name), os.SCHED_BATCH, parameters)
