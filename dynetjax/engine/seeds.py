"""Where a backward begins."""

from typing import Any, NamedTuple

Array = Any


class Seed(NamedTuple):
    """Where a backward begins: rows of a pool, and their gradients.

    Attributes:
        rows: an array, some of which may be beyond the pool; or the row of one number.
        gradients: of the rows; None for that number, of which it is 1.
    """

    rows: Any
    gradients: Array | None = None

    @property
    def lanes(self) -> int:
        """How many rows there are; 0 for one number."""
        return 0 if self.gradients is None else len(self.rows)

    def sown(self, pool: Array) -> Array:
        """The gradients of all rows of a pool, if these are zeros without it."""
        if self.gradients is None:
            return pool.at[self.rows].set(1.0)
        return pool.at[self.rows].add(self.gradients, mode="drop")


class Root(NamedTuple):
    """The pool of a seed, by number, and how many lanes the seed has."""

    pool: int
    lanes: int = 0
