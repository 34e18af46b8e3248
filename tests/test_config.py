"""Settings of the process that importing the package changes."""

import gc
import os
import subprocess
import sys
import types

import jax
import pytest

import dynetjax as dy
from dynetjax import config, process
from dynetjax.core import collector


@pytest.fixture
def told(monkeypatch):
    """What the C library was told, of the thresholds numbered in glibc's malloc.h."""
    calls = []
    library = types.SimpleNamespace(mallopt=lambda *args: calls.append(args))
    monkeypatch.setattr(process.ctypes, "CDLL", lambda name: library)
    monkeypatch.setattr(process.sys, "platform", "linux")
    for name in ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"):
        monkeypatch.delenv(name, raising=False)
    return calls


def test_freed_memory_is_kept(told):
    process.keep_freed_memory()
    assert dict(told) == {-1: 2**31 - 1, -3: 2**30}


def test_thresholds_of_the_user_stay(told, monkeypatch):
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "131072")
    process.keep_freed_memory()
    assert not told


def test_other_systems_and_libraries(told, monkeypatch):
    monkeypatch.setattr(process.sys, "platform", "darwin")
    process.keep_freed_memory()
    monkeypatch.setattr(process.sys, "platform", "linux")
    monkeypatch.setattr(process.ctypes, "CDLL", lambda name: types.SimpleNamespace())
    process.keep_freed_memory()
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
    ("before", "threshold"),
    [("gc.set_threshold(700)", 700), ("gc.set_threshold(0)", 0)],
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
    monkeypatch.setattr(collector, "OBJECTS", 20_000)
    monkeypatch.setattr(collector, "_before", 700)
    monkeypatch.setattr(collector, "_ours", 0)
    gc.set_threshold(700, *before[1:])
    yield 20_000
    gc.set_threshold(*before)


def test_nothing_is_collected_in_large_graphs(threshold):
    assert collections_in_graphs(threshold // 2, 3) == 0
    assert gc.get_threshold()[0] == collector.EACH * (threshold // 2 + 1)


def test_it_goes_down_again_with_the_graphs(threshold):
    dy.renew_cg()
    for nodes, after in (
        (threshold, collector.EACH * threshold),
        (5, threshold),
        (0, threshold),
        (5, threshold),
        (0, threshold),
        (0, 700),
    ):
        for _ in range(nodes):
            dy.scalarInput(1)
        dy.renew_cg()
        assert gc.get_threshold()[0] == after


def test_the_threshold_of_the_user_stays(threshold):
    gc.set_threshold(threshold - 1)
    assert collections_in_graphs(threshold, 3) > 0
    assert gc.get_threshold()[0] == threshold - 1


PLAIN = """
import gc, sys
sys.argv += ["--dynet-seed", "7"]
import jax
about = gc.get_threshold(), [*sys.argv], jax.config.jax_compilation_cache_dir
import dynetjax as dy
print(about == (gc.get_threshold(), sys.argv, jax.config.jax_compilation_cache_dir))
x = dy.scalarInput(3)
print(dy.square(x).value())
dy.renew_cg()
print(about[0] == gc.get_threshold())
"""


@pytest.mark.parametrize("plain", ["1", ""])
def test_a_plain_import_changes_nothing(plain, tmp_path):
    told = {name: v for name, v in os.environ.items() if "CACHE_DIR" not in name}
    told |= {"DYNETJAX_PLAIN_IMPORT": plain, "HOME": str(tmp_path)}
    command = [sys.executable, "-c", PLAIN]
    done = subprocess.run(command, env=told, capture_output=True, text=True, check=True)
    unchanged = str(bool(plain))
    assert done.stdout.split() == [unchanged, "9.0", unchanged]


class TestDeterministicGpu:
    """XLA reads its flags when JAX is first used."""

    @pytest.fixture(autouse=True)
    def gpu(self, monkeypatch):
        monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
        monkeypatch.setenv("XLA_FLAGS", "--xla_abacus=true")
        self.model = dy.ParameterCollection()
        self.model.add_parameters(1)
        yield
        dy.init(deterministic=False)

    def test_it_may_be_too_late(self):
        with pytest.raises(RuntimeError, match="deterministic comes too late"):
            dy.init(deterministic=True)
        assert os.environ["XLA_FLAGS"] == "--xla_abacus=true"

    def test_parameters_alone_do_not_use_jax(self, monkeypatch):
        monkeypatch.setattr(config, "is_jax_imported", lambda: False)
        dy.init(deterministic=True)
        flags = "--xla_abacus=true --xla_gpu_deterministic_ops=true"
        assert os.environ["XLA_FLAGS"] == flags
