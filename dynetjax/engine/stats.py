"""Counters: graphs, programs, XLA compilations, and where the time goes."""

import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from dynetjax.core.nodes import line_of_user
from dynetjax.graph import ComputationGraph, current_graph
from dynetjax.ops.ragged import exact_uses

MOST_CAUSES, MOST_LABELS = 1000, 1000  # that are told; others go by OTHERS
MOST_EVENTS = 4096  # that are remembered, the latest ones
OTHERS = "(others)"

_lock = threading.RLock()  # an interrupt may leave it held
_thread = threading.local()


@dataclass(slots=True)
class Work:
    """What a component, or a fused operation, did: runs, trips, rows, and time.

    Attributes:
        rows: computed for nodes; `room` counts empty lanes, too.
        seconds: of fused operations in tier 0, see `dynetjax.init`.
    """

    runs: int = 0
    trips: int = 0
    rows: int = 0
    room: int = 0
    seconds: float = 0.0


class Event(NamedTuple):
    """What was done in one stretch of time, where that is recorded.

    Attributes:
        phase: build, plan, write, run forward, run back, wait, update, or compile.
        tier: that did it; None where it is neither's.
        start, seconds: when, by `time.perf_counter`, and for how long.
        line: of the user that had it done, or that made the first node of a build;
            empty if that was not noted.
        nodes: of a build, how many were made.
        graph: version of the graph.
        thread: that did it.
    """

    phase: str
    tier: int | None
    start: float
    seconds: float
    line: str = ""
    nodes: int = 0
    graph: int = 0
    thread: int = 0


@dataclass(slots=True)
class Stats:
    """What the process has done since it started, or since `reset_stats`.

    Attributes:
        graphs: runs of the engine, forward or backward.
        interpreted: of these, how many tier 0 computed.
        no_byte_code: by fused operation, how many graphs it made tier 1's.
        programs: programs made, of any component, direction and size.
        causes: why the latest of them were made, in order.
        compilations: XLA compilations, of this process as a whole.
        loads: programs that were read from files instead, which earlier processes left.
        compile_seconds: of wall-clock time in which programs were compiled, loads and
            tracing included; what is compiled side by side counts once.
        seconds: wall-clock time by phase: plan, write, run, wait.
        work: by component, or by fused operation where these are timed; by `OTHERS`, of
            those that came when there were very many.
        pool_bytes: of the rows that one graph's values take, at most so far.
        placed: what was compiled for a device beside the host and went to it, in order.
        launches: of compiled programs, by this package.
        sent: arrays that it sent from the host to a device beside it.
        exact: uses of ragged axes by what has no rule for them, so that every length
            is compiled; see `dynetjax.ops.ragged`.
        fallbacks: what failed and was done another, slower way, by where that was: a
            fault of this package, or a damaged file.
        events: the latest ones, after ``init(profiling=2)``; see `dynetjax.timeline`.
    """

    graphs: int = 0
    interpreted: int = 0
    no_byte_code: dict[str, int] = field(default_factory=dict)
    programs: int = 0
    causes: list[str] = field(default_factory=list)
    compilations: int = 0
    loads: int = 0
    compile_seconds: float = 0.0
    seconds: dict[str, float] = field(default_factory=dict)
    work: dict[str, Work] = field(default_factory=dict)
    pool_bytes: int = 0
    placed: list[str] = field(default_factory=list)
    launches: int = 0
    sent: int = 0
    exact: dict[str, int] = field(default_factory=dict)
    fallbacks: dict[str, int] = field(default_factory=dict)
    events: deque[Event] = field(
        default_factory=lambda: deque(maxlen=MOST_EVENTS), repr=False
    )

    @property
    def waste(self) -> float:
        """The share of lanes that were computed for nothing."""
        room = sum(w.room for w in self.work.values())
        return 1 - sum(w.rows for w in self.work.values()) / room if room else 0.0

    def __str__(self) -> str:
        phases = ", ".join(f"{k} {v:.2f} s" for k, v in self.seconds.items())
        lines = [
            f"{self.graphs} graphs, {self.interpreted} of them interpreted; "
            f"{self.programs} programs, {self.compilations} XLA compilations and "
            f"{self.loads} loads in {self.compile_seconds:.1f} s; "
            f"{phases or 'nothing run'}",
            f"rows of one graph: at most {self.pool_bytes / 2**20:.1f} MB; "
            f"empty lanes: {100 * self.waste:.0f} %",
        ]
        if self.no_byte_code:
            names = [f"{name} ({n})" for name, n in self.no_byte_code.items()]
            lines.append(f"left to XLA for lack of byte code: {', '.join(names)}")
        if self.sent:
            launches = f"{self.launches} launches of programs"
            lines.append(f"{launches}, {self.sent} arrays sent to the device")
        lines += ["beside the host:"] if self.placed else []
        lines += [f"  {what}" for what in self.placed]
        if self.exact:
            uses = [f"{name} ({count})" for name, count in self.exact.items()]
            lines.append(f"ragged axes by exact dims: {', '.join(uses)}")
        if self.fallbacks:
            places = [f"{name} ({times})" for name, times in self.fallbacks.items()]
            lines.append(f"failed and done another way: {', '.join(places)}")
        lines += ["work:"] if self.work else []
        by_time = sorted(self.work.items(), key=lambda i: (-i[1].seconds, -i[1].room))
        for label, work in by_time:
            spent = f"{work.seconds:8.2f} s" if work.seconds else ""
            lines.append(
                f"  {work.runs:7} runs {work.trips:8} trips {work.rows:9} rows "
                f"of {work.room:9}{spent}  {label}"
            )
        lines += ["programs were made for:"] if self.causes else []
        return "\n".join([*lines, *[f"  {cause}" for cause in self.causes]])


_stats = Stats()


def stats() -> Stats:
    """A copy of the counters as they are now; printed, it is a readable account.

    Examples:
        >>> dy.reset_stats()
        >>> loss = dy.squared_norm(dy.inputVector([3, 4]))
        >>> print(dy.stats().graphs, loss.value(), dy.stats().graphs)
        0 25.0 1
        >>> print("XLA compilations" in str(dy.stats()))
        True
    """
    with _lock:
        return replace(
            _stats,
            causes=list(_stats.causes),
            seconds=dict(_stats.seconds),
            no_byte_code=dict(_stats.no_byte_code),
            work={label: replace(work) for label, work in _stats.work.items()},
            placed=list(_stats.placed),
            exact=dict(exact_uses),
            fallbacks=dict(_stats.fallbacks),
            events=_stats.events.copy(),
        )


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


def note_interpreted() -> None:
    """Tier 0 has run, forward or backward."""
    with _lock:
        _stats.graphs += 1
        _stats.interpreted += 1


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
