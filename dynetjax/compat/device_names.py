"""Devices by the names that DyNet gives them."""

from typing import NamedTuple

from dynetjax.core.devices import check_device, device_names


class DeviceInfo(NamedTuple):
    """A device; its name is bytes, as in DyNet.

    Examples:
        >>> device = dy.get_device_info("CPU")
        >>> print(device)
        DeviceInfo(name=b'CPU', id=0, type=-1)
        >>> print(device.name.decode(), device.id)
        CPU 0
    """

    name: bytes
    id: int
    type: int = -1


def available_devices() -> list[bytes]:
    """Names of the devices that JAX has: GPUs, and then the CPU.

    Examples:
        >>> for name in dy.available_devices():
        ...     print(name, dy.get_device_info(name.decode()).id)
        b'CPU' 0
    """
    return [name.encode() for name in device_names()]


def get_device_info(name: str) -> DeviceInfo:
    """The device of this name, or the first one for "".

    Raises:
        RuntimeError: there is no such device.
    Examples:
        >>> print(dy.get_device_info("") == dy.get_device_info("CPU"))
        True
        >>> try:
        ...     dy.get_device_info("GPU:7")
        ... except RuntimeError as error:
        ...     print(str(error).splitlines()[0])
        get_device_info: Invalid device name
    """
    check_device("get_device_info", name)
    names = device_names()
    number = names.index(name) if name else 0
    return DeviceInfo(names[number].encode(), number)
