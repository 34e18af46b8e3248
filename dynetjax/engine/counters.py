"""Counters and events of a process, and how they are shown."""

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from dynetjax.core.reprs import bytes_text, counted, time_text

MOST_EVENTS = 4096  # that are remembered, the latest ones
NOT_TIMED = "measured after dy.init(profiling=2); dy.timeline() has the last graph"


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

    @property
    def text(self) -> str:
        """Columns of a line."""
        empty = f" of {self.room:9}" if self.room > self.rows else ""
        spent = f" {time_text(self.seconds):>9}" if self.seconds else ""
        return (
            f"{self.runs:7} runs {self.trips:8} trips {self.rows:9} rows{empty}{spent}"
        )


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


@dataclass(slots=True, repr=False)
class Stats:
    """What the process has done since it started, or since `reset_stats`.

    Attributes:
        graphs: of which something was computed, each once.
        interpreted: of these, how many tier 0 computed, or began with.
        runs: of the engine, forward or backward.
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
        graph_bytes: that this thread's graph takes now, in nodes and in tier 0.
        pool_bytes: of the rows that one graph's values take in tier 1, at most so far.
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
    runs: int = 0
    no_byte_code: dict[str, int] = field(default_factory=dict)
    programs: int = 0
    causes: list[str] = field(default_factory=list)
    compilations: int = 0
    loads: int = 0
    compile_seconds: float = 0.0
    seconds: dict[str, float] = field(default_factory=dict)
    work: dict[str, Work] = field(default_factory=dict)
    graph_bytes: int = 0
    pool_bytes: int = 0
    placed: list[str] = field(default_factory=list)
    launches: int = 0
    sent: int = 0
    exact: dict[str, int] = field(default_factory=dict)
    fallbacks: dict[str, int] = field(default_factory=dict)
    events: deque[Event] = field(default_factory=lambda: deque(maxlen=MOST_EVENTS))

    @property
    def waste(self) -> float:
        """The share of lanes that were computed for nothing."""
        room = sum(w.room for w in self.work.values())
        return 1 - sum(w.rows for w in self.work.values()) / room if room else 0.0

    def __str__(self) -> str:
        lines = [self._graphs(), self._time(), self._memory()]
        lines += self._of_xla()
        lines += [text for counts, text in self._to_look_at() if counts]
        lines += ["beside the host:"] if self.placed else []
        lines += [f"  {what}" for what in self.placed]
        lines += ["work:"] if self.work else []
        by_time = sorted(self.work.items(), key=lambda i: (-i[1].seconds, -i[1].room))
        lines += [f"  {work.text}  {label}" for label, work in by_time]
        lines += ["programs were made for:"] if self.causes else []
        return "\n".join([*lines, *[f"  {cause}" for cause in self.causes]])

    __repr__ = __str__

    def _graphs(self) -> str:
        graphs, runs = counted(self.graphs, "graph"), counted(self.runs, "run")
        how = {0: "none", self.graphs: "all"}.get(self.interpreted, self.interpreted)
        return f"{graphs} in {runs}, {how} interpreted" if self.graphs else "no graphs"

    def _time(self) -> str:
        if not self.seconds:
            return f"time: {NOT_TIMED}"
        phases = [f"{name} {time_text(s)}" for name, s in self.seconds.items()]
        return f"time: {', '.join(phases)}"

    def _memory(self) -> str:
        now = f"memory: {bytes_text(self.graph_bytes)} held for the current graph"
        most = f"; {bytes_text(self.pool_bytes)} of rows for XLA in one graph, at most"
        return now + most if self.pool_bytes else now

    def _of_xla(self) -> list[str]:
        lines = []
        if self.programs or self.compilations or self.loads:
            compiled = counted(self.compilations, "compilation")
            made = f"{compiled} and {counted(self.loads, 'load')}"
            spent = time_text(self.compile_seconds)
            lines.append(f"XLA: {counted(self.programs, 'program')}, {made} in {spent}")
        if self.waste:
            lines.append(f"empty lanes: {100 * self.waste:.0f} %")
        if self.sent:
            launches = f"{self.launches} launches of programs"
            lines.append(f"{launches}, {self.sent} arrays sent to the device")
        return lines

    def _to_look_at(self) -> list[tuple[dict[str, int], str]]:
        """What slows a program down, with what to do about it."""
        return [
            (
                self.no_byte_code,
                f"left to XLA for lack of byte code: {_listed(self.no_byte_code)}"
                " (graphs without these are interpreted)",
            ),
            (
                self.exact,
                f"ragged axes by exact dims: {_listed(self.exact)}"
                " (every length is compiled: pad lists to a few lengths)",
            ),
            (
                self.fallbacks,
                f"failed and done another way: {_listed(self.fallbacks)}"
                " (slower; please report it)",
            ),
        ]


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} ({count})" for name, count in counts.items())
