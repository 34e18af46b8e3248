"""What the REPL shows of an object: its class, and what it was made with."""

import inspect
import reprlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dynetjax.core.dims import Dim


def call_text(thing: object, arguments: Mapping[str, Any]) -> str:
    """``AdamTrainer(learning_rate=0.001, eps=0.1)``."""
    written = [f"{name}={_short(value)}" for name, value in arguments.items()]
    return f"{type(thing).__name__}({', '.join(written)})"


def attributes(thing: object, *always: str) -> dict[str, Any]:
    """Arguments of the constructor that an object has as attributes.

    Those that are what they are by default are left out, but for `always`.
    """
    parameters = constructor_of(type(thing))
    found = {name: getattr(thing, name) for name in always}
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


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, np.ndarray):
        return str(Dim(value.shape))
    if callable(value):  # a class; or a function, or what has made it
        return value.__qualname__.partition(".<locals>")[0]
    return reprlib.repr(value)
