"""Memory that runs out while tier 0 computes: a MemoryError, and a graph as it was."""

import os
import subprocess
import sys

import pytest

resource = pytest.importorskip("resource")

# A loss, gradients and an update, with kernels on several threads, while the process
# may have only a little more memory: each 128 KB more is another place where it runs
# out. Each raises MemoryError or is right; with memory, all are right afterwards.
PROGRAM = """
import mmap
import resource

import numpy as np

import dynetjax as dy

RNG = np.random.default_rng(0)
W, X = RNG.normal(size=(1024, 256)) / 64, RNG.normal(size=(256, 320))
H = W @ X
pc = dy.ParameterCollection()
weights = pc.parameters_from_numpy(W)
trainer = dy.AdamTrainer(pc, 0.0)
NONE, BLOCK = resource.RLIM_INFINITY, 1 << 15


def built():
    dy.renew_cg()
    h = weights * dy.inputTensor(X, batched=True)
    return dy.sum_batches(dy.sum_elems(dy.square(h)))


def step(y):
    y.backward()
    found = y.value(), weights.grad_as_array()
    trainer.update()
    return found


def check(found):
    np.testing.assert_allclose(found[0], np.square(H).sum(), rtol=1e-3)
    np.testing.assert_allclose(found[1], 2 * H @ X.T, rtol=1e-2, atol=1e-2)


def filled(size):
    "Blocks that leave no memory, and none of `size` more."
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + size, NONE))
    blocks = []
    try:
        while True:
            blocks.append(mmap.mmap(-1, BLOCK))
    except OSError:
        return blocks


for _ in range(3):
    check(step(built()))
failed = 0
for room in range(0, 400, 4):
    y, blocks, found = built(), filled(16 << 20), None
    del blocks[len(blocks) - room :]
    try:
        found = step(y)
    except MemoryError:
        failed += 1
    del blocks
    resource.setrlimit(resource.RLIMIT_AS, (NONE, NONE))
    if found is None:
        trainer.update()  # gradients begin anew
        found = step(y)
    check(found)
print(failed)
"""

pytestmark = [
    pytest.mark.usefixtures("natively"),
    pytest.mark.skipif(sys.platform != "linux", reason="limits are kept to on Linux"),
    pytest.mark.skipif(
        "san.so" in os.environ.get("LD_PRELOAD", ""),
        reason="a sanitizer takes more addresses than any limit has",
    ),
]


def test_memory_runs_out():
    freed = {"MALLOC_MMAP_THRESHOLD_": "131072", "MALLOC_TRIM_THRESHOLD_": "131072"}
    environment = {**os.environ, **freed, "DYNETJAX_THREADS": "4"}
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout)
