"""The update by the executor in C++: a whole collection in one call, at once."""

import functools
import math
import sys
from typing import Any, NamedTuple, Protocol

import numpy as np

from dynetjax.model.storage import TableStorage, aligned, on_host
from dynetjax.native import core
from dynetjax.trainers.members import Block, Members
from dynetjax.trainers.native_rule import native_rule
from dynetjax.trainers.rules import Rule


class Numbers(NamedTuple):
    """What an update is about; see `dynetjax.trainers.apply.UpdateTerms`."""

    learning_rate: float
    threshold: float
    step: float
    kept: float


class HostStates(Protocol):
    """The state of a rule in arrays of NumPy, which an update writes to."""

    def of_block_on_host(self, block: Block) -> tuple[np.ndarray, ...]:
        """The state of a block, whose parameters lie end to end."""

    def of_table_on_host(self, table: TableStorage) -> tuple[np.ndarray, ...]:
        """The state of a table."""


class NativeUpdate:
    """Updates by a rule that works number by number.

    Args:
        rule: see `dynetjax.trainers.apply`.
        states: where its state is.
    """

    def __init__(self, rule: Rule, states: HostStates):
        self._of, self._states = rule, states
        # By block, arrays that were made here: those of now, and those before.
        self._now: dict[Block, list[np.ndarray]] = {}
        self._before: dict[Block, list[np.ndarray]] = {}

    @functools.cached_property
    def rule(self) -> Any:
        """The rule as it is run; None if there is no byte code for it."""
        return native_rule(self._of)

    def __call__(
        self, members: Members, dense: tuple[bool, ...], numbers: Numbers
    ) -> float:
        """Change all members by their gradients; the norm of these.

        Args:
            members: who they are.
            dense: per table, whether the rule goes to all rows.
            numbers: nothing changes if the norm `is_refused`; else parameters have no
                gradient any more.
        """
        fresh = [self._room(block) for block in members.blocks]
        blocks = [
            (self._states.of_block_on_host(block), block, new)
            for block, new in zip(members.blocks, fresh, strict=True)
        ]
        pairs = zip(members.tables, dense, strict=True)
        tables = [(table, *table.stored_on_host(), to_all) for table, to_all in pairs]
        norm = core.update(
            self.rule,
            numbers,
            blocks,
            [self._table(*entry) for entry in tables],
            [_array(s.gradient) for s in members.frozen if s.gradient is not None],
            [_frozen(table) for table in members.frozen_tables if table.has_gradient],
        )
        if is_refused(norm, numbers.threshold):
            return norm
        for block, new in zip(members.blocks, fresh, strict=True):
            old, self._now[block] = self._now.get(block), new
            if old is not None:
                self._before[block] = old
        for table, array, factor, to_all in tables:
            decays = table.decays and not to_all
            table.wrote(array, factor * numbers.kept if decays else 1.0)
        return norm

    def _room(self, block: Block) -> list[np.ndarray]:
        """Arrays for new values: those of two updates ago, if nobody has them."""
        room = self._before.pop(block, None)
        if room is not None and _are_free(room):
            return room
        return aligned([s.shape for s in block])

    def _table(
        self, table: TableStorage, array: np.ndarray, factor: float, to_all: bool
    ) -> tuple[Any, ...]:
        states = self._states.of_table_on_host(table)
        return (*_size(table), array, factor, states, *_gradient(table), to_all)


def gradients_are_on_host(members: Members) -> bool | None:
    """Whether the first gradient is an array of NumPy; None if there is no gradient."""
    for block in members.blocks:
        for parameter in block:
            if parameter.gradient is not None:
                return on_host(parameter.gradient)
    for table in members.tables:
        whole, parts = table.gradient_now()
        if whole is not None or parts:
            return on_host(parts[0].values if whole is None else whole)
    return None


def is_refused(norm: float, threshold: float) -> bool:
    """Whether gradients of this norm cannot be clipped."""
    return threshold > 0 and not math.isfinite(norm)


def _references(arrays: list[np.ndarray]) -> tuple[int, set[int]]:
    """How many there are to the memory of `aligned` arrays, and to these."""
    refs = sys.getrefcount
    return refs(arrays[0].base), {refs(array) for array in arrays}


_OF_ONE, _OF_EACH = _references(aligned([(1,)]))  # which nobody else has


def _are_free(arrays: list[np.ndarray]) -> bool:
    """Whether nobody but this list has arrays of `aligned`, or a view of one."""
    return _references(arrays) == (_OF_ONE + len(arrays) - 1, _OF_EACH)


def _frozen(table: TableStorage) -> tuple[Any, ...]:
    """A table that counts in the norm only."""
    return (*_size(table), None, 1.0, (), *_gradient(table), False)


def _size(table: TableStorage) -> tuple[int, int]:
    """How many rows there are, and numbers in one."""
    count, *row = table.shape
    return count, math.prod(row)


def _gradient(table: TableStorage) -> tuple[Any, list[tuple[Any, Any]]]:
    whole, parts = table.gradient_now()
    return _array(whole), [(rows, _array(values)) for rows, values in parts]


def _array(array: Any) -> Any:
    """On the host; this waits for what XLA computes."""
    return None if array is None else np.asarray(array)
