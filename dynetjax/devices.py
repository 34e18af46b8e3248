"""Devices by the names that DyNet gives them."""

from typing import NamedTuple

from dynetjax.ops.arguments import check_device


class DeviceInfo(NamedTuple):
    """A device; its name is bytes, as in DyNet."""

    name: bytes
    id: int
    type: int = -1


DEFAULT = DeviceInfo(b"CPU", 0)  # wherever JAX computes


def available_devices() -> list[bytes]:
    """Names of the devices: one, which stands for the device that JAX uses."""
    return [DEFAULT.name]


def get_device_info(name: str) -> DeviceInfo:
    """The device of this name, or the default one for "".

    Raises:
        RuntimeError: there is no such device.
    """
    check_device("get_device_info", name)
    return DEFAULT
