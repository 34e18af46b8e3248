"""XLA's threads make way for Python's, which waits awake."""

import os
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import dynetjax as dy
from dynetjax.engine import run
from dynetjax.engine import threads as module
from dynetjax.engine.threads import WORKERS, stand_back


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has batch work")
class TestBatchWork:
    """What XLA's threads do, and not what Python's do."""

    def test_workers(self):
        assert dy.tanh(dy.scalarInput(0)).value() == 0
        policies = {
            os.sched_getscheduler(number)
            for number, name in self.threads().items()
            if name.startswith(WORKERS)
        }
        assert policies == {os.SCHED_BATCH}

    def test_nameless_threads(self):
        """Those that begin programs have no name; a thread of Python's has none."""
        done = threading.Event()
        python = threading.Thread(target=done.wait)
        python.start()
        try:
            stand_back.__wrapped__()
            nameless = Path("/proc/self/comm").read_text()
            policies = {
                number: os.sched_getscheduler(number)
                for number, name in self.threads().items()
                if name == nameless
            }
        finally:
            done.set()
            python.join()
        ours = {policies.pop(python.native_id), policies.pop(os.getpid())}
        assert ours == {os.SCHED_OTHER}
        for other in threading.enumerate():
            policies.pop(other.native_id, None)
        assert set(policies.values()) == {os.SCHED_BATCH}

    def threads(self):
        """The names of the threads of this process, by number."""
        tasks = [*Path("/proc/self/task").iterdir()]
        return {int(task.name): (task / "comm").read_text() for task in tasks}


class Late:
    """An array that is there at the n-th look."""

    def __init__(self, at):
        self.at, self.looks = at, 0

    def is_ready(self):
        self.looks += 1
        return self.looks == self.at


@pytest.mark.parametrize(
    ("cores", "at", "looks"),
    [(2, 1, 1), (2, 7, 7), (2, 10**6, module.LOOKS), (1, 7, 0)],
)
def test_small_arrays_are_waited_for_awake(monkeypatch, cores, at, looks):
    """For a while, and where XLA has a core of its own."""
    monkeypatch.setattr(module, "_has_spare_core", lambda: cores > 1)
    monkeypatch.setattr(module, "_asleep", 0)
    late = Late(at)
    module.stay_awake_for(late)
    assert late.looks == looks


def test_waits_after_one_in_vain_are_slept_through(monkeypatch):
    """Other processes may have the core that was to spare."""
    monkeypatch.setattr(module, "_has_spare_core", lambda: True)
    monkeypatch.setattr(module, "_asleep", 0)
    waits = [Late(10**6)] + [Late(3) for _ in range(module.ASLEEP + 1)]
    for late in waits:
        module.stay_awake_for(late)
    looks = [late.looks for late in waits]
    assert looks == [module.LOOKS] + [0] * module.ASLEEP + [3]


@pytest.mark.parametrize(("size", "awake"), [(7, 1), (70_000, 0)])
def test_only_what_one_thread_runs_is_waited_for_awake(monkeypatch, size, awake):
    """What is large has work for every core."""
    waited = []
    monkeypatch.setattr(run, "host_sees_device", lambda: True)
    monkeypatch.setattr(run, "stay_awake_for", waited.append)
    dy.renew_cg()
    x = dy.tanh(dy.inputVector(np.ones(size)))
    np.testing.assert_allclose(x.npvalue(), np.tanh(np.ones(size)), rtol=1e-5)
    assert len(waited) == awake


def test_a_core_to_spare():
    cores = os.cpu_count()
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    assert module._has_spare_core() == (cores > 1)
