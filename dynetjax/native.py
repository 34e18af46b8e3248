"""What the modules say that mypyc may compile; without it, nothing."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mypy_extensions import mypyc_attr
else:  # needed by the compiler alone

    def mypyc_attr(**said):
        """A decorator of a class, which stays as it is."""
        return lambda kind: kind


__all__ = ["mypyc_attr"]
