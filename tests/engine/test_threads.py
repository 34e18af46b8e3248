"""XLA's threads make way for Python's, which waits awake."""

import os
import sys
from pathlib import Path

import pytest

import dynetjax as dy
from dynetjax.engine import threads
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


class Late:
    """An array that is there at the n-th look."""

    def __init__(self, at):
        self.at, self.looks = at, 0

    def is_ready(self):
        self.looks += 1
        return self.looks == self.at


@pytest.mark.parametrize(
    ("cores", "at", "looks"),
    [(2, 1, 1), (2, 7, 7), (2, 10**6, threads.LOOKS), (1, 7, 0)],
)
def test_small_arrays_are_waited_for_awake(monkeypatch, cores, at, looks):
    """For a while, and where XLA has a core of its own."""
    monkeypatch.setattr(threads, "_has_spare_core", lambda: cores > 1)
    late = Late(at)
    threads.stay_awake_for(late)
    assert late.looks == looks


def test_a_core_to_spare():
    cores = os.cpu_count()
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    assert threads._has_spare_core() == (cores > 1)
