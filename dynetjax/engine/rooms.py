"""Room: for how many rows the arrays of a program are made.

A program is compiled for arrays of certain sizes, and they start as zeros in every run:
too many sizes compile too much, too large ones take time. So sizes that were compiled
before are taken again unless they are much too large; where one array must grow, others
that are filling up grow with it; and what is small beside the others has room to spare.
"""

from functools import lru_cache

LEAST, MOST_AT_FIRST = 64, 1024  # rows
FIRST_BYTES, LARGE_BYTES, SMALL_BYTES = 1 << 14, 1 << 21, 1 << 23
GROWTH, GROWTH_OF_LARGE = 4, 2
FILLING_UP = 3  # times what is needed is more than there is room for
CHEAP = 16  # an array of so small a part of all may be larger than needed

Sizes = dict[int, int]


def first_room(
    row_bytes: int,
    in_all: int = FIRST_BYTES,
    least: int = LEAST,
    most: int = MOST_AT_FIRST,
) -> int:
    """The smallest room for rows of this size: a power of two.

    The rows take `in_all` bytes, but are no fewer than `least` and no more than `most`;
    fewer if they are large.
    """
    least = max(min(least, LARGE_BYTES // row_bytes), 2)
    first = min(max(in_all // row_bytes, least), most)
    return 1 << (first.bit_length() - 1)


@lru_cache(maxsize=1 << 14)
def rounded(rows: int, row_bytes: int) -> int:
    """Room for this many rows: the next of few sizes, nearer where it is large."""
    room = first_room(row_bytes)
    while room < rows:
        small = room * row_bytes < SMALL_BYTES
        room *= GROWTH if small else GROWTH_OF_LARGE
    return room


class Rooms:
    """The sizes that the programs of a scope were made for."""

    def __init__(self) -> None:
        self._known: list[Sizes] = []
        self._answers: dict[tuple[int, ...], Sizes] = {}
        self._row_bytes: Sizes = {}

    def settle(self, needed: Sizes, row_bytes: Sizes) -> Sizes:
        """Sizes that fit `needed`, for every key of `row_bytes`: known ones, or new."""
        if row_bytes is not self._row_bytes:
            self._row_bytes, self._answers = row_bytes, {}
        rooms = [rounded(needed.get(k, 1), each) for k, each in row_bytes.items()]
        found = self._answers.get(tuple(rooms))
        if found is None or any(found[k] < n for k, n in needed.items()):
            fresh = dict(zip(row_bytes, rooms, strict=True))
            found = self._answers[tuple(rooms)] = self._choose(needed, row_bytes, fresh)
        return found

    def _choose(self, needed: Sizes, row_bytes: Sizes, fresh: Sizes) -> Sizes:
        def cost(sizes: Sizes) -> int:
            return sum(rows * row_bytes[key] for key, rows in sizes.items())

        least = cost(fresh)
        limit = 2 * least + (GROWTH - 2) * min(least, SMALL_BYTES)
        known = [
            {k: sizes.get(k, first_room(each)) for k, each in row_bytes.items()}
            for sizes in self._known
        ]
        grown = [_grown(sizes, needed, row_bytes) for sizes in known]
        for some in known, grown:
            fitting = [
                sizes
                for sizes in some
                if all(sizes[k] >= n for k, n in needed.items())
                and cost(sizes) <= limit
            ]
            if fitting:
                best = min(fitting, key=cost)
                break
        else:
            most = max(fresh.values())
            best = {
                k: _spare(rows, row_bytes[k], most, least // CHEAP)
                for k, rows in fresh.items()
            }
        if best not in known:
            self._known.append(best)
        return best


def _grown(sizes: Sizes, needed: Sizes, row_bytes: Sizes) -> Sizes:
    """More room for what needs it, and for what is filling up."""
    found = {}
    for key, rows in sizes.items():
        need = needed.get(key, 1)
        if need <= rows < FILLING_UP * need:
            need = rows + 1
        found[key] = max(rows, rounded(need, row_bytes[key]))
    return found


def _spare(rows: int, row_bytes: int, most: int, limit: int) -> int:
    """More rows, as long as they are no more than `most` and take few bytes."""
    while GROWTH * rows <= most and GROWTH * rows * row_bytes <= limit:
        rows *= GROWTH
    return rows
