"""How the suite compiles, of which it does more than most programs.

Programs are compiled as quickly as can be: they run only a few times. What runs in a
process of its own (examples, notebooks, programs) is compiled as for everybody.

What fails on the way to a program, and would be done another way, is raised here.
Memory is not given back after each compilation: to look through a heap of gigabytes
takes longer than most of these.
"""

import os
import subprocess
import sys

import jax

from dynetjax.engine import compiling, hosted, internals, stored
from dynetjax.engine.stats import falling_back

QUICKLY = [  # those that may go first come first
    "--xla_cpu_use_fusion_emitters=false",
    "--xla_cpu_parallel_codegen_split_count=1",
    "--xla_llvm_disable_expensive_passes=true",
    "--xla_backend_optimization_level=0",
]


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
internals.OPTIONS["quick"]["xla_backend_optimization_level"] = 0
compiling.LONG = float("inf")
hosted.TENTATIVE = 0, 0  # which graphs are would depend on the tests before
stored.is_wanted = False  # tests change what programs are traced from
falling_back.raises = True
