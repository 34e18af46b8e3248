"""What JAX tells of its compilations, counted."""

import threading
import time
from collections import deque

from dynetjax.core.lazy import jax
from dynetjax.engine.stats import count, is_counting, note_event, timing
from dynetjax.engine.xla.internals import COMPILED, COMPILING, HIT
from dynetjax.engine.xla.live import live

MOST_SPANS = 64  # that are remembered; what is compiled is over soon

_lock = threading.RLock()  # an interrupt may leave it held


class Spans:
    """Spans of time, of which some are within others or overlap."""

    def __init__(self) -> None:
        self._apart: deque[tuple[float, float]] = deque(maxlen=MOST_SPANS)

    def add(self, start: float, end: float) -> float:
        """Take a span in; returns how much of it is in none of those before.

        They come in the order of their ends.
        """
        known = 0.0
        while self._apart and self._apart[-1][1] >= start:
            first, last = self._apart.pop()
            known += last - first
            start = min(start, first)
        self._apart.append((start, end))
        return end - start - known


_compiling = Spans()


def _on_duration(event: str, duration_secs: float, **_: object) -> None:
    if event == COMPILED:
        live.note()
    if event.startswith(COMPILING) and is_counting():
        with _lock:
            end = time.perf_counter()
            seconds = _compiling.add(end - duration_secs, end)
        count(compile_seconds=seconds, compilations=event == COMPILED)
        if event == COMPILED and timing():
            note_event("compile", 1, end - duration_secs, line="")


def _on_event(event: str, **_: object) -> None:
    # its duration event counts as a compilation before
    if event == HIT and is_counting():
        count(loads=1, compilations=-1)


def listen() -> None:
    """Have JAX tell of what it compiles, and of what its cache had."""
    jax.monitoring.register_event_duration_secs_listener(_on_duration)
    jax.monitoring.register_event_listener(_on_event)
