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


def test_nothing_is_collected_in_large_graphs():
    """The collector sees no node."""
    threshold = gc.get_threshold()
    assert collections_in_graphs(20 * threshold[0], 3) <= 2
    assert gc.get_threshold() == threshold


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
    assert done.stdout.split() == [str(bool(plain)), "9.0", "True"]


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
