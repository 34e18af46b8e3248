"""How objects, counts, times and sizes are shown."""

import inspect
import reprlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dynetjax.core.dims import Dim

UNITS = "KB", "MB", "GB"


def call_text(thing: object, arguments: Mapping[str, Any]) -> str:
    """``AdamTrainer(learning_rate=0.001, eps=0.1)``."""
    written = [f"{name}={_short(value)}" for name, value in arguments.items()]
    return f"{type(thing).__name__}({', '.join(written)})"


def attributes(thing: object, *always: str) -> dict[str, Any]:
    """Arguments of the constructor that an object has as attributes, so far.

    Those that are what they are by default are left out, but for `always`.
    """
    parameters = constructor_of(type(thing))
    found = {name: getattr(thing, name) for name in always if hasattr(thing, name)}
    for name, parameter in parameters.items():
        if name not in found and hasattr(thing, name):
            value = getattr(thing, name)
            if value != parameter.default:
                found[name] = value
    return found


def constructor_of(kind: type) -> Mapping[str, inspect.Parameter]:
    """The parameters of this package's constructor; a user's may take others."""
    ours = [k for k in kind.__mro__ if k.__module__.startswith("dynetjax.")]
    make: Callable[..., Any] = next(vars(k)["__init__"] for k in ours if _makes(k))
    return inspect.signature(make).parameters


def _makes(kind: type) -> bool:
    return "__init__" in vars(kind)


def counted(count: int, what: str) -> str:
    """``1 node``, ``2 nodes``."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def time_text(seconds: float) -> str:
    """``12 us``, ``3.40 ms`` or ``5.60 s``."""
    if seconds >= 999.5e-6:  # or 1000 us would be shown
        return f"{seconds:.2f} s" if seconds >= 1 else f"{1e3 * seconds:.2f} ms"
    return f"{1e6 * seconds:.0f} us"


def bytes_text(size: float) -> str:
    """``12 B``, ``3.4 KB``, ``56 MB`` or ``7.8 GB``, of 1,024 each."""
    if size < 999.5:
        return f"{size:.0f} B"
    for unit in UNITS:
        size /= 1024
        if size < 999.5 or unit == UNITS[-1]:
            break
    return f"{size:.1f} {unit}" if size < 9.95 else f"{size:,.0f} {unit}"


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, np.ndarray):
        return str(Dim(value.shape))
    if callable(value):  # a class; or a function, or what has made it
        return value.__qualname__.partition(".<locals>")[0]
    return reprlib.repr(value)
