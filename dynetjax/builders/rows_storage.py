"""Parameters that are rows of a table: each a part of one entry, as users see it."""

from typing import Any

import numpy as np

from dynetjax.model.lookup import LookupParameters
from dynetjax.model.parameters import Parameters
from dynetjax.model.storage import (
    DenseStorage,
    TableStorage,
    on_host,
    to_device,
    to_host,
)


class RowsStorage(DenseStorage):
    """What a parameter's numbers are where a table has them.

    Trainers find it frozen and without a gradient: they change the table. For users,
    and in files, it is a parameter like others.

    Args:
        name: full name.
        values: what it begins with.
        table: that has the numbers.
        entry: number of the table's entry.
        part: where in the entry.
    """

    __slots__ = ("_at", "_entry", "_table")
    in_table = True

    def __init__(
        self,
        name: str,
        values: np.ndarray,
        table: TableStorage,
        entry: int,
        part: tuple[Any, ...],
    ):
        self._table, self._entry, self._at = table, entry, part
        table.shown = False
        super().__init__(name, values)

    def __reduce__(self) -> tuple[Any, ...]:
        values = np.array(self.host_values())
        return RowsStorage, (self.name, values, self._table, self._entry, self._at)

    @property
    def values(self) -> Any:
        """A float32 array of its own, as they are now."""
        return to_device(self.host_values())

    @values.setter
    def values(self, values: Any) -> None:
        self._table.edit()[self._entry][self._at] = np.asarray(values)

    @property
    def stored(self) -> Any:
        return self.values

    @property
    def present(self) -> Any:
        return self.host_values()

    def host_values(self) -> np.ndarray:
        return self._table.host_rows(self._entry)[self._at]

    @property
    def updated(self) -> bool:
        """No trainer is to change it by itself."""
        return False

    @updated.setter
    def updated(self, updated: bool) -> None:
        self._table.updated = bool(updated)

    @property
    def gradient(self) -> Any:
        """None: it counts as part of the table's."""
        return None

    @gradient.setter
    def gradient(self, gradient: Any) -> None:
        if gradient is not None:
            whole = np.zeros((1, *self._table.shape[1:]), np.float32)
            whole[0, *self._at] = gradient
            rows = np.array([self._entry], np.int32)
            self._table.add_row_gradients(rows, whole)

    @property
    def has_gradient(self) -> bool:
        gradient = self._table.gradient_now()
        return gradient.whole is not None or any(
            bool((part.rows == self._entry).any()) for part in gradient.parts
        )

    @has_gradient.setter
    def has_gradient(self, has: bool) -> None:
        """It follows from the table's."""

    def host_gradient(self) -> np.ndarray:
        gradient = self._table.gradient_now()
        total = np.zeros(self.shape, np.float32)
        if gradient.whole is not None:
            total += np.asarray(gradient.whole)[self._entry][self._at]
        for rows, values in gradient.parts:
            for k in np.flatnonzero(rows == self._entry):
                total += np.asarray(values)[k][self._at]
        return to_host(total)

    def gradient_now(self) -> Any:
        gradient = self.host_gradient() if self.has_gradient else None
        return None if gradient is None else np.asarray(gradient, np.float32, order="C")

    def take_gradient(self) -> Any:
        gradient = self.gradient_now()
        if gradient is not None:
            self._clear()
        return gradient

    def scale_gradient(self, factor: float) -> None:
        gradient = self.take_gradient()
        if gradient is not None:
            self.gradient = gradient * np.float32(factor)

    def _clear(self) -> None:
        table = self._table
        whole, parts = table.take_gradient()
        if whole is not None:
            table.gradient = _without(whole, (self._entry, *self._at))
            table.has_gradient = True
        for rows, values in parts:
            for k in np.flatnonzero(rows == self._entry):
                values = _without(values, (k, *self._at))
            table.add_row_gradients(rows, values)


def _without(array: Any, place: tuple[Any, ...]) -> Any:
    """An array with zeros at some place of it."""
    if not on_host(array):
        return array.at[place].set(0)
    copied = array.copy()
    copied[place] = 0
    return copied


def show_as_rows(made: list[Parameters], table: LookupParameters, entry: int) -> None:
    """Have parameters keep their numbers in an entry of a table from now on.

    Args:
        made: a matrix, which fills the first columns of its rows; and perhaps a bias,
            which is the column behind.
        table: whose entry it is.
        entry: its number.
    """
    for p in made:
        old = p.storage
        rows, *columns = old.shape
        part = (slice(rows), slice(columns[0])) if columns else (slice(rows), -1)
        values = old.host_values()
        Parameters.__init__(
            p, RowsStorage(old.name, values, table.storage, entry, part)
        )
