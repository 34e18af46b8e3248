"""Room: for how many rows the arrays of a program are made.

A program is compiled for arrays of certain sizes, and they start as zeros in every run:
too many sizes compile too much, too large ones take time. So sizes grow by a factor,
all arrays of a program are sized together, and sizes that were compiled before are
taken again unless they are much too large.
"""

LEAST, MOST_AT_FIRST = 64, 1024  # rows
FIRST_BYTES, SMALL_BYTES = 1 << 14, 1 << 20
GROWTH, GROWTH_OF_LARGE = 4, 2

Sizes = dict[int, int]


def rounded(rows: int, row_bytes: int) -> int:
    """Room for this many rows: the next of few sizes, nearer where it is large."""
    first = min(max(FIRST_BYTES // row_bytes, LEAST), MOST_AT_FIRST)
    room = 1 << (first.bit_length() - 1)
    while room < rows:
        small = room * row_bytes < SMALL_BYTES
        room *= GROWTH if small else GROWTH_OF_LARGE
    return room


class Rooms:
    """The sizes that the programs of a scope were made for."""

    def __init__(self) -> None:
        self._known: list[Sizes] = []

    def settle(self, needed: Sizes, row_bytes: Sizes) -> Sizes:
        """Sizes that fit `needed`, for every key of `row_bytes`: known ones, or new."""

        def cost(sizes: Sizes) -> int:
            return sum(rows * row_bytes[key] for key, rows in sizes.items())

        fresh = {k: rounded(needed.get(k, 1), each) for k, each in row_bytes.items()}
        least = cost(fresh)
        limit = 2 * least + (GROWTH - 2) * min(least, SMALL_BYTES)
        for known in sorted(self._known, key=cost):
            if all(known[k] >= n for k, n in needed.items()) and cost(known) <= limit:
                return known
        for known in self._known:  # sizes that fit less in no way keep the list short
            if cost(known) <= least:
                fresh = {k: max(n, known[k]) for k, n in fresh.items()}
        self._known.append(fresh)
        return fresh
