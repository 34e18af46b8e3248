"""Habits: what a program does next, going by what it did with the graphs before."""

SURE = 2  # times that backward followed, before it is expected
DOUBT = 16  # times more, after one that did not come


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
