"""Counters: graphs, programs, XLA compilations, and where the time goes."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import jax

_COMPILE = "/jax/core/compile/backend_compile_duration"
_CACHE_HIT = "/jax/compilation_cache/cache_hits"
_lock = threading.Lock()


@dataclass(slots=True)
class Stats:
    """What the process has done since it started, or since `reset_stats`.

    Attributes:
        graphs: runs of the engine, forward or backward.
        programs: component programs made, of any direction and size.
        compilations: XLA compilations, of this process as a whole.
        loads: programs that XLA read from its persistent cache instead.
        compile_seconds: spent in compilations, loads and tracing included.
        seconds: wall-clock time by phase: plan, tape, run, wait.
    """

    graphs: int = 0
    programs: int = 0
    compilations: int = 0
    loads: int = 0
    compile_seconds: float = 0.0
    seconds: dict[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        phases = ", ".join(f"{k} {v:.2f} s" for k, v in self.seconds.items())
        return (
            f"{self.graphs} graphs, {self.programs} programs, "
            f"{self.compilations} XLA compilations and {self.loads} loads in "
            f"{self.compile_seconds:.1f} s; {phases or 'nothing run'}"
        )


_stats = Stats()


def stats() -> Stats:
    """A copy of the counters as they are now."""
    return replace(_stats, seconds=dict(_stats.seconds))


def reset_stats() -> None:
    """Set every counter to zero."""
    global _stats
    _stats = Stats()


def count(**changes: int) -> None:
    """Add to counters by name."""
    with _lock:
        for name, change in changes.items():
            setattr(_stats, name, getattr(_stats, name) + change)


@contextmanager
def phase(name: str) -> Iterator[None]:
    """Add the time spent inside to a phase."""
    start = time.perf_counter()
    try:
        yield
    finally:
        spent = time.perf_counter() - start
        _stats.seconds[name] = _stats.seconds.get(name, 0.0) + spent


def _on_duration(event: str, duration_secs: float, **_: object) -> None:
    if event.startswith("/jax/core/compile/"):
        with _lock:
            _stats.compile_seconds += duration_secs
            _stats.compilations += event == _COMPILE


def _on_event(event: str, **_: object) -> None:
    if event == _CACHE_HIT:  # its duration event counts as a compilation before
        count(loads=1, compilations=-1)


jax.monitoring.register_event_duration_secs_listener(_on_duration)
jax.monitoring.register_event_listener(_on_event)
