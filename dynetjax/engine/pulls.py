"""Pulls: how gradients come back to the rows that were read, without being scattered.

In backward, every component leaves the gradients of what it read in arrays of its own,
lane by lane; whoever computed a row gathers what was left for it. The tape says where
that is: each *pull* has a number for every row of a pool, 0 where nothing was left.
Leaves that never read the same row have one pull together.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from dynetjax.dims import Shape
from dynetjax.engine.body import Read, Wiring
from dynetjax.engine.macros import MACROS
from dynetjax.engine.places import Places
from dynetjax.engine.program import Program
from dynetjax.engine.structure import Scope
from dynetjax.ops.registry import MAP, REDUCE


class Left(NamedTuple):
    """What a component leaves of one pool.

    Attributes:
        pool: the body's number of it.
        blocks: of the array, which has `lanes` rows for each and row 0 for nothing: the
            columns of the tape with the rows that were read. Where these are several,
            they have the same gradients.
        starts: where its pulls begin on the tape.
    """

    pool: int
    blocks: tuple[tuple[int, ...], ...]
    starts: tuple[int, ...]

    def shape(self, row: Shape, lanes: int) -> Shape:
        """The shape of the array, of rows of shape `row`."""
        return 1 + len(self.blocks) * lanes, *row


def leave(
    scope: Scope, wires: Wiring, program: Program, size: int, places: Places
) -> tuple[tuple[Left, ...], int]:
    """What a component leaves, on a tape of this size; and its size with the pulls."""
    lanes, capacities = program.lanes, program.capacities
    starts: dict[int, int] = {}
    found: dict[int, tuple[list[tuple[int, ...]], list[int]]] = {}
    for slot, alike, reads in _leaves(wires):
        number = int(scope.pull_of[slot])
        if number < 0:
            continue
        pool = reads[0].pool
        blocks, mine = found.setdefault(pool, ([], []))
        if number not in starts:
            starts[number] = size
            mine.append(size)
            size += capacities[pool]
        places.pull[slot] = starts[number]
        places.left[slot] = 1 + len(blocks) * lanes
        places.beside[slot] = lanes if len(reads) > 1 and not alike else 0
        columns = tuple(read.column for read in reads if read.column is not None)
        blocks += [columns] if alike else [(column,) for column in columns]
    several = found.items()
    return tuple(Left(p, tuple(b), tuple(mine)) for p, (b, mine) in several), size


def _leaves(wires: Wiring) -> Iterator[tuple[int, bool, Sequence[Read]]]:
    """The leaves with rows that gradients go back to.

    Of each its slot, and what it reads; and whether all of that has the same gradient.
    """
    for macro, cell in zip(wires.macros, wires.body.cells, strict=True):
        kind = MACROS[macro]
        if kind.form == MAP:
            for k, read in enumerate(cell.reads):
                if read.differentiable and read.column is not None:
                    yield kind.slot + k, False, [read]
        elif cell.reads and cell.reads[0].differentiable:
            yield kind.slot, kind.form == REDUCE, cell.reads
