"""Devices by DyNet's names, where JAX has several."""

import os
import subprocess
import sys
from types import SimpleNamespace

import jax
import pytest

from dynetjax.core import devices

PROGRAM = """
import numpy as np
import dynetjax as dy

print(dy.available_devices(), [dy.get_device_info(n).id for n in ("", "CPU", "CPU:1")])
m = dy.ParameterCollection()
W = m.add_parameters((2, 2), init=np.array([[1.0, 2], [3, 4]]), device="CPU:1")
V = m.add_parameters((2, 2), init=np.array([[0.5, 1], [1, 2]]))
h = dy.to_device(V * dy.inputVector([1, 2], device="CPU"), "CPU:1")
loss = dy.sum_elems(dy.to_device(W * h, "CPU"))
print(loss.value())
loss.backward()
print(W.grad_as_array().tolist(), V.grad_as_array().tolist())
"""


def test_a_graph_over_two_of_them():
    """Values and gradients are those of the formulas."""
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    told = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=os.environ | flags | {"JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
    )
    assert not told.returncode, told.stderr
    names, loss, gradients = told.stdout.splitlines()
    assert names == "[b'CPU', b'CPU:1'] [0, 0, 1]"
    assert float(loss) == 4 * 2.5 + 6 * 5  # of columns of W, and V (1, 2)
    assert gradients == "[[2.5, 5.0], [2.5, 5.0]] [[4.0, 8.0], [6.0, 12.0]]"


@pytest.fixture
def gpus(monkeypatch):
    """Two GPUs beside the CPU."""
    hosts = [SimpleNamespace(platform="cpu", id=0)]
    found = [SimpleNamespace(platform="gpu", id=k) for k in (0, 3)]

    def all_devices(backend=None):
        return hosts if backend == "cpu" else found

    monkeypatch.setattr(jax, "devices", all_devices)


def test_gpus_come_first(gpus):
    assert devices.device_names() == ["GPU:0", "GPU:3", "CPU"]
    devices.check_device("input", "GPU:3")


def test_there_is_no_such_one(gpus):
    with pytest.raises(RuntimeError, match=r'got: +.GPU:1.\n.*one of "GPU:0", "GPU:3"'):
        devices.check_device("input", "GPU:1")
