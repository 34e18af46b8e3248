"""The device that programs run on: the host itself, or one beside it, such as a GPU."""

from functools import cache
from typing import Any

import jax


def platform() -> str:
    """Of the device: cpu, gpu or another of JAX's."""
    chosen = getattr(jax.config, "jax_default_device", None)
    if chosen is None:
        return jax.default_backend()
    return getattr(chosen, "platform", chosen)


@cache
def host_sees_device() -> bool:
    """Whether arrays of the device lie in the host's memory."""
    return platform() == "cpu"


@cache
def host() -> Any:
    """The host as a device of JAX; None if JAX was told to leave it out."""
    try:
        return jax.local_devices(backend="cpu")[0]
    except RuntimeError:
        return None


def put_on_host(array: Any) -> Any:
    """An array for programs that run on the host."""
    return jax.device_put(array, None if host_sees_device() else host())
