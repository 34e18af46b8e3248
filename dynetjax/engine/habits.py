"""Habits: what a program does next, going by what it did with the graphs before."""

from dataclasses import dataclass

SURE = 2  # times that backward followed, before it is expected
DOUBT = 16  # times more, after one that did not come
FIRM = 32  # graphs one after the other for which another way were better, to take it


class Habit:
    """Whether backward follows where the value of a number, as of a loss, was read."""

    __slots__ = ("_times", "_waiting")

    def __init__(self) -> None:
        self._times = 0  # that it followed
        self._waiting = False

    def read(self) -> bool:
        """A value is read; True if backward is to be expected."""
        if self._waiting:
            self._times = -DOUBT
        self._waiting = True
        return self._times >= SURE

    def followed(self) -> None:
        """Backward has come."""
        self._waiting = False
        self._times += 1


@dataclass(slots=True)
class Way:
    """Which of two ways graphs go. Each has programs of its own, so few change it."""

    taken: bool | None = None
    against: int = 0

    def after(self, better: bool) -> bool:
        """The way to go with a graph, where `better` is what is best for it alone."""
        self.against = 0 if better == self.taken else self.against + 1
        if self.taken is None or self.against >= FIRM:
            self.taken, self.against = better, 0
        return self.taken
