"""Sparse updates that come to the same as dense ones.

Most rules move a row after its gradient, too: momentum keeps it going. A dense update
does that to every row at every step. Here a row waits instead, and catches up with all
steps that it missed when somebody looks at it: a graph before it reads the row, the
trainer before it changes it, a user who wants the numbers.
"""

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dynetjax.errors import explain
from dynetjax.model.storage import TableStorage, capacity_for
from dynetjax.uninterrupted import Uninterrupted

MOST_ROWS = 4096  # that catch up in one call


class Missed(NamedTuple):
    """What a rule does to a row in steps that bring it no gradient.

    Attributes:
        length: so many steps move the row, to rounding; 0 if their number is all that
            matters, and a formula gives the sum.
        factors: ``(steps, learning rates) -> numbers``, what `catch_up` needs to know
            of each step.
        catch_up: ``(state, missed, factors) -> (change, state)`` of one row, `missed`
            being how many steps it missed, and `factors` the numbers of as many of the
            first of them as move the row, padded with 0.
    """

    length: int
    factors: Callable[[np.ndarray, np.ndarray], np.ndarray]
    catch_up: Callable[[Any, Any, Any], tuple[Any, Any]]


def formula(catch_up: Callable[[Any, Any, Any], tuple[Any, Any]]) -> Missed:
    """Of a rule for which the number of missed steps is enough to know."""
    return Missed(0, lambda steps, rates: rates, catch_up)


class Clock:
    """The updates that a table was part of.

    Attributes:
        steps, rates: the number of each update and its learning rate.
        last: of how many of them each row has seen; -1 for those that nothing moves.
    """

    def __init__(self, rows: int):
        self.steps: list[int] = []
        self.rates: list[float] = []
        self.last = np.full(rows, -1, np.int32)

    @property
    def now(self) -> int:
        return len(self.steps)

    def tick(self, step: int, rate: float, rows: Any) -> None:
        """One more update, of these rows."""
        self.steps.append(step)
        self.rates.append(rate)
        self.last[rows] = self.now

    def undo(self) -> None:
        """One update less."""
        del self.steps[-1], self.rates[-1]
        np.minimum(self.last, self.now, out=self.last)

    def late(self, rows: np.ndarray | None) -> np.ndarray:
        """Those of the rows, or of all, that have steps to catch up with."""
        found = np.arange(len(self.last)) if rows is None else np.unique(rows)
        found = found[found < len(self.last)]
        return found[(self.last[found] >= 0) & (self.last[found] < self.now)]

    def factors(self, missed: Missed, rows: np.ndarray, width: int) -> np.ndarray:
        """The numbers of the first missed steps of each row."""
        at = self.last[rows][:, None] + np.arange(width)
        real = at < self.now
        at = np.minimum(at, self.now - 1)
        steps, rates = np.array(self.steps), np.array(self.rates, np.float32)
        return np.where(real, missed.factors(steps[at], rates[at]), 0)


class Lagging:
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

    def before_update(
        self, tables: Iterable[TableStorage], dense: Sequence[bool], decay: float
    ) -> None:
        """Have all rows catch up that an update will change."""
        if decay > 0:
            raise ValueError(
                explain(
                    "update: no weight decay with lazy_correct",
                    got=f"a decay of {decay:g}",
                    expected="set_weight_decay(0)",
                    fix="make the trainer without lazy_correct, and for the same "
                    "result set_sparse_updates(False)",
                )
            )
        for table, to_all in zip(tables, dense, strict=True):
            if table not in self._clocks:
                self._meet(table)
            self._catch_up(table, None if to_all else table.touched())

    def _meet(self, table: TableStorage) -> None:
        if table.before_read is not None:
            raise ValueError(
                explain(
                    "update: another trainer's rows have steps to catch up with",
                    got=f"two trainers with lazy_correct, of {table.name}",
                    expected="one",
                    fix="set_updated(False) on what this trainer leaves alone",
                )
            )
        self._clocks[table] = Clock(table.shape[0])
        table.before_read = functools.partial(self._catch_up, table)

    def after_update(
        self,
        tables: Sequence[TableStorage],
        dense: Sequence[bool],
        step: int,
        rate: float,
    ) -> None:
        """Note what an update is changing; before gradients are cleared."""
        for table, to_all in zip(tables, dense, strict=True):
            rows = slice(None) if to_all else table.touched()
            self._clocks[table].tick(step, rate, rows)
        self._ticked = [self._clocks[table] for table in tables]

    def undo(self) -> None:
        """The last update was refused."""
        for clock in self._ticked:
            clock.undo()

    def bring_all(self) -> None:
        """Have all rows of all tables catch up."""
        for table in self._clocks:
            self._catch_up(table, None)

    def begin(self, tables: Iterable[TableStorage]) -> None:
        """Take all rows of these tables to be up to date, and to be moving."""
        for table in tables:
            if table not in self._clocks:
                self._meet(table)
            self._clocks[table] = clock = Clock(table.shape[0])
            clock.last[:] = 0

    def clear(self) -> None:
        """Have all rows catch up; from now on nothing moves them."""
        self.bring_all()
        for clock in self._clocks.values():
            clock.last[:] = -1

    def _catch_up(self, table: TableStorage, rows: np.ndarray | None) -> None:
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
        width = self._width(missed.max())
        factors = np.zeros((len(ids), width), np.float32)
        factors[: len(rows)] = clock.factors(self._missed, rows, width)
        with Uninterrupted():
            array, state = _caught_up(
                self._missed.catch_up,
                table.stored,
                self._states.of_table(table),
                ids,
                missed,
                factors,
            )
            table.store(array, 1.0)
            self._states.put_table(table, state)
            clock.last[rows] = clock.now

    def _width(self, most: int) -> int:
        """Of how many steps numbers are handed over, in few sizes."""
        needed = min(most, self._missed.length)
        width = 4 if needed else 0
        while width < needed:
            width *= 4
        return width


@functools.partial(jax.jit, static_argnums=0, donate_argnums=(1, 2))
def _caught_up(catch_up, table, state, ids, missed, factors):
    """The table and the state with rows `ids` brought up to date."""
    of_rows = jax.tree.map(lambda x: x.at[ids].get(mode="fill", fill_value=0), state)
    change, new = jax.vmap(catch_up)(of_rows, missed, factors)
    new_state = jax.tree.map(
        lambda x, rows: x.at[ids].set(rows, mode="drop"), state, new
    )
    return table.at[ids].add(jnp.asarray(change), mode="drop"), new_state
