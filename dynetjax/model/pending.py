"""What must be checked before a model goes to a file, or comes from one.

An update that a trainer has sent may turn out to be refused. Trainers lie above models:
the facade hands in what asks them.
"""

from collections.abc import Callable

_checks: list[Callable[[], None]] = []


def check_before_files(check: Callable[[], None]) -> None:
    """Let `check` be called, and raise, before a model is saved or loaded."""
    _checks.append(check)


def raise_pending() -> None:
    """Call what was handed in."""
    for check in _checks:
        check()
