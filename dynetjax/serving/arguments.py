"""What the arguments of an exported function are, and examples of them."""

import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from dynetjax.core.errors import error_text

BITS = 64  # that tell one number of the examples from all others
PACKAGE = __name__.partition(".")[0]


class Ids:
    """An argument that is a list of ids: rows of a table, classes, indices.

    Args:
        below: how many ids there are; all are from 0 to below this.
        max_len: how many the list has at most.
        min_len: how many it has at least.
        like: the name of another argument, in place of `max_len`: it is as long.
    Examples:
        >>> dy.Ids(10000, max_len=40)
        Ids(10000, max_len=40, min_len=1)
    """

    def __init__(
        self,
        below: int,
        max_len: int | None = None,
        *,
        min_len: int = 1,
        like: str | None = None,
    ):
        self.below: int = _positive("Ids", "below", below)
        self.length: tuple[int, int] | str = _length("Ids", max_len, min_len, like)
        self.shape: tuple[int, ...] = ()

    def __repr__(self) -> str:
        return f"Ids({self.below}, {_shown(self.length)})"


class Id:
    """An argument that is one id: a row of a table, a class, an index.

    Args:
        below: how many ids there are; it is from 0 to below this.
    Examples:
        >>> dy.Id(5)
        Id(5)
    """

    length: None = None

    def __init__(self, below: int):
        self.below: int = _positive("Id", "below", below)
        self.shape: tuple[int, ...] = ()

    def __repr__(self) -> str:
        return f"Id({self.below})"


class Numbers:
    """An argument that is an array of float32, or one number.

    Args:
        shape: of the array; ``()`` is one number. The function gets a float, or an
            array of NumPy.
        max_len: the argument has up to so many arrays of this shape, one after the
            other: its first axis is its length.
        min_len: how many it has at least.
        like: the name of another argument, in place of `max_len`: it is as long.
    Examples:
        >>> dy.Numbers((100,), max_len=40)
        Numbers((100,), max_len=40, min_len=1)
        >>> dy.Numbers((784,))
        Numbers((784,))
    """

    below: None = None

    def __init__(
        self,
        shape: tuple[int, ...] = (),
        max_len: int | None = None,
        *,
        min_len: int = 1,
        like: str | None = None,
    ):
        self.shape: tuple[int, ...] = tuple(
            [_positive("Numbers", "shape", size) for size in shape]
        )
        self.length: tuple[int, int] | str | None = None
        if max_len is not None or like is not None:
            self.length = _length("Numbers", max_len, min_len, like)

    def __repr__(self) -> str:
        about = f", {_shown(self.length)}" if self.length else ""
        return f"Numbers({self.shape}{about})"


Argument = Ids | Id | Numbers


def _positive(name: str, argument: str, value: Any) -> int:
    if not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(
            error_text(
                f"{name}: {argument} is no size",
                got=repr(value),
                expected="an int from 1 on",
                fix=f"tell how many there are: {name}(10, ...)",
            )
        )
    return int(value)


def _length(
    name: str, max_len: int | None, min_len: int, like: str | None
) -> tuple[int, int] | str:
    """The bounds of a length, or the argument that has the same."""
    if (max_len is None) == (like is None):
        raise ValueError(
            error_text(
                f"{name}: the length has no bound, or two",
                got=f"max_len={max_len}, like={like!r}",
                expected="max_len, or the name of an argument that is as long",
                fix=f"{name}(..., max_len=40)",
            )
        )
    if like is not None:
        return like
    most = _positive(name, "max_len", max_len)
    least = _positive(name, "min_len", min_len)
    if least > most:
        raise ValueError(
            error_text(
                f"{name}: min_len is above max_len",
                got=f"min_len={least}, max_len={most}",
                expected="bounds of a length",
                fix=f"{name}(..., max_len={least})",
            )
        )
    return least, most


def _shown(length: tuple[int, int] | str) -> str:
    if isinstance(length, str):
        return f"like={length!r}"
    return f"max_len={length[1]}, min_len={length[0]}"


def count_examples(arguments: dict[str, Argument]) -> int:
    """How many examples tell every number from all others."""
    bits = [math.log2(x.below) for x in arguments.values() if x.below is not None]
    return math.ceil(BITS / min([24.0, *[b for b in bits if b]]))


def example(x: Argument, length: int | None, random: np.random.Generator) -> np.ndarray:
    """Numbers that an argument may be."""
    shape = x.shape if length is None else (length, *x.shape)
    if x.below is None:
        return random.standard_normal(shape, np.float32)
    return random.integers(x.below, size=shape, dtype=np.int32)


def given(name: str, x: Argument, array: np.ndarray) -> Any:
    """An example as the function gets it."""
    if x.below is None:
        return array if array.ndim else float(array)
    if array.ndim:
        return [_Id.named(int(n), f"{name}[{k}]") for k, n in enumerate(array)]
    return _Id.named(int(array), name)


class _Id(int):
    """An id of an example, that a program may hand to operations only.

    What else a program does with it would be decided for all ids by the example. So
    whatever compares it, counts with it or looks it up raises; this package may.
    """

    where: str

    @classmethod
    def named(cls, value: int, where: str) -> "_Id":
        made = cls(value)
        made.where = where
        return made


def _refusing(name: str) -> Callable[..., Any]:
    method = getattr(int, name)

    def refuse(self: _Id, *args: Any) -> Any:
        caller = sys._getframe(1).f_globals.get("__name__", "")
        if caller.partition(".")[0] == PACKAGE:
            return method(self, *args)
        raise TypeError(
            error_text(
                f"export: the value of {self.where} is used outside operations",
                got=f"{name} of an id",
                expected="ids that go into tables and operations as they are",
                fix="compute it before, and give the result as an argument",
            )
        )

    refuse.__name__ = name
    return refuse


_ALLOWED = {
    *("__new__", "__getattribute__", "__getnewargs__", "__sizeof__", "__doc__"),
    *("__index__", "__int__", "__float__", "__repr__", "__format__"),
}
for _name in vars(int):
    if _name.startswith("__") and _name not in _ALLOWED:
        setattr(_Id, _name, _refusing(_name))
