"""Facts of some macros, or of their leaves, as arrays."""

from collections.abc import Iterable
from typing import Any

import numpy as np


class Facts:
    """One for each of some numbers, such as those of macros, to be looked up by these.

    Args:
        numbers: in any order.
        fact: that holds at first.
    """

    __slots__ = ("_facts", "_numbers")

    def __init__(self, numbers: Iterable[int], fact: Any):
        self._numbers = np.array(sorted(numbers), np.int64)
        self._facts = np.full(len(self._numbers), fact)

    def __getitem__(self, numbers: Any) -> Any:
        return self._facts[self._numbers.searchsorted(numbers)]

    def __setitem__(self, numbers: Any, facts: Any) -> None:
        self._facts[self._numbers.searchsorted(numbers)] = facts
