"""The update by the executor in C++: a whole collection in one call, at once."""

import math
import sys
from typing import Any, NamedTuple, Protocol

import numpy as np

from dynetjax.model.storage import TableStorage, aligned, on_host
from dynetjax.native import core
from dynetjax.trainers.members import Block, Members


class Numbers(NamedTuple):
    """What an update is about; see `dynetjax.trainers.apply.UpdateTerms`."""

    learning_rate: float
    threshold: float
    step: float
    kept: float


class OnHost(NamedTuple):
    """How members are updated by rules as they are run, with arrays of NumPy.

    Attributes:
        blocks: a rule, the state of several parameters, in arrays where it lies end to
            end, and the parameters.
        tables: of each table, a rule and the state.
        common: words of what rules have in common; see `RuleOfOne`.
    """

    blocks: list[tuple[Any, tuple[np.ndarray, ...], Block]]
    tables: list[tuple[Any, tuple[np.ndarray, ...]]]
    common: np.ndarray


class HostStates(Protocol):
    """The state of a trainer, where an update can write to it."""

    def on_host(self, members: Members) -> OnHost:
        """How these are updated, if that goes number by number."""


class NativeUpdate:
    """Updates that go number by number.

    Args:
        states: where the state is.
    """

    def __init__(self, states: HostStates):
        self._states = states
        # By block, arrays that were made here: those of now, and those before.
        self._now: dict[Block, list[np.ndarray]] = {}
        self._before: dict[Block, list[np.ndarray]] = {}

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
        of_blocks, of_tables, common = self._states.on_host(members)
        blocks = [(*of_one, self._room(of_one[2])) for of_one in of_blocks]
        each = zip(members.tables, of_tables, dense, strict=True)
        tables = [
            (*_size(table), *table.stored_on_host(), *_gradient(table), to_all, *of_one)
            for table, of_one, to_all in each
        ]
        frozen = [_array(s.gradient) for s in members.frozen if s.gradient is not None]
        frozen_tables = [_frozen(t) for t in members.frozen_tables if t.has_gradient]
        norm = core.update(numbers, blocks, tables, frozen, frozen_tables, common)
        if is_refused(norm, numbers.threshold):
            return norm
        for _, _, block, new in blocks:
            old, self._now[block] = self._now.get(block), new
            if old is not None:
                self._before[block] = old
        for table, (_, _, array, factor, *_), to_all in zip(
            members.tables, tables, dense, strict=True
        ):
            decays = table.decays and not to_all
            table.wrote(array, factor * numbers.kept if decays else 1.0)
        return norm

    def _room(self, block: Block) -> list[np.ndarray]:
        """Arrays for new values: those of two updates ago, if nobody has them."""
        room = self._before.pop(block, None)
        if room is not None and _are_free(room):
            return room
        return aligned([s.shape for s in block])


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
    return (*_size(table), None, 1.0, *_gradient(table), False, None, ())


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
