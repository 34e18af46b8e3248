"""What a part of a graph, computed in one go, can be asked for."""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from dynetjax.core.expression import Expression

Rows = Callable[[int], np.ndarray]  # of a stored node, by its number
# What a part is; what each of its components is, and its nodes.
Summary = tuple[str, list[tuple[str, list[Expression]]]]


class Part(Protocol):
    """Stored nodes that one tier computed.

    Attributes:
        start, stop: number of its first node, and one more than that of its last.
    """

    start: int
    stop: int

    def rows(self, number: int, batch: int) -> np.ndarray:
        """The values of a node that was computed here, ``[batch, *shape]``."""

    def at_hand(self, node: Expression) -> np.ndarray | None:
        """The same, where there is nothing to wait for; None if there may be."""

    def executor(self) -> Any:
        """What writes rows where they are wanted without a copy, if anything does."""

    def summary(self) -> Summary:
        """What it is, and its components."""
