"""What is known of the device that programs run on."""

import jax
import pytest

from dynetjax.engine import device


def test_is_the_one_that_was_chosen(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert device.platform() == "gpu"
    for chosen in jax.devices("cpu")[0], "cpu":
        with jax.default_device(chosen):
            assert device.platform() == "cpu"


@pytest.mark.parametrize("there", [True, False])
def test_the_host_may_be_left_out(monkeypatch, there):
    def devices(backend):
        if not there:
            raise RuntimeError("Unknown backend cpu")
        return [backend]

    monkeypatch.setattr(jax, "local_devices", devices)
    assert device.host.__wrapped__() == ("cpu" if there else None)
