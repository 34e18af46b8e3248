"""Which devices there are, by DyNet's names."""

import os
import pathlib
from functools import cache
from importlib.metadata import entry_points
from importlib.util import find_spec
from typing import Any

import numpy as np

from dynetjax.core.errors import error_text
from dynetjax.core.lazy import is_jax_imported, jax

HOST = "CPU"
_PLUGINS = "jax_plugins"
_CHOICES = (
    "JAX_DEFAULT_DEVICE",
    "JAX_PLATFORM_NAME",
    "PJRT_NAMES_AND_LIBRARY_PATHS",
    "TPU_LIBRARY_PATH",
)
_NUMBERS = "JAX_NUM_CPU_DEVICES", "XLA_FLAGS"  # say perhaps that the host is several


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


def have_one_each(processes: int) -> bool:
    """Whether each of several processes of this machine can have a GPU for itself.

    JAX is not asked: it would take hold of all of them.
    """
    if is_host_alone() or processes == 1:
        return False
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is None:
        gpus = len([*pathlib.Path("/proc/driver/nvidia/gpus").glob("*")])
    else:
        gpus = len([x for x in chosen.split(",") if x.strip() not in ("", "-1")])
    return gpus >= processes


def device_names() -> list[str]:
    """``GPU:0`` and so on, then ``CPU``; ``CPU:1`` where XLA was told to have more."""
    is_plain = is_host_alone() and not any(map(os.environ.get, _NUMBERS))
    if is_plain and not is_jax_imported():
        return [HOST]
    hosts = range(len(jax.devices("cpu")))
    return [*devices_beside(), *[f"{HOST}:{k}" if k else HOST for k in hosts]]


def devices_beside() -> "dict[str, jax.Device]":
    """JAX's devices but for the host, by name."""
    others = [d for d in jax.devices() if d.platform != "cpu"]
    return {f"{d.platform.upper()}:{d.id}": d for d in others}


def are_several() -> bool:
    """Whether there is more than one."""
    return device_names() != [HOST]


def on_device(node: Any, device: str) -> Any:
    """A new node, to lie on the device of this name if there is one."""
    if device and are_several():
        node.graph.devices[node.index] = device
        node.graph.use_executor(None)  # it may be divided now
    return node


def device_named(name: str) -> "jax.Device":
    """JAX's device of this name; the default one for ""."""
    if not name:
        chosen: Any = getattr(jax.config, "jax_default_device", None)
        return chosen if isinstance(chosen, jax.Device) else jax.devices(chosen)[0]
    platform, _, number = name.partition(":")
    if platform == HOST:
        return jax.devices("cpu")[int(number or 0)]
    return devices_beside()[name]


def over_all_devices() -> "jax.sharding.NamedSharding | None":
    """Rows of an array on all devices of the default kind; None if that is one."""
    platform = device_named("").platform
    devices = jax.local_devices(backend=platform)
    if len(devices) == 1:
        return None
    mesh = jax.sharding.Mesh(np.array(devices), ("rows",))
    return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("rows"))


def default_device() -> str:
    """The name of the default one."""
    default = device_named("")
    return next(name for name in device_names() if device_named(name) == default)


def check_device(name: str, device: str) -> None:
    """Accept the name of a device, or "" for the default one.

    Raises:
        RuntimeError: there is no such device.
    """
    if device in ("", HOST) or device in device_names():
        return
    names = ", ".join(f'"{known}"' for known in device_names())
    raise RuntimeError(
        error_text(
            f"{name}: Invalid device name",
            got=repr(device),
            expected=f'"", or one of {names}',
            fix="leave it out: --dynet-devices, or JAX_PLATFORMS, chooses the device",
        )
    )
