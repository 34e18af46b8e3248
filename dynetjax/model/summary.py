"""A collection as a tree: names, dims, and how many numbers."""

import math
from collections.abc import Iterable
from html import escape
from typing import NamedTuple

from dynetjax.core.dims import Dim, Shape
from dynetjax.core.reprs import counted

MOST = 30  # lines; what is more is told as a whole


class Member(NamedTuple):
    """A parameter or table.

    Attributes:
        name: its full name.
        shape: of a table with the rows first.
    """

    name: str
    shape: Shape
    is_table: bool

    @property
    def dims(self) -> str:
        """``{3,4}``, or ``50 x {4}`` of a table."""
        if not self.is_table:
            return str(Dim(self.shape))
        return f"{self.shape[0]} x {Dim(self.shape[1:])}"


class Line(NamedTuple):
    """A parameter, a table, or a sub-collection, which has no dims."""

    depth: int
    name: str
    dims: str
    numbers: int


class Summary:
    """What a collection has, in lines of no more than a screen.

    Sub-collections are opened, the outer ones first, as long as all lines fit.

    Args:
        name: of the collection, ``/encoder/``.
        members: of it and its sub-collections.
    """

    def __init__(self, name: str, members: Iterable[Member]):
        self.members: list[Member] = [
            m._replace(name=m.name.removeprefix(name)) for m in members
        ]
        count = counted(_count(self.members), "number")
        self.head: str = f"ParameterCollection {name}: {count}"

    def lines(self) -> list[Line]:
        """A line for each member, or sub-collection as a whole."""
        deepest = max([m.name.count("/") for m in self.members], default=0)
        lines = _opened(self.members, deepest, 0)
        while len(lines) > MOST and deepest:
            deepest -= 1
            lines = _opened(self.members, deepest, 0)
        if len(lines) > MOST:
            rest = lines[MOST - 1 :]
            more = Line(0, f"{len(rest)} more", "", sum(x.numbers for x in rest))
            lines = [*lines[: MOST - 1], more]
        return lines

    def __str__(self) -> str:
        rows = [
            ("  " * x.depth + x.name, x.dims, f"{x.numbers:,}") for x in self.lines()
        ]
        name, dims, count = (
            max([len(row[k]) for row in rows], default=0) for k in range(3)
        )
        lines = [f"  {a:{name}}  {b:{dims}}  {c:>{count}}" for a, b, c in rows]
        return "\n".join([self.head, *lines])

    def html(self) -> str:
        """The same as a table."""
        rows = [
            f'<tr><td style="text-align: left; padding-left: {x.depth + 0.5}em">'
            f"{escape(x.name)}</td><td>{escape(x.dims)}</td><td>{x.numbers:,}</td></tr>"
            for x in self.lines()
        ]
        head = "<tr><th>name</th><th>dims</th><th>numbers</th></tr>"
        caption = f"<caption>{escape(self.head)}</caption>"
        return "\n".join([f"<table>{caption}{head}", *rows, "</table>"])


def _count(members: Iterable[Member]) -> int:
    return sum(math.prod(m.shape) for m in members)


def _opened(members: list[Member], deepest: int, depth: int) -> list[Line]:
    """Lines of members by what their names have up to the first slash.

    Args:
        deepest: what is below so many slashes is told as a whole.
        depth: of these lines.
    """
    groups: dict[str, list[Member]] = {}
    for m in members:
        first, slash, _ = m.name.partition("/")
        groups.setdefault(first + slash, []).append(m)
    lines = []
    for name, group in sorted(groups.items(), key=lambda item: item[0].endswith("/")):
        if not name.endswith("/"):
            lines += [Line(depth, name, m.dims, math.prod(m.shape)) for m in group]
            continue
        lines.append(Line(depth, name, "", _count(group)))
        if deepest:
            inside = [m._replace(name=m.name.removeprefix(name)) for m in group]
            lines += _opened(inside, deepest - 1, depth + 1)
    return lines
