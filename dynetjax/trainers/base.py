"""Trainer: what every trainer does around its rule.

An update is sent to the device and not waited for. Whether the gradients were
finite is read later: by the trainer's next update, by `Trainer.check`, or by
`check_pending`, which the engine calls before it hands values out. Until then the
trainer holds on to the gradients, to give them back if the update was refused.
"""

import itertools
import math
import sys
import weakref
from typing import Any, NamedTuple, NoReturn

import numpy as np
import optax

from dynetjax.errors import explain
from dynetjax.model.collection import ParameterCollection
from dynetjax.model.storage import DenseStorage, TableStorage
from dynetjax.model.unique import Unique
from dynetjax.trainers.blocks import States
from dynetjax.trainers.gather import Census, Gatherer, Members, with_gradient
from dynetjax.trainers.update import Targets, compiled_update, knobs
from dynetjax.uninterrupted import Uninterrupted

_LAST_COUNT = 2**24  # DyNet counts updates in float32, and gets no further


class _Sent(NamedTuple):
    """An update whose outcome was not read yet."""

    norm: Any
    threshold: float
    gradients: list[tuple[Any, Any]]


class Trainer(Unique):
    """Changes the parameters of a collection by their gradients.

    Use one of the subclasses. Sub-collections are trained with their collection, and
    parameters made after the trainer are trained too. `dynetjax.trainers.apply` says
    what may be a rule.

    Attributes:
        learning_rate: factor on every step; rounded to float32. Never decays by
            itself.
        sparse_updates_enabled: change only the rows of tables that were looked up
            (the default), not every row. With False, rules that have a state move
            all rows at each update: the exact formula, and more work.
    """

    def __init__(
        self,
        m: ParameterCollection,
        learning_rate: float,
        *,
        rule: optax.GradientTransformationExtraArgs,
    ):
        if not isinstance(m, ParameterCollection):
            raise TypeError(
                explain(
                    f"{self.whoami()}: m is no collection",
                    got=f"{m!r} ({type(m).__name__})",
                    expected="a ParameterCollection",
                    fix="pass the collection that add_parameters was called on",
                )
            )
        self._collection = m
        self._rule = rule
        self._compiled = compiled_update(rule)
        self._states = States(rule)
        self._census = Census(m, self._states)
        self._gatherer = Gatherer()
        self._sent: _Sent | None = None
        self._updates = self._clips = self._updates_seen = self._clips_seen = 0
        self._threshold = 5.0
        self.sparse_updates_enabled = True
        self.learning_rate = learning_rate

    def whoami(self) -> str:
        """The name of the class."""
        return type(self).__name__

    @property
    def learning_rate(self) -> float:
        return self._learning_rate

    @learning_rate.setter
    def learning_rate(self, learning_rate: float) -> None:
        self._learning_rate = float(np.float32(learning_rate))

    def set_learning_rate(self, learning_rate: float) -> None:
        """The same as assigning `learning_rate`."""
        self.learning_rate = learning_rate

    def set_sparse_updates(self, su: bool) -> None:
        """The same as assigning `sparse_updates_enabled`."""
        self.sparse_updates_enabled = bool(su)

    def set_clip_threshold(self, thr: float) -> None:
        """Scale gradients down to this norm, of all of them together.

        0 or less turns clipping off, and with it the check for NaN and Inf.
        """
        self._threshold = max(float(np.float32(thr)), 0.0)

    def get_clip_threshold(self) -> float:
        """The norm gradients are scaled down to, 5 at first; 0 where that is off."""
        return self._threshold

    def update(self) -> None:
        """Change every parameter by its gradient, and clear the gradients.

        Parameters without a gradient take part with a gradient of zero; rows that
        no `backward` touched stay as they are. Parameters after ``set_updated(False)``
        keep their values and their gradients.

        Raises:
            RuntimeError: with clipping on, the norm of the gradients of this update
                or the one before is NaN or Inf. Parameters, state and gradients
                are as they were before it. What this update finds may come out
                later; see `check`.
        """
        self.check()
        members = self._census.members()
        step = min(self._updates + 1, _LAST_COUNT)
        states, tables = self._states, members.tables
        decay = self._start_to_decay(tables)
        with Uninterrupted():
            values, targets, norm = self._compiled(
                knobs(self._learning_rate, self._threshold, step, decay),
                [[s.values for s in block] for block in members.blocks],
                Targets(
                    states.of_blocks(members.blocks),
                    [s.stored for s in tables],
                    states.of_tables(tables),
                ),
                self._gatherer.gather(members),
                dense=tuple([self._goes_to_all_rows(s) for s in tables]),
                frozen_sizes=tuple([s.shape[0] for s in with_gradient(members)]),
            )
            self._store(members, values, targets, 1 - decay)
            self._sent = _Sent(norm, self._threshold, _take_gradients(members))
            self._updates += 1
            _unread.add(self)
        if not _asynchronous:
            self.check()

    def _start_to_decay(self, tables: list[TableStorage]) -> float:
        """How much of every weight this update takes away."""
        decay = self._collection.get_weight_decay()
        if decay > 0:
            for table in tables:
                table.start_to_decay()
        return decay

    def _store(
        self, members: Members, values: list[Any], targets: Targets, kept: float
    ) -> None:
        # The old tables and states are gone: the new ones come first.
        for table, new in zip(members.tables, targets.tables, strict=True):
            table.store(new, kept)
        self._states.put(
            members.blocks, targets.states, members.tables, targets.table_states
        )
        for block, new_values in zip(members.blocks, values, strict=True):
            for parameter, new in zip(block, new_values, strict=True):
                parameter.values = new

    def check(self) -> None:
        """Wait for the last update, and raise if it was refused.

        Raises:
            RuntimeError: as `update` says.
        """
        if self._sent is None:
            return
        norm, threshold, gradients = self._sent
        length = float(np.asarray(norm))  # float(norm) takes four times as long
        self._sent = None
        _unread.discard(self)
        if threshold > 0 and not math.isfinite(length):
            for storage, gradient in gradients:
                storage.put_back(gradient)
            self._updates -= 1
            raise RuntimeError(
                explain(
                    "update: the norm of the gradients is no number",
                    got=length,
                    expected="a finite norm; nothing was changed",
                    fix="lower the learning rate, or look for log(0) and the like",
                )
            )
        self._clips += threshold > 0 and length > threshold

    def restart(self, learning_rate: float | None = None) -> None:
        """Set all state of the rule to zero. The count of updates goes on.

        Args:
            learning_rate: a new one, if given.
        """
        self.check()
        self._states.clear()
        if learning_rate is not None:
            self.learning_rate = learning_rate

    def status(self) -> None:
        """Write the learning rate, clips and updates since last time to stderr."""
        self.check()
        clips = self._clips - self._clips_seen
        updates = self._updates - self._updates_seen
        rate = f"{self._learning_rate:g}"
        print(
            f"[lr={rate} clips={clips:g} updates={updates:g}] ",
            end="",
            file=sys.stderr,
            flush=True,
        )
        self._clips_seen, self._updates_seen = self._clips, self._updates

    def update_epoch(self, r: float) -> None:
        """Does nothing, as in DyNet, and says so."""
        del r
        print(
            "Trainer::update_epoch has been deprecated and doesn't do anything. Please "
            "remove it from your code, and control the learning rate of the trainer "
            "directly, for example by: 'trainer.learning_rate /= (1 - rate_decay)', "
            "see https://github.com/clab/dynet/pull/695 for details.",
            file=sys.stderr,
        )

    def update_subset(self, updated_params: Any, updated_lookups: Any) -> NoReturn:
        """Not offered: in DyNet it changes nothing.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(
            explain(
                "update_subset: not offered",
                got=f"{updated_params!r}, {updated_lookups!r}",
                expected="update()",
                fix="call set_updated(False) on the others, then update()",
            )
        )

    def _goes_to_all_rows(self, table: TableStorage) -> bool:
        everywhere = not self.sparse_updates_enabled and not self._states.is_empty
        return everywhere or table.gradient is not None


def _take_gradients(members: Members) -> list[tuple[Any, Any]]:
    """The gradients of all that is updated, and whose they are; cleared there."""
    owners: list[DenseStorage | TableStorage] = [*members.tables]
    owners += itertools.chain(*members.blocks)
    return [(owner, owner.take_gradient()) for owner in owners]


_unread: weakref.WeakSet[Trainer] = weakref.WeakSet()
_asynchronous = True


def check_pending() -> None:
    """Raise what the last update of any trainer was refused for, if one was.

    Raises:
        RuntimeError: see `Trainer.update`.
    """
    for trainer in list(_unread):
        trainer.check()


def set_async_checks(enabled: bool) -> None:
    """Whether updates are checked when values are next read, not at once.

    With False every ``update()`` waits for the device and raises at its own line.
    """
    global _asynchronous
    _asynchronous = bool(enabled)
