"""The device that programs run on: the host itself, or one beside it, such as a GPU."""

import os
from functools import cache
from importlib.metadata import entry_points
from importlib.util import find_spec
from typing import Any

from dynetjax.core.lazy import is_jax_imported, jax

_PLUGINS = "jax_plugins"
_CHOICES = (
    "JAX_DEFAULT_DEVICE",
    "JAX_PLATFORM_NAME",
    "PJRT_NAMES_AND_LIBRARY_PATHS",
    "TPU_LIBRARY_PATH",
)


def platform() -> str:
    """Of the device: cpu, gpu or another of JAX's."""
    if not is_jax_imported() and is_host_alone():
        return "cpu"
    chosen = getattr(jax.config, "jax_default_device", None)
    if chosen is None:
        return jax.default_backend()
    return getattr(chosen, "platform", chosen)


@cache
def is_host_alone() -> bool:
    """Whether it is plain, without JAX, that JAX will find no device but the host.

    It finds others by plug-ins, which are modules of the namespace package
    `jax_plugins` or entry points of this name, and by libtpu. The user chooses by
    environment variables. Where there is any of these, only JAX can tell.
    """
    if any(map(os.environ.get, _CHOICES)):
        return False
    platforms = os.environ.get("JAX_PLATFORMS")
    if platforms:
        return platforms == "cpu"
    return not (
        find_spec(_PLUGINS) or find_spec("libtpu") or entry_points(group=_PLUGINS)
    )


@cache
def host_sees_device() -> bool:
    """Whether arrays of the device lie in the host's memory."""
    return platform() == "cpu"


def copy_soon(array: Any) -> None:
    """Have an array copied to the host once it is computed, before it is asked for."""
    if not host_sees_device():
        array.copy_to_host_async()
