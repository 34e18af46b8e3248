"""Programs: code at sizes, which is what XLA compiles."""

import math
from dataclasses import dataclass
from functools import cached_property

from dynetjax.core.tables import remembers
from dynetjax.engine.plan.capacities import buffer_capacity
from dynetjax.engine.plan.code import Code, Component


@dataclass(frozen=True, eq=False)
class Program:
    """What compiled functions depend on. Equal programs are one object.

    Its index buffer has a part for each component: the number of trips and the first
    row of each op, then the columns, each with one number per lane of all trips. Its
    last number is the row that a backward begins with.

    Attributes:
        widths: lanes in a trip of each component.
        lanes: of each component, how many there may be over all trips.
        rows: how many there may be in each pool; row 0 is zeros.
    """

    code: Code
    widths: tuple[int, ...]
    lanes: tuple[int, ...]
    rows: tuple[int, ...]

    @cached_property
    def starts(self) -> list[int]:
        """Where each component's part of the index buffer begins, and where all end."""
        starts = [0]
        for k, body in enumerate(self.code.components):
            size = 1 + len(body) + self.code.columns[k] * self.lanes[k]
            starts.append(starts[-1] + size)
        return starts

    @cached_property
    def size(self) -> int:
        """Numbers in an index buffer."""
        return buffer_capacity(self.starts[-1] + 1)

    def address(self, component: int, column: int) -> int:
        """Where a column of a component begins in an index buffer."""
        head = 1 + len(self.code.components[component])
        return self.starts[component] + head + column * self.lanes[component]

    @cached_property
    def pool_bytes(self) -> int:
        """What the pools take."""
        shapes = zip(self.rows, self.code.pools, strict=True)
        return 4 * sum(rows * math.prod(shape) for rows, shape in shapes)


@remembers
def program(
    code: Code, widths: tuple[int, ...], lanes: tuple[int, ...], rows: tuple[int, ...]
) -> Program:
    """The program with these parts."""
    return Program(code, widths, lanes, rows)


def written(component: Component) -> list[int]:
    """The pools that a component's ops write."""
    return sorted({op.pool for op in component})
