"""Devices by DyNet's names."""

import pytest

import dynetjax as dy


def test_there_is_one():
    assert dy.available_devices() == [b"CPU"]
    for name in ("", "CPU"):
        device = dy.get_device_info(name)
        assert (device.name, device.id, device.type) == (b"CPU", 0, -1)
        assert isinstance(device, dy.DeviceInfo)


def test_there_is_no_other():
    with pytest.raises(RuntimeError, match="get_device_info: Invalid device name"):
        dy.get_device_info("GPU:7")
