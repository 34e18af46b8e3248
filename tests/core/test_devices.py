"""Devices by DyNet's names, where JAX has several."""

from types import SimpleNamespace

import jax
import pytest

from dynetjax.core import devices


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


def test_as_jax_knows_them(gpus):
    for name, platform, number in ("GPU:3", "gpu", 3), ("CPU", "cpu", 0):
        found = devices.device_named(name)
        assert (found.platform, found.id) == (platform, number)


def test_the_default_one():
    assert devices.default_device() == "CPU"
    (cpu,) = jax.devices("cpu")
    with jax.default_device(cpu):
        assert devices.device_named("") is cpu


def test_there_is_no_such_one(gpus):
    with pytest.raises(RuntimeError, match=r'got: +.GPU:1.\n.*one of "GPU:0", "GPU:3"'):
        devices.check_device("input", "GPU:1")
