"""Counters: graphs, programs, XLA compilations, and where the time goes."""

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from dynetjax.core.nodes import line_of_user
from dynetjax.engine.counters import Event, Stats, Work
from dynetjax.graph import ComputationGraph, current_graph
from dynetjax.ops.ragged import exact_uses

MOST_CAUSES, MOST_LABELS = 1000, 1000  # that are told; others go by OTHERS
OTHERS = "(others)"

_lock = threading.RLock()  # an interrupt may leave it held
_thread = threading.local()


_stats = Stats()


def stats() -> Stats:
    """A copy of the counters as they are now, which shows as a readable account.

    Examples:
        >>> dy.reset_stats()
        >>> loss = dy.squared_norm(dy.inputVector([3, 4]))
        >>> print(dy.stats().graphs, loss.value(), dy.stats().graphs)
        0 25.0 1
        >>> print(str(dy.stats()).splitlines()[0])
        1 graph in 1 run, all interpreted
    """
    with _lock:
        return replace(
            _stats,
            graph_bytes=_memory(current_graph()),
            causes=list(_stats.causes),
            seconds=dict(_stats.seconds),
            no_byte_code=dict(_stats.no_byte_code),
            work={label: replace(work) for label, work in _stats.work.items()},
            placed=list(_stats.placed),
            exact=dict(exact_uses),
            fallbacks=dict(_stats.fallbacks),
            events=_stats.events.copy(),
        )


def _memory(graph: ComputationGraph) -> int:
    """Bytes of a graph's nodes, and of what tier 0 has computed of it."""
    state = graph.state
    return graph.room + (0 if state is None else state.memory())


def reset_stats() -> None:
    """Set every counter to zero.

    Examples:
        >>> value = dy.tanh(dy.scalarInput(1)).value()
        >>> print(dy.stats().graphs > 0)
        True
        >>> dy.reset_stats()
        >>> print(dy.stats().graphs, dy.stats().work)
        0 {}
    """
    global _stats
    _stats = Stats()
    exact_uses.clear()


def count(**changes: float) -> None:
    """Add to counters by name."""
    with _lock:
        for name, change in changes.items():
            setattr(_stats, name, getattr(_stats, name) + change)


def note_run(graph: ComputationGraph, interpreted: bool = True) -> None:
    """A graph is computed, forward or backward, by tier 0 or else by tier 1."""
    with _lock:
        _stats.runs += 1
        if graph.counted_by is not _stats:
            graph.counted_by = _stats
            _stats.graphs += 1
            _stats.interpreted += interpreted


def note_no_byte_code(name: str) -> None:
    """Note that a fused operation made a graph tier 1's."""
    with _lock:
        known = _stats.no_byte_code
        if len(known) >= MOST_LABELS:
            name = name if name in known else OTHERS
        known[name] = known.get(name, 0) + 1


class falling_back:  # a context manager
    """A context in which what fails is counted, and left to a slower way.

    Attributes:
        raises: errors are raised instead, for tests.
    """

    __slots__ = ("_where",)
    raises = False

    def __init__(self, where: str):
        self._where = where

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> bool:
        if not isinstance(error, Exception):
            return False
        with _lock:
            known = _stats.fallbacks.get(self._where, 0)
            _stats.fallbacks[self._where] = known + 1
        return not falling_back.raises


def note_program(cause: str) -> None:
    """A program is made, and why."""
    with _lock:
        _stats.programs += 1
        _stats.causes.append(cause)
        del _stats.causes[:-MOST_CAUSES]


def note_launch() -> None:
    """A compiled program was started."""
    _stats.launches += 1


def note_sent(arrays: int) -> None:
    """So many arrays were sent to a device beside the host."""
    _stats.sent += arrays


def note_placed(what: str) -> None:
    """A program is compiled for the device beside the host, or goes to it."""
    with _lock:
        _stats.placed.append(f"graph {_stats.graphs}: {what}")
        del _stats.placed[:-MOST_CAUSES]


# Label, trips, rows, lanes, and seconds where they were measured.
Done = tuple[str, int, int, int, float]


def note_work(done: Iterable[Done]) -> None:
    """Components, or fused operations, ran."""
    known = _stats.work
    for label, trips, rows, room, seconds in done:
        work = known.get(label)
        if work is None:
            work = _work_of(label)
        work.runs += 1
        work.trips += trips
        work.rows += rows
        work.room += room
        work.seconds += seconds


def _work_of(label: str) -> Work:
    known = _stats.work
    if len(known) >= MOST_LABELS and label not in known:
        label = OTHERS
    return known.setdefault(label, Work())


_timing = False


def time_operations(on: bool) -> None:
    """Have tier 0 measure how long each fused operation takes, and events recorded."""
    global _timing
    _timing, _thread.mark = on, None


def timing() -> bool:
    """Whether tier 0 measures how long each fused operation takes."""
    return _timing


def note_renewal() -> None:
    """This thread begins to build a graph."""
    _thread.mark, _thread.built = time.perf_counter(), 0


def note_build(graph: ComputationGraph) -> None:
    """A graph is about to be computed: its new nodes were made since the last event."""
    start, built = getattr(_thread, "mark", None), getattr(_thread, "built", 0)
    _thread.built = count = len(graph)
    if start is not None and count > built:
        line = (graph.lines or {}).get(built, "")
        note_event("build", None, start, line=line, nodes=count - built)


def note_event(
    phase: str,
    tier: int | None,
    start: float,
    *,
    line: str | None = None,
    nodes: int = 0,
) -> None:
    """Something was done from `start` until now, for the user's line unless given."""
    end = _thread.mark = time.perf_counter()
    where = line_of_user() if line is None else line
    version, thread = current_graph().version, threading.get_ident()
    event = Event(phase, tier, start, end - start, where, nodes, version, thread)
    with _lock:
        _stats.events.append(event)


def note_pools(size: int) -> None:
    """The rows of a graph take this many bytes."""
    _stats.pool_bytes = max(_stats.pool_bytes, size)


class phase:  # a context manager
    """Add the time spent inside to a phase.

    Args:
        name: the phase.
        tier: that is at work.
        way: forward or back, which events tell apart.
    """

    __slots__ = ("name", "start", "tier", "way")

    def __init__(self, name: str, tier: int | None = None, way: str = ""):
        self.name: str = name
        self.tier: int | None = tier
        self.way: str = way

    def __enter__(self) -> None:
        self.start: float = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        seconds = _stats.seconds
        spent = time.perf_counter() - self.start
        seconds[self.name] = seconds.get(self.name, 0.0) + spent
        if _timing:
            note_event(self.name + self.way, self.tier, self.start)


@contextmanager
def uncounted() -> Iterator[None]:
    """What this thread compiles meanwhile is none of the user's, and is not counted."""
    _thread.counts = False
    try:
        yield
    finally:
        _thread.counts = True


def is_counting() -> bool:
    """Whether what this thread compiles is counted."""
    return getattr(_thread, "counts", True)
