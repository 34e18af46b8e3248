"""Programs against what DyNet has recorded of them."""

import os
from collections.abc import Callable
from typing import Any

import dynetjax
from dynetjax.core.errors import error_text
from dynetjax.testing.recording import MOST, differences


class _Release21:
    """The package, with the names of release 2.1."""

    LSTMBuilder = dynetjax.VanillaLSTMBuilder

    def __getattr__(self, name: str) -> Any:
        return getattr(dynetjax, name)


def assert_matches_dynet(
    program: Callable[..., dict[str, Any]],
    recording: str | os.PathLike[str],
    *,
    rtol: float = 1e-4,
    atol: float = 1e-5,
) -> None:
    """Run a program, and compare values and gradients with a recording.

    Args:
        program: ``program(dy, P, L, A)`` returns expressions by name; see
            `dynetjax.testing.recording`, whose `record` makes the file under DyNet.
            ``dy.LSTMBuilder`` is that of release 2.1, `VanillaLSTMBuilder`.
        recording: the file.
        rtol, atol: how much values may differ: ``atol + rtol * abs(recorded)``.
    Raises:
        AssertionError: something differs.
        ValueError: the file is no recording.
    """
    told = differences(_Release21(), program, recording, rtol, atol)
    if told:
        raise AssertionError(
            error_text(
                f"{getattr(program, '__name__', program)} differs from DyNet",
                got="; ".join(told[:MOST]),
                expected=f"what is in {os.fspath(recording)}",
                fix="compare the first output that differs, operation by operation",
            )
        )
