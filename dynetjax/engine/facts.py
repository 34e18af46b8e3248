"""Facts of some macros, or of their leaves, as arrays."""

from collections.abc import Collection
from typing import Any

import numpy as np

SPREAD = 8  # times as many numbers lie between the first and the last, at most


class Facts:
    """One for each of some numbers, such as those of macros, to be looked up by these.

    Where the numbers lie near one another, their distance from the first is a place.

    Args:
        numbers: in any order.
        fact: that holds at first.
    """

    __slots__ = ("_facts", "_first", "_numbers")

    def __init__(self, numbers: Collection[int], fact: Any):
        self._first = min(numbers, default=0)
        count = 1 + max(numbers, default=0) - self._first
        self._numbers: np.ndarray | None = None
        if count > SPREAD * len(numbers):
            self._numbers = np.array(sorted(numbers), np.int64)
            count = len(numbers)
        self._facts = np.full(count, fact)

    def _places(self, numbers: Any) -> Any:
        if self._numbers is None:
            return np.asarray(numbers, np.int64) - self._first
        return self._numbers.searchsorted(numbers)

    def __getitem__(self, numbers: Any) -> Any:
        return self._facts[self._places(numbers)]

    def __setitem__(self, numbers: Any, facts: Any) -> None:
        self._facts[self._places(numbers)] = facts
