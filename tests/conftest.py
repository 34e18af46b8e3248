"""How the suite has XLA compile, and what processes import that it starts.

Processes that tests start import the package that the tests do, and not what lies where
they start.

Programs are compiled as quickly as can be: they run only a few times. What runs in a
process of its own (examples, notebooks) is compiled as for everybody.

What fails on the way to a program, and would be done another way, is raised here.
Memory is not given back after each compilation: to look through a heap of gigabytes
takes longer than most of these. Programs make way between modules, where no test
counts compilations.
"""

import os
import pathlib
import subprocess
import sys

import jax
import pytest

from dynetjax import graph
from dynetjax.core import devices
from dynetjax.engine import divided, policy
from dynetjax.engine.runtime import RUNTIME
from dynetjax.engine.stats import falling_back
from dynetjax.engine.xla import compiling
from dynetjax.engine.xla.live import live, maps

TESTED = pathlib.Path(graph.__file__)
_folders = str(TESTED.parent.parent), *filter(None, [os.environ.get("PYTHONPATH")])
os.environ |= {"PYTHONPATH": os.pathsep.join(_folders), "PYTHONSAFEPATH": "1"}

MANY = 6000  # maps of memory
QUICKLY = [  # those that may go first come first
    "--xla_cpu_use_fusion_emitters=false",
    "--xla_cpu_parallel_codegen_split_count=1",
    "--xla_llvm_disable_expensive_passes=true",
    "--xla_backend_optimization_level=0",
]


def _compile_quickly():
    """Have XLA do so with whatever is compiled in this process; the flags for others.

    It reads the flags once, and ends a process that has one that it does not know; so
    another process tries first.
    """
    for k in range(len(QUICKLY)):
        flags = {"XLA_FLAGS": " ".join(QUICKLY[k:])}
        command = [sys.executable, "-c", "import jax; jax.devices()"]
        tried = subprocess.run(command, env=os.environ | flags, capture_output=True)
        if tried.returncode == 0:
            os.environ.update(flags)
            jax.devices()
            del os.environ["XLA_FLAGS"]
            return flags
    return {}


_flags = {} if "XLA_FLAGS" in os.environ else _compile_quickly()
compiling.LONG = float("inf")
RUNTIME.keeps_byte_code = False  # tests change what is traced
falling_back.raises = True


def pytest_runtest_teardown(item, nextitem):
    if (nextitem is None or nextitem.path != item.path) and maps() > MANY:
        live.make_room()


def pytest_addoption(parser):
    parser.addoption(
        "--tier", choices=policy.TIERS, default="auto", help="that computes"
    )


def pytest_configure(config):
    RUNTIME.tier = config.getoption("tier")


@pytest.fixture
def runtime():
    """The engine, which knows of no graph before the test."""
    with RUNTIME.apart() as found:
        yield found


@pytest.fixture
def by_xla(monkeypatch):
    """XLA does all, and nothing the executor in C++."""
    monkeypatch.setattr(RUNTIME, "tier", "xla")


@pytest.fixture
def two_devices(monkeypatch):
    """CPU and CPU:1, between which graphs are divided; both are the same here."""
    (device,) = jax.devices("cpu")
    monkeypatch.setattr(devices, "device_names", lambda: ["CPU", "CPU:1"])
    monkeypatch.setattr(divided, "device_named", lambda name: device)
    monkeypatch.setattr(policy, "divides", lambda names: True)


@pytest.fixture
def natively(monkeypatch):
    """The executor in C++ does what it can."""
    monkeypatch.setattr(RUNTIME, "tier", "native")


@pytest.fixture
def quick_environment():
    """The environment of a process whose programs are compiled quickly, too."""
    return os.environ | _flags


def pytest_terminal_summary(terminalreporter):
    terminalreporter.write_line(f"dynetjax: {TESTED.parent}")
