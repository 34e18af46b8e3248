"""What converted programs call: functions of Python 2, and helpers of `tree`.

Each of `NAMES` is known in every converted module by its name.
"""

import builtins
import importlib
import math
import operator
import sys
import types
from collections.abc import Callable, Iterable
from decimal import ROUND_HALF_UP, Decimal
from functools import cmp_to_key
from functools import reduce as reduce
from sys import intern as intern
from typing import Any

import numpy as np

from dynetjax.compat.python2.files import UTF8, decoded
from dynetjax.compat.python2.files import open_file as open

NAMES = (
    *("open", "file", "print", "sorted", "cmp", "round", "reduce", "intern"),
    *("reload", "buffer"),
)
# A class that defines one of these is changed by `of_python_2`.
CLASS_NAMES = {"next", "__cmp__", "__eq__"}
file, buffer, slice = open, memoryview, builtins.slice


def print(*values: Any, **options: Any) -> None:
    """`print`, whose bytes are text; a comma after the end of a line adds nothing."""
    if options.get("end") == " " and str(decoded(values[-1])).endswith("\n"):
        options["end"] = ""
    builtins.print(*map(decoded, values), **options)


def cmp(a: Any, b: Any) -> int:
    """Below, at or above 0 where a is less than, equal to or greater than b."""
    return int(gt(a, b)) - int(lt(a, b))


def sorted(
    items: Iterable[Any],
    cmp: Callable[[Any, Any], int] | None = None,
    key: Callable[[Any], Any] | None = None,
    reverse: bool = False,
) -> list[Any]:
    """A list in order; a function may compare items, or what `key` makes of them."""
    made = list(items)
    sort(made, cmp, key, reverse)
    return made


def sort(items: Any, *arguments: Any, **options: Any) -> Any:
    """The method `sort`, which for a list takes a function that compares."""
    if not isinstance(items, list):
        return items.sort(*arguments, **options)
    options |= dict(zip(("cmp", "key", "reverse"), arguments, strict=False))
    compare, key = options.pop("cmp", None), options.pop("key", None)
    if compare is not None:
        by = cmp_to_key(compare)
        own, key = key, by if key is None else lambda item: by(own(item))
    return items.sort(key=key, **options)


def round(number: Any, digits: int = 0) -> float:
    """The nearest float of so many digits, away from 0 if there are two."""
    value = float(number)
    if not math.isfinite(value):
        return value
    unit = Decimal(1).scaleb(-digits)
    if abs(value) >= 2.0**53 and digits >= 0:
        return value
    return float(Decimal(value).quantize(unit, ROUND_HALF_UP))


def reload(module: types.ModuleType) -> types.ModuleType:
    """A module, run again, if it is not `sys`, whose reload brought back functions."""
    return module if module is sys else importlib.reload(module)


def _is_whole(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "iub"
    return isinstance(value, int | np.integer)


def divide(a: Any, b: Any) -> Any:
    """a / b, a whole number for whole numbers, or what ``__div__`` gives."""
    if _is_whole(a) and _is_whole(b):
        return a // b
    for owner, other, name in (a, b, "__div__"), (b, a, "__rdiv__"):
        method = getattr(type(owner), name, None)
        result = NotImplemented if method is None else method(owner, other)
        if result is not NotImplemented:
            return result
    return a / b


def divide_in_place(a: Any, b: Any) -> Any:
    """What a is after ``a /= b``."""
    if _is_whole(a) and _is_whole(b):
        return operator.ifloordiv(a, b)
    method = getattr(type(a), "__idiv__", None)
    if method is not None:
        return method(a, b)
    if hasattr(type(a), "__itruediv__"):
        return operator.itruediv(a, b)
    return divide(a, b)


def _with_none(compare: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """A comparison in which None is less than all else."""

    def compared(a: Any, b: Any) -> Any:
        if a is None or b is None:
            return compare(a is not None, b is not None)
        return compare(a, b)

    return compared


lt, le = _with_none(operator.lt), _with_none(operator.le)
gt, ge = _with_none(operator.gt), _with_none(operator.ge)


def encode(thing: Any, *arguments: Any, **options: Any) -> Any:
    """The method `encode`; of text, its bytes as text."""
    if not isinstance(thing, str):
        return thing.encode(*arguments, **options)
    if _is_utf8(*arguments, **options):
        return thing
    return thing.encode(*arguments, **options).decode(*UTF8)


def decode(thing: Any, *arguments: Any, **options: Any) -> Any:
    """The method `decode`; of text, what its bytes mean in this encoding."""
    if not isinstance(thing, str):
        return thing.decode(*arguments, **options)
    if _is_utf8(*arguments, **options):
        return thing
    return thing.encode(*UTF8).decode(*arguments, **options)


def _is_utf8(encoding: str = "utf-8", errors: str = "") -> bool:
    return encoding.lower().replace("_", "-") in ("utf-8", "utf8", "u8")


def next_of(thing: Any) -> Any:
    """``thing.next``, which iterators of Python 3 call ``__next__``."""
    if hasattr(thing, "next") or not hasattr(thing, "__next__"):
        return thing.next
    return thing.__next__


def package_of(package: str, name: str) -> Any:
    """The first part of a dotted name in a package, whose last part is imported."""
    importlib.import_module(f".{name}", package)
    return importlib.import_module(f".{name.partition('.')[0]}", package)


def of_python_2(kind: Any) -> Any:
    """A class with what Python 3 asks for in the place of `CLASS_NAMES`."""
    own = vars(kind)
    if "__eq__" in own and own.get("__hash__", kind) is None:
        del kind.__hash__  # Python 2 leaves that of the base
    if callable(own.get("next")) and "__next__" not in own:
        kind.__next__ = own["next"]
    if "__cmp__" in own:
        for name in ("lt", "le", "gt", "ge", "eq", "ne"):
            if f"__{name}__" not in own:
                setattr(kind, f"__{name}__", _by_cmp(getattr(operator, name)))
    return kind


def _by_cmp(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    return lambda self, other: compare(self.__cmp__(other), 0)


def old_style(kind: Any) -> Any:
    """A class without bases, whose objects have attributes in front of properties."""
    for name, value in list(vars(kind).items()):
        if isinstance(value, property):
            setattr(kind, name, _Property(value))
    return kind


class _Property:
    """A property that can be read, and hidden by an attribute."""

    def __init__(self, made: property):
        self._made = made

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        return self if owner is None else self._made.__get__(owner, kind)
