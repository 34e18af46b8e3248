"""The processes that train together, and which of them this one is.

A `Group` carries gradients between them; `dynetjax.parallel` makes it. A process by
itself has none.
"""

from typing import Any, Final, NamedTuple, Protocol

import numpy as np


class Message(NamedTuple):
    """What one process tells all others.

    Attributes:
        words: int32, ``[n]``.
        numbers: float32, ``[m]``.
    """

    words: np.ndarray
    numbers: np.ndarray


class Collectives(Protocol):
    """Sums and gathers arrays of all processes where they lie, on devices."""

    def meet(
        self, summed: list[Any], gathered: list[Any], scale: float = 1.0
    ) -> tuple[list[Any], list[Any]]:
        """See `dynetjax.parallel.collectives`."""


class Group(Protocol):
    """Processes that meet, each by its rank, at every exchange.

    Attributes:
        rank: of this process, from 0.
        size: how many there are.
        collectives: None where no process has a device beside the host for itself.
    """

    rank: int
    size: int
    collectives: Collectives | None

    def exchange(
        self, message: Message, dense: list[np.ndarray], scale: float = 1.0
    ) -> tuple[list[Message], list[np.ndarray]]:
        """Meet the others.

        Args:
            message: for them.
            dense: float32 arrays, of the same sizes in every process.
            scale: factor on all numbers.
        Returns:
            the messages by rank; and arrays, the same in each process, whose sum is
            that of `dense` over the processes, end to end. All are to be read before
            the next exchange. There are no arrays where processes differ in the size.
        Raises:
            RuntimeError: another process has ended, and will not come.
        """

    def file_written(self, path: str) -> None:
        """The first process has written a file; the others wait until it has."""


class Process:
    """This process among others.

    Attributes:
        group: it and the others; None if it is by itself.
        meets: whether they make every update together.
        averages: whether updates go by the mean of gradients, and not by their sum.
        seed: what random numbers begin with in all of them; 0 if that is not given.
        writes_files: whether what it saves is written: the first process does it for
            all.
    """

    def __init__(self) -> None:
        self.group: Group | None = None
        self.meets = self.averages = True
        self.seed = 0
        self.writes_files: bool = True

    @property
    def rank(self) -> int:
        """Its number among the processes, from 0."""
        return 0 if self.group is None else self.group.rank

    @property
    def size(self) -> int:
        """How many processes there are."""
        return 1 if self.group is None else self.group.size

    def join(self, group: Any) -> None:
        """Be one of a group from now on."""
        self.group, self.writes_files = group, group.rank == 0

    def leave(self) -> None:
        """Be by itself again."""
        self.__init__()  # type: ignore[misc]


PROCESS: Final = Process()
