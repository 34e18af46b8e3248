"""The executor in C++; there is none where nothing was compiled."""

from collections.abc import Callable
from typing import Any

OPCODES: dict[str, int]  # by name
MEANINGS: dict[str, str]  # what each computes, by name
LEVEL: str  # of the processor's instructions

class Program:
    """A fused operation as byte code; see `program.h`."""

    def __init__(self, *about: Any) -> None: ...

class Graph:
    """What one graph has computed; `tables` is asked for what comes from Python."""

    def __init__(
        self, tables: Any, programs: Any = None, timed: bool = False
    ) -> None: ...
    def extend(self, cells: list[Any], start: int) -> int: ...
    def rows(self, number: int) -> bytes: ...
    def number(self, number: int) -> float: ...
    def array(self, number: int, to: Any) -> None: ...
    def gradient(self, number: int) -> bytes | None: ...
    def components(self) -> list[tuple[int, list[int]]]: ...
    def times(self) -> list[tuple[int, int, int, float]]: ...
    def cut(self, count: int) -> None: ...
    def backward(
        self,
        root: int,
        index: int,
        full: bool,
        new: Callable[[int], Any],
        seed: Any = None,
    ) -> tuple[list[int], list[tuple[int, bytes, bytes]]]: ...

class Rule:
    """A trainer's rule; see `update.cpp`."""

    def __init__(self, *about: Any) -> None: ...

def update(*about: Any) -> float:
    """Change parameters, tables and the state of a rule; the norm of the gradients."""
