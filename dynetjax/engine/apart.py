"""Small programs on a CPU: kernels that one thread runs, one after the other.

XLA divides a kernel among threads by an estimate that counts all of a pool where a few
rows are gathered; and where more than eight kernels wait for nothing, it wakes a thread
for some of them. To wake a thread takes longer than many a kernel. So a program whose
kernels are all small is compiled without the former, and its parts are functions that
are not inlined: each is one kernel for its caller, and has few that are ready at once.
"""

from collections.abc import Callable, Iterator
from typing import Any

import jax

from dynetjax.engine.device import platform

try:
    from jax.experimental.xla_metadata import set_xla_metadata
except ImportError:  # it is younger than the oldest JAX that programs run with
    set_xla_metadata = None  # type: ignore[assignment]

FEW = 6  # kernels that are ready at once

Call = Callable[..., Any]


def can_be_told() -> bool:
    """Whether this JAX can tell XLA about functions."""
    return set_xla_metadata is not None


def can_be() -> bool:
    """Whether functions can be apart: on a CPU, with a JAX that tells XLA of them."""
    return can_be_told() and platform() == "cpu"


def apart(fn: Callable[..., Any], *args: Any) -> Any:
    """``fn(*args)`` of arrays, as a function that XLA does not inline on a CPU."""
    return not_inlined(fn, *args) if can_be() else fn(*args)


def not_inlined(fn: Callable[..., Any], *args: Any, **metadata: str) -> Any:
    """The same, in a program for a CPU, wherever others run.

    `metadata` is what else XLA is told of the function.
    """

    def inside(*args: Any) -> Any:
        with set_xla_metadata(inlineable="true"):  # for the functions that it calls
            return fn(*args)

    with set_xla_metadata(inlineable="false", **metadata):
        return jax.jit(inside)(*args)


def together(fn: Callable[..., Any], *args: Any) -> Any:
    """``fn(*args)``, inlined."""
    return fn(*args)


def caller(small: bool) -> Call:
    """How the parts of a program are called, if its kernels are all small, or not."""
    return apart if small else together


def few_at_once(several: list[Any]) -> Iterator[list[Any]]:
    """The members of a list, as few at once as one function is to have kernels for."""
    return (several[k : k + FEW] for k in range(0, len(several), FEW))
