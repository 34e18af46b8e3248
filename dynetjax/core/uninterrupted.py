"""Work that Ctrl-C must not cut in two.

A program that is given buffers to work in place leaves nothing behind if its results
are not stored. So an interrupt waits until they are.
"""

from signal import SIGINT
from types import FrameType
from typing import Any

try:  # without the enums that `signal` makes of handlers, which take ten times as long
    import _signal as signal
except ImportError:
    import signal


class Uninterrupted:
    """A context in which Ctrl-C is put off to the end, in the main thread."""

    __slots__ = ("_handler", "_noted")

    def __enter__(self) -> None:
        self._noted: list[tuple[int, FrameType | None]] = []
        self._handler: Any = None
        handler = signal.getsignal(SIGINT)
        if callable(handler):
            try:
                signal.signal(SIGINT, self._note)
            except ValueError:  # another thread, which no signal comes to
                return
            self._handler = handler

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._noted.append((number, frame))

    def __exit__(self, *_: object) -> None:
        if self._handler is None:
            return
        signal.signal(SIGINT, self._handler)
        if self._noted:
            self._handler(*self._noted[-1])
