"""Settings of the process that importing the package changes."""

import gc
import subprocess
import sys
import types

import pytest

import dynetjax as dy
from dynetjax import collector, config


@pytest.fixture
def told(monkeypatch):
    """What the C library was told, of the thresholds numbered in glibc's malloc.h."""
    calls = []
    library = types.SimpleNamespace(mallopt=lambda *args: calls.append(args))
    monkeypatch.setattr(config.ctypes, "CDLL", lambda name: library)
    monkeypatch.setattr(config.sys, "platform", "linux")
    for name in ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"):
        monkeypatch.delenv(name, raising=False)
    return calls


def test_freed_memory_is_kept(told):
    config.keep_freed_memory()
    assert dict(told) == {-1: 2**31 - 1, -3: 2**30}


def test_thresholds_of_the_user_stay(told, monkeypatch):
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "131072")
    config.keep_freed_memory()
    assert not told


def test_other_systems_and_libraries(told, monkeypatch):
    monkeypatch.setattr(config.sys, "platform", "darwin")
    config.keep_freed_memory()
    monkeypatch.setattr(config.sys, "platform", "linux")
    monkeypatch.setattr(config.ctypes, "CDLL", lambda name: types.SimpleNamespace())
    config.keep_freed_memory()
    assert not told


IMPORT = """
import gc
runs = []
gc.callbacks.append(lambda phase, about: runs.append(phase))
{before}
import dynetjax
print(len(runs), gc.get_threshold()[0])
"""


@pytest.mark.parametrize(
    ("before", "threshold"), [("", 200_000), ("gc.set_threshold(0)", 0)]
)
def test_nothing_is_collected_while_it_is_imported(before, threshold):
    program = [sys.executable, "-c", IMPORT.format(before=before)]
    told = subprocess.run(program, capture_output=True, text=True, check=True).stdout
    runs, found = map(int, told.split())
    assert found == threshold
    assert runs <= 4


def collections_in_graphs(nodes, graphs):
    """How often the garbage collector comes by, after a first graph."""
    runs = []
    for k in range(graphs + 1):
        dy.renew_cg()
        if k == 1:
            gc.callbacks.append(lambda phase, about: runs.append(phase))
        x = dy.scalarInput(1)
        for _ in range(nodes):
            x = dy.tanh(x)
    gc.callbacks.pop()
    dy.renew_cg()
    return runs.count("start")


@pytest.fixture
def threshold(monkeypatch):
    """What the garbage collector's is, as if no larger graph had been there."""
    before = gc.get_threshold()
    monkeypatch.setattr(collector, "_threshold", 20_000)
    gc.set_threshold(20_000, *before[1:])
    yield 20_000
    gc.set_threshold(*before)


def test_nothing_is_collected_in_large_graphs(threshold):
    assert collections_in_graphs(threshold // 2, 3) == 0
    assert gc.get_threshold()[0] == collector.EACH * (threshold // 2 + 1)


def test_the_threshold_of_the_user_stays(threshold):
    gc.set_threshold(threshold - 1)
    assert collections_in_graphs(threshold // 2, 3) > 0
    assert gc.get_threshold()[0] == threshold - 1
