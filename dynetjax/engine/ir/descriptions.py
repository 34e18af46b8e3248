"""What a program is traced from, as text that is the same in every process.

Functions are described by where they are written and by what they enclose. That is all
there is to know of those of this package and of JAX: what is written there is part of
what byte code is found by (`dynetjax.engine.native.kept`). Others are not described:
what a user's function does may follow from anything.
"""

import functools
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from types import MethodType
from typing import Any

import numpy as np

from dynetjax.core.registry import Op

KNOWN = "dynetjax", "jax", "jaxlib", "numpy", "optax", "math", "operator", "builtins"
_PLAIN = (int, float, str, bool, bytes, type(None))


class NotDescribedError(Exception):
    """Something whose description would not tell all."""


def described(thing: Any) -> str:
    """A description of a value made of plain ones, operations and functions.

    Raises:
        NotDescribedError: it has something else in it.
    """
    kind = type(thing)
    if kind in _PLAIN:
        return repr(thing)
    if isinstance(thing, tuple | list):
        return f"{kind.__name__}({','.join(map(described, thing))})"
    if isinstance(thing, Op):
        return _operation(thing)
    if is_dataclass(thing) and not isinstance(thing, type):
        parts = [getattr(thing, field.name) for field in fields(thing)]
        return f"{kind.__name__}({','.join(map(described, parts))})"
    if isinstance(thing, np.generic):
        return f"{thing.dtype}:{thing!r}"
    if isinstance(thing, dict):
        return f"dict({described([*thing.items()])})"
    if isinstance(thing, slice):
        return f"slice({described([thing.start, thing.stop, thing.step])})"
    if isinstance(thing, functools.partial):
        return f"partial({described([thing.func, thing.args, thing.keywords])})"
    if isinstance(thing, MethodType):
        return f"method({described([thing.__func__, thing.__self__])})"
    if callable(thing):
        return _function(thing)
    raise NotDescribedError(repr(kind))


@functools.lru_cache(maxsize=1 << 12)
def _operation(op: Op) -> str:
    """What a trace looks at of an operation."""
    parts = op.fn, op.static, op.runtime, op.form, op.contraction
    return f"{op.name}({','.join(map(described, parts))})"


def _function(fn: Callable[..., Any]) -> str:
    module = getattr(fn, "__module__", None) or type(fn).__module__
    name = getattr(fn, "__qualname__", None) or getattr(fn, "__name__", None)
    if name is None or module.partition(".")[0] not in KNOWN:
        raise NotDescribedError(f"{module}.{name}")
    code = getattr(fn, "__code__", None)
    line = 0 if code is None else code.co_firstlineno
    enclosed = [cell.cell_contents for cell in getattr(fn, "__closure__", None) or ()]
    others = "__defaults__", "__kwdefaults__", "__wrapped__"
    more = [getattr(fn, other, None) for other in others]
    return f"{module}.{name}:{line}({described([*enclosed, *more])})"
