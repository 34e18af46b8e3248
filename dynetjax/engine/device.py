"""The device that programs run on: the host itself, or one beside it, such as a GPU."""

from functools import cache
from typing import Any

from dynetjax.core.devices import is_host_alone
from dynetjax.core.lazy import is_jax_imported, jax


def platform() -> str:
    """Of the device: cpu, gpu or another of JAX's."""
    if not is_jax_imported() and is_host_alone():
        return "cpu"
    chosen = getattr(jax.config, "jax_default_device", None)
    if chosen is None:
        return jax.default_backend()
    return getattr(chosen, "platform", chosen)


@cache
def host_sees_device() -> bool:
    """Whether arrays of the device lie in the host's memory."""
    return platform() == "cpu"


def copy_soon(array: Any) -> None:
    """Have an array copied to the host once it is computed, before it is asked for."""
    if not host_sees_device():
        array.copy_to_host_async()
