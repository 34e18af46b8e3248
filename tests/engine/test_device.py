"""What is known of the device that programs run on."""

from types import SimpleNamespace

import jax
import pytest

from dynetjax.engine import device


def test_is_the_one_that_was_chosen(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert device.platform() == "gpu"
    for chosen in jax.devices("cpu")[0], "cpu":
        with jax.default_device(chosen):
            assert device.platform() == "cpu"


@pytest.mark.parametrize("sees", [True, False])
def test_what_the_host_does_not_see_is_copied_soon(monkeypatch, sees):
    copied = []
    array = SimpleNamespace(copy_to_host_async=lambda: copied.append(True))
    monkeypatch.setattr(device, "host_sees_device", lambda: sees)
    device.copy_soon(array)
    assert copied == ([] if sees else [True])
