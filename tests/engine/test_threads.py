"""XLA's threads make way for Python's."""

import os
import sys
from pathlib import Path

import pytest

import dynetjax as dy
from dynetjax.engine.threads import WORKERS


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has batch work")
def test_the_workers_of_xla_are_batch_work():
    assert dy.tanh(dy.scalarInput(0)).value() == 0
    policies = {
        os.sched_getscheduler(int(task.name))
        for task in Path("/proc/self/task").iterdir()
        if (task / "comm").read_text().startswith(WORKERS)
    }
    assert policies == {os.SCHED_BATCH}
    assert os.sched_getscheduler(0) == os.SCHED_OTHER
