"""What a tier has computed of a graph, forward or back, as others see it."""

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np

from dynetjax.core.expression import Expression
from dynetjax.core.registry import Kind

Rows = Callable[[int], np.ndarray]  # of a stored node, by its number
# What gradients of weights come to for parameters alone, both by kind id.
PullBack = Callable[[dict[int, list[Any]]], dict[int, list[Any]]]
# What a part is; what each of its components is, and the numbers of its nodes.
Summary = tuple[str, list[tuple[str, list[int]]]]


class Part(Protocol):
    """Stored nodes that one tier computed.

    Attributes:
        start, stop: number of its first node, and one more than that of its last.
    """

    start: int

    @property
    def stop(self) -> int: ...

    def rows(self, number: int, batch: int) -> np.ndarray:
        """The values of a node that was computed here, ``[batch, *shape]``."""

    def executor(self) -> Any:
        """What writes rows where they are wanted without a copy, if anything does."""

    def cut(self, stop: int) -> bool:
        """Keep the nodes before this one, if there are some; whether that can be."""

    def summary(self) -> Summary:
        """What this part is, in words, and its components with their nodes."""


class HostValues(Protocol):
    """The values of a graph's weights on the host."""

    def weight(self, number: int) -> np.ndarray:
        """The array of a weight, by the id of its kind."""

    def pull_back(self, gradients: dict[int, list[Any]]) -> dict[int, list[Any]]:
        """Carry gradients of weights back to parameters; all of them, by kind id."""


class Interpreter(Protocol):
    """What tier 0 computes of one graph.

    Attributes:
        weights: where it gets them.
        graph: the executor's.
        lacks: a fused operation that it met and that has no program; -1 if none.
        count: how many stored nodes it knows.
    """

    weights: HostValues
    graph: Any
    lacks: int

    @property
    def count(self) -> int: ...

    def compute(self, stored: Any, start: int, older: Rows | None) -> bool:
        """Compute the stored nodes from `start` on; False if some have no byte code."""


class BackwardPass(Protocol):
    """The gradients of one node of one number.

    Attributes:
        node: where it begins.
        full: whether gradients went to constants, too.
        reached: the parameters that nodes up to it read, but for constant ones.
        weight_gradients: of parameters and what is computed of them, by kind id.
    """

    node: Expression
    full: bool
    reached: frozenset[Kind]
    weight_gradients: dict[int, list[Any]]

    def pulled_back(self, gradients: dict[int, list[Any]], /) -> dict[int, list[Any]]:
        """What gradients of weights come to for parameters alone."""

    def touched(self) -> Iterator[tuple[int, np.ndarray, Any]]:
        """Of every lookup up to the node: kind id of the table, row ids, gradients."""

    def has(self, node: Expression) -> bool:
        """Whether it knows the gradient of a node; if not, the next one will."""

    def rows(self, node: Expression) -> np.ndarray:
        """The gradient of a node, ``[batch, *shape]``."""
