"""Capacities: for how many rows the arrays of a program are made.

A program is compiled for arrays of certain sizes, and they start as zeros in every run:
too many sizes compile too much, too large ones take time. So sizes that were compiled
before are taken again unless they are much too large; where one array must grow, others
that are filling up grow with it; and what is small beside the others has room to spare.
"""

from functools import lru_cache
from typing import NamedTuple

from dynetjax.core.dims import Shape
from dynetjax.core.tables import forgets

LEAST, MOST_AT_FIRST = 256, 2048  # rows
LEAST_OF_LOOP = 512  # one sentence fills every other lane
FIRST_BYTES, LARGE_BYTES, SMALL_BYTES = 1 << 14, 1 << 21, 1 << 23
GROWTH, GROWTH_OF_LARGE = 4, 2
LEAST_BUFFER = 1 << 12
FILLING_UP = 3  # times what is needed is more than there is room for
CHEAP = 16  # an array of so small a part of all may be larger than needed

# By shape, rows of a pool; by its first op, lanes of a component.
Sizes = dict[int | Shape, int]


class Row(NamedTuple):
    """What a row of an array takes, and how many there is room for at least."""

    bytes: int
    least: int = LEAST


def first_capacity(row_bytes: int, least: int) -> int:
    """The smallest room for rows of this size: a power of two.

    The rows take `FIRST_BYTES`, but are no fewer than `least`, if they are not large,
    and no more than `MOST_AT_FIRST`.
    """
    least = max(min(least, LARGE_BYTES // row_bytes), 2)
    first = min(max(FIRST_BYTES // row_bytes, least), MOST_AT_FIRST)
    return 1 << (first.bit_length() - 1)


@lru_cache(maxsize=1 << 14)
def rounded(rows: int, row: Row) -> int:
    """Room for this many rows: the next of few sizes, nearer where it is large."""
    room = first_capacity(row.bytes, row.least)
    while room < rows:
        small = room * row.bytes < SMALL_BYTES
        room *= GROWTH if small else GROWTH_OF_LARGE
    return room


forgets(rounded.cache_clear)


def buffer_capacity(numbers: int) -> int:
    """Room for so many numbers: a power of two, or three quarters of one."""
    room = 1 << max(numbers - 1, LEAST_BUFFER - 1).bit_length()
    return room // 4 * 3 if room // 4 * 3 >= numbers else room


class Capacities:
    """The sizes that the programs of a family were made for."""

    def __init__(self) -> None:
        self._known: list[Sizes] = []
        self._answers: dict[tuple[int, ...], Sizes] = {}
        self._rows: dict[int | Shape, Row] = {}

    def settle(self, needed: Sizes, rows: dict[int | Shape, Row]) -> Sizes:
        """Sizes that fit `needed`, for every key of `rows`: known ones, or new."""
        if rows is not self._rows:
            self._rows, self._answers = rows, {}
        capacities = [rounded(needed.get(k, 1), row) for k, row in rows.items()]
        sizes = self._answers.get(tuple(capacities))
        if sizes is None or any(sizes[k] < n for k, n in needed.items()):
            fresh = dict(zip(rows, capacities, strict=True))
            sizes = self._answers[tuple(capacities)] = self._choose(needed, rows, fresh)
        return sizes

    def _choose(
        self, needed: Sizes, rows: dict[int | Shape, Row], fresh: Sizes
    ) -> Sizes:
        def cost(sizes: Sizes) -> int:
            return sum(room * rows[key].bytes for key, room in sizes.items())

        least = cost(fresh)
        limit = 2 * least + (GROWTH - 2) * min(least, SMALL_BYTES)
        known = [
            {k: sizes.get(k) or rounded(1, row) for k, row in rows.items()}
            for sizes in self._known
        ]
        grown = [_grown(sizes, needed, rows) for sizes in known]
        for candidates in known, grown:
            fitting = [
                sizes
                for sizes in candidates
                if all(sizes[k] >= n for k, n in needed.items())
                and cost(sizes) <= limit
            ]
            if fitting:
                best = min(fitting, key=cost)
                break
        else:
            most = max(fresh.values())
            best = {
                k: _spare(room, rows[k].bytes, most, least // CHEAP)
                for k, room in fresh.items()
            }
        for sizes in self._known:
            if sizes == best:  # one object, that programs and plans are known by
                return sizes
        self._known.append(best)
        return best


def _grown(sizes: Sizes, needed: Sizes, rows: dict[int | Shape, Row]) -> Sizes:
    """More room for what needs it, and for what is filling up."""
    grown = {}
    for key, room in sizes.items():
        need = needed.get(key, 1)
        if need <= room < FILLING_UP * need:
            need = room + 1
        grown[key] = max(room, rounded(need, rows[key]))
    return grown


def _spare(room: int, row_bytes: int, most: int, limit: int) -> int:
    """More rows, as long as they are no more than `most` and take few bytes."""
    while GROWTH * room <= most and GROWTH * room * row_bytes <= limit:
        room *= GROWTH
    return room
