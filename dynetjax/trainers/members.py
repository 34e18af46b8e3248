"""Who takes part in an update, and how."""

import itertools
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from dynetjax.core.errors import error_text
from dynetjax.model.collection import ParameterCollection
from dynetjax.model.storage import DenseStorage, TableStorage

Block = tuple[DenseStorage, ...]
Arrange = Callable[[Sequence[DenseStorage]], tuple[Block, ...]]


class Members(NamedTuple):
    """The storages of a collection by their part in an update.

    Attributes:
        blocks: parameters that are updated.
        tables: tables that are updated.
        frozen: parameters that count in the norm, and stay as they are.
        frozen_tables: likewise.
    """

    blocks: tuple[Block, ...]
    tables: list[TableStorage]
    frozen: list[DenseStorage]
    frozen_tables: list[TableStorage]

    @property
    def updated(self) -> list[Any]:
        """The storages of all that is updated: parameters, then tables."""
        return [*itertools.chain(*self.blocks), *self.tables]

    @property
    def values(self) -> list[list[Any]]:
        """The arrays of each block."""
        return [[s.values for s in block] for block in self.blocks]


class Census:
    """Knows the members of a collection.

    Args:
        collection: whose parameters and tables they are, sub-collections included.
        arrange: puts the parameters that are updated in blocks.
    """

    def __init__(self, collection: ParameterCollection, arrange: Arrange):
        self._collection = collection
        self._arrange = arrange
        self._flags: list[bool] | None = None
        self._members = Members((), [], [], [])
        self._storages: list[Any] = []
        self.parameters: list[DenseStorage] = []
        self.tables: list[TableStorage] = []

    def members(self) -> Members:
        """Of now: parameters may be added, and `updated` may change, at any time."""
        self.look()
        return self._sort([s.updated for s in self._storages])

    def subset(self, parameters: Iterable[int], tables: Iterable[int]) -> Members:
        """The members if only those at these places in the lists may be updated.

        Raises:
            IndexError, TypeError: there is no such place.
        """
        self.look()
        chosen = {self.parameters[i] for i in _places(parameters, self.parameters)}
        chosen_tables = {self.tables[i] for i in _places(tables, self.tables)}
        flags = [s.updated and s in chosen for s in self.parameters]
        flags += [s.updated and s in chosen_tables for s in self.tables]
        return self._sort(flags)

    def forget(self) -> None:
        """Arrange the members anew."""
        self._flags = None

    def look(self) -> None:
        """Find out what was added to the collection."""
        if len(self._collection) != len(self._storages):
            self.parameters = [p.storage for p in self._collection.parameters_list()]
            tables = self._collection.lookup_parameters_list()
            self.tables = [t.storage for t in tables]
            self._storages = [*self.parameters, *self.tables]

    def _sort(self, flags: list[bool]) -> Members:
        if flags != self._flags:
            split = len(self.parameters)
            updated, frozen = _apart(self.parameters, flags[:split])
            tables, frozen_tables = _apart(self.tables, flags[split:])
            blocks = self._arrange(updated)
            self._flags = flags
            self._members = Members(blocks, tables, frozen, frozen_tables)
        return self._members


def _apart(storages: list[Any], flags: list[bool]) -> tuple[list[Any], list[Any]]:
    """The storages whose flag is set, and those whose flag is not."""
    pairs = list(zip(storages, flags, strict=True))
    return [s for s, flag in pairs if flag], [s for s, flag in pairs if not flag]


def _places(places: Iterable[int], among: Sequence[Any]) -> list[int]:
    indices = [operator.index(i) for i in places]
    for i in indices:
        if not 0 <= i < len(among):
            raise IndexError(
                error_text(
                    "update_subset: there is no such parameter",
                    got=i,
                    expected=f"an index below {len(among)}, in the order of creation",
                    fix="count in parameters_list() or lookup_parameters_list()",
                )
            )
    return indices
