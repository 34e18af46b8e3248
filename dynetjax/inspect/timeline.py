"""What was done when: events as text, as a picture for notebooks, as a trace file."""

import json
import os
import threading
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any, NamedTuple

from dynetjax.core.errors import error_text
from dynetjax.core.reprs import time_text
from dynetjax.engine.counters import Event
from dynetjax.engine.stats import stats
from dynetjax.io.atomic import explained, replacing

NOTHING = "nothing was recorded: dy.init(profiling=2) has graphs made after it recorded"
BAR = 24  # characters
LINE = 23  # of a line of the user, so that 80 are enough for a row
LEFT, MIDDLE, RIGHT, ROW = 190, 330, 200, 22  # of the picture, in pixels
COLOURS = {  # that can be told from a light and from a dark ground
    "build": "#4c9f70",
    "plan": "#c58f2b",
    "write": "#b06ab3",
    "run forward": "#3b82c4",
    "run back": "#d1605e",
    "wait": "#8a8a8a",
    "update": "#2aa198",
    "compile": "#e0752d",
}


def timeline(graphs: int = 1) -> "Timeline":
    """What the last graphs of this thread did, by phase and tier.

    That is recorded after ``init(profiling=2)``, or under ``--dynet-profiling 2``: the
    latest 4,096 events. Printed, it is a table with a bar for each phase; in a
    notebook, a picture. ``timeline().save("step.json")`` writes a file that Perfetto
    (ui.perfetto.dev) and chrome://tracing show, and ``timeline().events`` has the
    events.

    The phases are *build*, from `renew_cg` or the last event to the first value or
    backward; *plan* and *write*, of tier 1, which lays a graph out and fills its index
    buffer; *run forward* and *run back*; *wait*, until numbers are on the host;
    *update*; and *compile*, by XLA. What is left is *elsewhere*: mostly your program.

    Args:
        graphs: how many of the last graphs.
    Raises:
        ValueError: less than one.
    Examples:
        >>> p = dy.ParameterCollection().add_parameters(3)
        >>> print(len(dy.timeline().events))
        0
        >>> dy.init(profiling=2)
        >>> graph = dy.renew_cg()
        >>> loss = dy.squared_norm(p + dy.inputVector([1, 2, 3]))
        >>> loss.backward()
        >>> dy.timeline().save("step.json")
        >>> print(dy.timeline().events[0].phase, dy.timeline().events[0].nodes, "nodes")
        build 3 nodes
        >>> dy.init(profiling=0)
        >>> dy.reset_stats()
    """
    if graphs < 1:
        raise ValueError(
            error_text(
                "timeline: no graphs, no timeline",
                got=f"graphs={graphs}",
                expected="1 or more",
                fix="leave it out: the last graph is shown",
            )
        )
    return Timeline(latest([*stats().events], graphs, threading.get_ident()))


def latest(events: list[Event], graphs: int, thread: int) -> list[Event]:
    """What was done since the first event of a thread's last graphs.

    If that thread has no events, those of the last one that has are meant.
    """
    if not events:
        return []
    of_thread = [e for e in events if e.thread == thread]
    if not of_thread:
        of_thread = [e for e in events if e.thread == events[-1].thread]
    known = list(dict.fromkeys(event.graph for event in of_thread))[-graphs:]
    start = min(event.start for event in of_thread if event.graph in known)
    return sorted([e for e in events if e.start >= start], key=lambda e: e.start)


class Row(NamedTuple):
    """Events of one phase and tier.

    Attributes:
        title: what they are.
        seconds: how long they took.
        line: of the user that took most of that, and how many events there were.
        spans: (start, end) of each, as shares of the whole.
    """

    title: str
    phase: str
    seconds: float
    line: str
    spans: list[tuple[float, float]]


class Timeline:
    """Events in the order of their starts, and what shows them."""

    def __init__(self, events: Sequence[Event]):
        self.events: list[Event] = list(events)

    @property
    def start(self) -> float:
        """When the first event began."""
        return min((e.start for e in self.events), default=0.0)

    @property
    def seconds(self) -> float:
        """From the first event's start to the end of the last."""
        return max((e.start + e.seconds for e in self.events), default=0.0) - self.start

    def rows(self) -> list[Row]:
        """A row for each phase and tier, in the order in which they first come."""
        found: dict[tuple[str, int | None], list[Event]] = {}
        for event in self.events:
            found.setdefault((event.phase, event.tier), []).append(event)
        return [self._row(*key, events) for key, events in found.items()]

    def _row(self, phase: str, tier: int | None, events: list[Event]) -> Row:
        start, whole = self.start, self.seconds or 1.0
        spans = [
            ((e.start - start) / whole, (e.start - start + e.seconds) / whole)
            for e in events
        ]
        title = phase if tier is None else f"{phase}, tier {tier}"
        return Row(title, phase, sum(e.seconds for e in events), _line(events), spans)

    def elsewhere(self) -> float:
        """Seconds in which there was no event."""
        left, until = self.seconds, self.start
        for event in self.events:
            end = event.start + event.seconds
            left -= max(0.0, end - max(until, event.start))
            until = max(until, end)
        return max(left, 0.0)

    def title(self) -> str:
        """Which graphs these are, how long they took, and how many nodes they have."""
        known = [e.graph for e in self.events]
        first, last = min(known), max(known)
        graphs = f"graph {last}" if first == last else f"graphs {first} to {last}"
        nodes = sum(e.nodes for e in self.events)
        return f"{graphs}: {time_text(self.seconds)}, {nodes} nodes"

    def __str__(self) -> str:
        if not self.events:
            return NOTHING
        lines = [self.title()]
        for row in self.rows():
            text = f"{row.title:19} {time_text(row.seconds):>9}  {_bar(row.spans)}  "
            lines.append((text + _cut(row.line)).rstrip())
        return "\n".join([*lines, f"{'elsewhere':19} {time_text(self.elsewhere()):>9}"])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """For notebooks: a picture, in the colours of the text around it."""
        if not self.events:
            return escape(NOTHING)
        rows = self.rows()
        width, height = LEFT + MIDDLE + RIGHT, ROW * (len(rows) + 2)
        parts = [_text(0, 0, self.title(), bold=True)]
        for k, row in enumerate(rows, 1):
            parts.append(_text(0, k, row.title))
            parts.append(_text(LEFT - 12, k, time_text(row.seconds), right=True))
            parts += [_rectangle(k, row, span) for span in row.spans]
            parts.append(_text(LEFT + MIDDLE + 10, k, row.line))
        rest = time_text(self.elsewhere())
        parts.append(_text(0, len(rows) + 1, "elsewhere"))
        parts.append(_text(LEFT - 12, len(rows) + 1, rest, right=True))
        inside = "\n".join(parts)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'style="width: 100%; max-width: {width}px" font-family="sans-serif" '
            f'font-size="12" fill="currentColor">\n{inside}\n</svg>'
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the events in Chrome's trace format, which Perfetto reads, too.

        Raises:
            OSError: the file cannot be written.
        """
        name = os.fspath(path)
        with explained("timeline", name), replacing(name) as file:
            file.write(json.dumps(self.trace(), indent=1).encode())

    def trace(self) -> dict[str, Any]:
        """The events in Chrome's trace format: complete ones, in microseconds."""
        start, pid = self.start, os.getpid()
        threads = list(dict.fromkeys(e.thread for e in self.events))
        name: dict[str, Any] = {"name": "process_name", "ph": "M", "pid": pid}
        return {
            "traceEvents": [
                name | {"args": {"name": "dynetjax"}},
                *[_traced(e, start, pid, threads.index(e.thread)) for e in self.events],
            ],
            "displayTimeUnit": "ms",
        }


def _traced(event: Event, start: float, pid: int, thread: int) -> dict[str, Any]:
    told = {"line": event.line, "nodes": event.nodes or "", "graph": event.graph}
    return {
        "name": event.phase,
        "cat": "program" if event.tier is None else f"tier {event.tier}",
        "ph": "X",
        "ts": round(1e6 * (event.start - start), 3),
        "dur": round(1e6 * event.seconds, 3),
        "pid": pid,
        "tid": thread,
        "args": {key: value for key, value in told.items() if value != ""},
    }


def _line(events: list[Event]) -> str:
    """The line of the user that took most time, after how often there was any."""
    by_line: dict[str, float] = {}
    for event in events:
        by_line[event.line] = by_line.get(event.line, 0.0) + event.seconds
    longest = max(by_line, key=lambda line: by_line[line])
    count = f"{len(events)} x" if len(events) > 1 else ""
    return f"{count} {longest}".strip()


def _bar(spans: Iterable[tuple[float, float]]) -> str:
    """A row of characters, of which each span has one at least."""
    bar = [" "] * BAR
    for first, last in spans:
        at = min(int(first * BAR), BAR - 1)
        end = max(at + 1, min(BAR, round(last * BAR)))
        bar[at:end] = "#" * (end - at)
    return "".join(bar)


def _cut(text: str) -> str:
    return text if len(text) <= LINE else text[: LINE - 3] + "..."


def _text(
    x: int, row: int, text: str, *, bold: bool = False, right: bool = False
) -> str:
    style = ' font-weight="bold"' if bold else ""
    style += ' text-anchor="end"' if right else ""
    return f'<text x="{x}" y="{ROW * row + 15}"{style}>{escape(text)}</text>'


def _rectangle(row: int, what: Row, span: tuple[float, float]) -> str:
    first, last = span
    x, width = LEFT + MIDDLE * first, max(1.0, MIDDLE * (last - first))
    place = f'x="{x:.1f}" y="{ROW * row + 3}" width="{width:.1f}" height="{ROW - 6}"'
    colour = COLOURS.get(what.phase, "#8a8a8a")
    told = escape(f"{what.title}: {what.line}")
    return f'<rect {place} rx="2" fill="{colour}"><title>{told}</title></rect>'
