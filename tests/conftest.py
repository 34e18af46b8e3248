"""Which build the suite tests, and how it has XLA compile.

Processes that tests start import the package that the tests do, and not what lies where
they start.

Programs are compiled as quickly as can be: they run only a few times. What runs in a
process of its own (examples, notebooks, programs) is compiled as for everybody.

Compiled programs are dropped from time to time. Each takes some of the 65,530 mappings
of memory that Linux allows a process; where there are no more, the process ends. Memory
is given back then, and not after each compilation: to look through a heap of gigabytes
takes longer than most of these.
"""

import os
import pathlib
import subprocess
import sys

import jax
import pytest

from dynetjax import graph
from dynetjax.engine import compiling, heap, hosted, stored

TESTED = pathlib.Path(graph.__file__)
BUILD = "interpreted" if TESTED.suffix == ".py" else "compiled"
_folders = str(TESTED.parent.parent), *filter(None, [os.environ.get("PYTHONPATH")])
os.environ |= {"PYTHONPATH": os.pathsep.join(_folders), "PYTHONSAFEPATH": "1"}

FEW, MANY = 50, 100  # tests between
QUICKLY = [  # those that may go first come first
    "--xla_cpu_use_fusion_emitters=false",
    "--xla_cpu_parallel_codegen_split_count=1",
    "--xla_llvm_disable_expensive_passes=true",
    "--xla_backend_optimization_level=0",
]

_since = 0  # tests


def _compile_quickly():
    """Have XLA do so with whatever is compiled in this process.

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
            return


if "XLA_FLAGS" not in os.environ:
    _compile_quickly()
compiling._QUICKLY["xla_backend_optimization_level"] = 0
compiling.LONG = float("inf")
hosted.TENTATIVE = 0, 0  # which graphs are would depend on the tests before
stored.is_wanted = False  # tests change what programs are traced from


def pytest_addoption(parser):
    builds = "compiled", "interpreted"
    parser.addoption("--build", choices=builds, help="fail where it is not this one")


def pytest_configure(config):
    asked = config.getoption("build")
    if asked not in (None, BUILD):
        raise pytest.UsageError(f"--build {asked}: {TESTED} is {BUILD}")


def pytest_terminal_summary(terminalreporter):
    terminalreporter.write_line(f"dynetjax is {BUILD}: {TESTED.parent}")


def pytest_runtest_teardown(item, nextitem):
    """Where a module ends if that is soon: its tests may count what is compiled."""
    global _since
    _since += 1
    ends = nextitem is None or nextitem.path != item.path
    if _since >= (FEW if ends else MANY):
        _since = 0
        jax.clear_caches()
        heap.give_back()
