"""Updates of all rows of a table, at the price of the rows that were looked up.

Most rules move a row after its gradient, too: momentum keeps it going. A dense update
does that to every row at every step. Here a row waits instead, and catches up with all
steps that it missed when somebody looks at it: a graph before it reads the row, the
trainer before it changes it, a user who wants the numbers.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from dynetjax.core.lazy import at_first_call, jax, jnp
from dynetjax.core.uninterrupted import Uninterrupted
from dynetjax.engine.xla.slices import take_if_there
from dynetjax.model.storage import TableStorage, capacity_for
from dynetjax.trainers.apply import like_table, split_table

MOST_ROWS = 4096  # that catch up in one call


class Missed(NamedTuple):
    """What a rule does to a row in steps that bring it no gradient.

    Attributes:
        catch_up: ``(state, missed, numbers) -> (change, state)`` of one row, `missed`
            being how many steps it missed.
        factor: ``(step, learning rate) -> number``, what is to be known of a step.
        length: so many of the first missed steps move the row, to rounding; 0 if
            the number of steps is all that matters.
        weights: ``[length, N]``: `numbers` are the sums of the factors of the first
            missed steps times these. None: they are the factors, and then zeros.
    """

    catch_up: Callable[[Any, Any, Any], tuple[Any, Any]]
    factor: Callable[[int, float], float] = lambda step, rate: 0.0
    length: int = 0
    weights: np.ndarray | None = None


class Clock:
    """The updates that a table was part of.

    Args:
        rows: of the table.
        moving: whether all of them move; otherwise those do that an update changed.

    Attributes:
        now: the number of updates.
        last: of how many of them each row has seen; -1 for those that nothing moves.
    """

    now: int

    def __init__(self, rows: int, moving: bool):
        self.now = 0
        self.last: np.ndarray = np.full(rows, 0 if moving else -1, np.int32)
        self._factors = np.zeros(1024)  # of each update; zeros after the last

    def tick(self, factor: float, rows: Any) -> None:
        """One more update, of these rows."""
        if self.now == len(self._factors):
            self._grow(2 * self.now)
        self._factors[self.now] = factor
        self.now += 1
        self.last[rows] = self.now

    def undo(self) -> None:
        """One update less."""
        self.now -= 1
        self._factors[self.now] = 0
        np.minimum(self.last, self.now, out=self.last)

    def late(self, rows: np.ndarray | None) -> np.ndarray:
        """The given rows, or of all rows, that have steps to catch up with."""
        candidates = np.arange(len(self.last)) if rows is None else np.unique(rows)
        candidates = candidates[candidates < len(self.last)]
        last = self.last[candidates]
        return candidates[(last >= 0) & (last < self.now)]

    def factors(self, rows: np.ndarray, count: int) -> np.ndarray:
        """Factors of the first `count` steps that each row missed, and then zeros."""
        if len(self._factors) < self.now + count:
            self._grow(2 * (self.now + count))
        return sliding_window_view(self._factors, count)[self.last[rows]]

    def _grow(self, size: int) -> None:
        self._factors = np.append(self._factors, np.zeros(size - len(self._factors)))


class DeferredRows:
    """Lets the rows of a trainer's tables catch up.

    Args:
        missed: what the rule does in the meantime.
        states: has the state of tables.
        check: raises if the last update was refused.
    """

    def __init__(self, missed: Missed, states: Any, check: Callable[[], None]):
        self._missed, self._states, self._check = missed, states, check
        self._clocks: dict[TableStorage, Clock] = {}
        self._ticked: list[Clock] = []  # by the last update

    def take(self, table: TableStorage, moving: bool) -> None:
        """Have the rows of a table wait from now on, `moving` if any have a state."""
        if table not in self._clocks:
            table.catch_up_for_good()
            self._clocks[table] = Clock(table.shape[0], moving)
            table.deferred = self

    def let_go(self, table: TableStorage) -> None:
        """Have all rows catch up, and wait no more."""
        if table in self._clocks:
            self.catch_up(table, None)
            del self._clocks[table]
            table.deferred = None

    def let_all_go(self) -> None:
        """Have all rows of all tables catch up, and wait no more."""
        for table in list(self._clocks):
            self.let_go(table)

    def before_update(
        self, tables: Sequence[TableStorage], dense: Sequence[bool]
    ) -> None:
        """Have all rows catch up that an update will change."""
        for table, to_all in zip(tables, dense, strict=True):
            if table in self._clocks:
                self.catch_up(table, None if to_all else table.touched())

    def after_update(
        self,
        tables: Sequence[TableStorage],
        dense: Sequence[bool],
        step: int,
        rate: float,
    ) -> None:
        """Note what an update is changing; before gradients are cleared."""
        factor = self._missed.factor(step, rate)
        self._ticked = []
        for table, to_all in zip(tables, dense, strict=True):
            clock = self._clocks.get(table)
            if clock is not None:
                clock.tick(factor, slice(None) if to_all else table.touched())
                self._ticked.append(clock)

    def undo(self) -> None:
        """The last update was refused."""
        for clock in self._ticked:
            clock.undo()

    def bring_all(self) -> None:
        """Have all rows of all tables catch up."""
        for table in self._clocks:
            self.catch_up(table, None)

    def catch_up(self, table: TableStorage, rows: np.ndarray | None) -> None:
        """Bring rows to where the last update left the others; None stands for all."""
        clock = self._clocks[table]
        late = clock.late(rows)
        if len(late):
            self._check()
        for start in range(0, len(late), MOST_ROWS):
            self._bring(table, clock, late[start : start + MOST_ROWS])

    def _bring(self, table: TableStorage, clock: Clock, rows: np.ndarray) -> None:
        ids = np.full(capacity_for(len(rows)), table.shape[0], np.int32)
        ids[: len(rows)] = rows
        missed = np.zeros(len(ids), np.int32)
        missed[: len(rows)] = clock.now - clock.last[rows]
        known = self._numbers(clock, rows, missed.max())
        numbers = np.zeros((len(ids), known.shape[1]), np.float32)
        numbers[: len(rows)] = known
        with Uninterrupted():
            if table.is_on_host and self._states.is_on_host(table):
                self._bring_on_host(table, rows, missed, numbers)
            else:
                array, state = _caught_up(
                    self._missed.catch_up,
                    table.stored,
                    self._states.of_table(table),
                    ids,
                    missed,
                    numbers,
                )
                table.store(array, 1.0)
                self._states.put_table(table, state)
            clock.last[rows] = clock.now

    def _bring_on_host(
        self,
        table: TableStorage,
        rows: np.ndarray,
        missed: np.ndarray,
        numbers: np.ndarray,
    ) -> None:
        """Bring rows of a table up to date in NumPy's arrays; XLA sees these alone."""
        array, factor = table.stored_on_host()
        leaves = self._states.of_table_on_host(table)
        room, *row = len(missed), *table.shape[1:]
        padded = [np.zeros((room, *row), np.float32) for _ in leaves]
        for leaf, of_rows in zip(leaves, padded, strict=True):
            of_rows[: len(rows)] = leaf[rows]
        state = self._states.from_leaves(padded)
        change, new = _changes(self._missed.catch_up, state, missed, numbers)
        array[rows] += np.asarray(change)[: len(rows)] / np.float32(factor)
        for leaf, of_rows in zip(leaves, jax.tree.leaves(new), strict=True):
            leaf[rows] = np.asarray(of_rows)[: len(rows)]
        table.wrote(array, factor)

    def _numbers(self, clock: Clock, rows: np.ndarray, most: int) -> np.ndarray:
        """What `Missed.catch_up` needs to know of the steps that each row missed."""
        length, weights = self._missed.length, self._missed.weights
        if weights is not None:
            return clock.factors(rows, length) @ weights
        needed = min(most, length)
        width = 4 if needed else 0
        while width < needed:  # in few sizes
            width *= 4
        return clock.factors(rows, width) if width else np.zeros((len(rows), 0))


@at_first_call(lambda f: jax.jit(f, static_argnums=0))
def _changes(catch_up, of_rows, missed, numbers):
    """What rows have missed, and their state after that."""
    return jax.vmap(catch_up)(of_rows, missed, numbers)


@at_first_call(lambda f: jax.jit(f, static_argnums=0, donate_argnums=(1, 2)))
def _caught_up(catch_up, table, state, ids, missed, numbers):
    """The table and the state with rows `ids` brought up to date."""
    of_rows = jax.tree.map(lambda x: take_if_there(x, ids), state)
    change, new = _changes(catch_up, of_rows, missed, numbers)
    new_state = jax.tree.map(
        lambda x, rows: x.at[ids].set(rows, mode="drop"), state, new
    )
    array, factor = split_table(table)
    stored = jnp.asarray(change) if factor is None else change / factor
    return like_table(table, array.at[ids].add(stored, mode="drop"), factor), new_state
