"""Trainer: what every trainer does around its rule.

Gradients that the executor in C++ has computed are there when an update begins, and it
makes the update, too, at once. What XLA has computed is updated by XLA, and so is all
by rules that look at more than one number: such an update is sent to the device and not
waited for. Whether its gradients were finite is read later: by the
trainer's next update, by `Trainer.check`, or by `check_pending`, which the engine calls
before it hands values out. Until then the trainer holds on to the gradients, to tell
which one was not.
"""

import math
import time
import weakref
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from dynetjax.core.errors import error_text
from dynetjax.core.uninterrupted import Uninterrupted
from dynetjax.engine import policy
from dynetjax.engine.device import copy_soon
from dynetjax.engine.runtime import RUNTIME
from dynetjax.engine.stats import note_event, timing
from dynetjax.model.collection import ParameterCollection
from dynetjax.model.storage import DenseStorage, TableStorage
from dynetjax.trainers.blocks import in_blocks
from dynetjax.trainers.deferred import DeferredRows, Missed
from dynetjax.trainers.gather import Gatherer, with_gradient
from dynetjax.trainers.members import Census, Members
from dynetjax.trainers.native_update import (
    gradients_are_on_host,
    update_on_host,
)
from dynetjax.trainers.on_file import OnFile
from dynetjax.trainers.replicas import Replicas
from dynetjax.trainers.rules import Rule
from dynetjax.trainers.update import Targets, scalars

LEAST = 2**18
"""Numbers in rows without a gradient, for which dense updates wait until they are read.

Changing fewer takes no longer than catching up."""
PATIENCE = 3  # updates with gradients of the other executor before it takes over
LATE = 4  # a row that must catch up first costs as much as so many that need not
_LAST_COUNT = 2**24  # DyNet counts updates in float32, and gets no further


class _Sent(NamedTuple):
    """An update whose outcome was not read yet."""

    norm: Any
    threshold: float
    gradients: dict[Any, Any]


class Trainer(OnFile):
    """Changes the parameters of a collection by their gradients.

    Use one of the subclasses. Sub-collections are trained with their collection, and
    parameters made after the trainer are trained too.

    Args:
        m: the collection.
        learning_rate: where `learning_rate` starts.
        rule: see `dynetjax.trainers.apply`.
        numbers: those of the rule, if DyNet's files have them.
        still: whether a gradient of 0 changes nothing, the state of the rule included.
        missed: what a gradient of 0 changes, if rows can make up for it later.
        lazy_correct: whether they do so also where updates are sparse.

    Examples:
        >>> m = dy.ParameterCollection()
        >>> p = m.add_parameters(1, init=1)
        >>> trainer = dy.SimpleSGDTrainer(m, learning_rate=0.1)
        >>> print(isinstance(trainer, dy.Trainer), trainer.get_clip_threshold())
        True 5.0
        >>> dy.sum_elems(p * 20).backward()
        >>> trainer.update()  # the gradient is 20, and clipped to 5
        >>> print(p.as_array().round(3))
        [0.5]
    """

    _way = staticmethod(in_blocks)

    def __init__(
        self,
        m: ParameterCollection,
        learning_rate: float,
        *,
        rule: Rule,
        numbers: tuple[float, ...] | None = None,
        still: bool = False,
        missed: Missed | None = None,
        lazy_correct: bool = False,
    ):
        if not isinstance(m, ParameterCollection):
            raise TypeError(
                error_text(
                    f"{self.whoami()}: m is no collection",
                    got=f"{m!r} ({type(m).__name__})",
                    expected="a ParameterCollection",
                    fix="pass the collection that add_parameters was called on",
                )
            )
        super().__init__(learning_rate)
        self._collection, self._numbers = m, numbers
        self._states, compiled = self._way(rule)
        self._compiled = cache(compiled)
        self._census = Census(m, self._states.arrange)
        self._gatherer = Gatherer()
        self._replicas = Replicas()
        self._sent: _Sent | None = None
        self._refusal: RuntimeError | None = None  # which was not raised yet
        self._deferred = missed and DeferredRows(missed, self._states, self.check)
        self._lazy_correct = lazy_correct
        self._still = still or self._states.is_empty
        self._on_host: bool | None = None  # where updates are made; None: not known
        self._elsewhere = 0  # gradients in a row that were on the other side
        _trainers.add(self)

    def update(self) -> None:
        """Change every parameter by its gradient, and clear the gradients.

        Parameters without a gradient take part with a gradient of zero; rows that
        no `backward` touched stay as they are. Parameters after ``set_updated(False)``
        keep their values and their gradients.

        Raises:
            RuntimeError: with clipping on, the norm of the gradients of this update
                or the one before is NaN or Inf. Parameters and state are as they
                were before it; its gradients are gone, so that the next batch can
                follow. What this update finds may come out later; see `check`.
        """
        self._update(self._census.members())

    def update_subset(
        self, updated_params: Iterable[int], updated_lookups: Iterable[int]
    ) -> None:
        """Change these parameters only, and clear their gradients.

        The others keep theirs, which count in the norm that gradients are clipped by.

        Args:
            updated_params: places in ``parameters_list()`` of the collection.
            updated_lookups: places in ``lookup_parameters_list()``.
        Raises:
            IndexError: there is no such place.
            TypeError: a place is no int.
            RuntimeError: as `update` says.
        """
        self._update(self._census.subset(updated_params, updated_lookups))

    def _update(self, members: Members) -> None:
        start = time.perf_counter() if timing() else 0.0
        if self._sent is not None or self._refusal is not None:
            self.check()
        if self._averages is not None:
            self.swap_params_to_weights()
        self._replicas.exchange(self._census.parameters, self._census.tables)
        decay = self._start_to_decay(members.tables)
        dense = tuple([self._goes_to_all_rows(s, decay) for s in members.tables])
        if self._deferred is not None:
            self._deferred.before_update(members.tables, dense)
        native = self._is_native(members)
        if native:
            self._update_at_once(members, dense, decay)
        else:
            with Uninterrupted():
                self._send(members, dense, decay)
                _unread[id(self)] = weakref.ref(self)
        if self._averages is not None:
            self.check()
            self._averages.update(self._storages(), self._updates - 1)
        elif not _asynchronous:
            self.check()
        if start:
            note_event("update", 0 if native else 1, start)

    def _is_native(self, members: Members) -> bool:
        """Whether the executor in C++ makes this update.

        In any case it could: then updates are made where gradients are, for numbers
        that move take longer than an update. One graph of another kind moves nothing.
        """
        if not self._can_be_native(members):
            return False
        if RUNTIME.tier == "native":
            return True
        here = gradients_are_on_host(members)
        if here is None or here is self._on_host:
            self._elsewhere = 0
        else:
            self._elsewhere += 1
            if self._on_host is None or self._elsewhere > PATIENCE:
                self._on_host, self._elsewhere = here, 0
        return self._on_host is not False

    def _can_be_native(self, members: Members) -> bool:
        return policy.native() and self._states.is_native(members)

    def _update_at_once(
        self, members: Members, dense: tuple[bool, ...], decay: float
    ) -> None:
        step = min(self._updates + 1, _LAST_COUNT)
        numbers = self._learning_rate, self._threshold, step, 1 - decay
        with Uninterrupted():
            on_host = self._states.on_host(members)
            norm = update_on_host(on_host, members, dense, numbers)
            refused = _is_refused(norm, self._threshold)
            if self._deferred is not None and not refused:
                rate = self._learning_rate
                self._deferred.after_update(members.tables, dense, step, rate)
            if refused:
                gradients = _take_gradients(members)
            else:
                for table in members.tables:
                    table.clear_gradient()
                self._note_update()
                self._clips += 0 < self._threshold < norm
        if refused:
            raise self._refused(norm, gradients, at_once=True)

    def _note_update(self) -> None:
        """Count an update that was sent or made."""
        self._updates += 1

    def _send(self, members: Members, dense: tuple[bool, ...], decay: float) -> None:
        step = min(self._updates + 1, _LAST_COUNT)
        update = self._compiled()
        targets, values, norm = update(
            scalars(self._learning_rate, self._threshold, step, decay),
            members.values,
            self._states.targets(members),
            self._gatherer.gather(members),
            dense=dense,
            frozen_sizes=tuple([s.shape[0] for s in with_gradient(members)]),
        )
        self._store(members, values, targets, 1 - decay)
        if self._deferred is not None:
            rate = self._learning_rate
            self._deferred.after_update(members.tables, dense, step, rate)
        copy_soon(norm)
        self._sent = _Sent(norm, self._threshold, _take_gradients(members))
        self._note_update()

    def _start_to_decay(self, tables: list[TableStorage]) -> float:
        """How much of every weight this update takes away."""
        decay = self._collection.get_weight_decay()
        if decay > 0:
            if self._lazy_correct and self.sparse_updates_enabled:
                raise ValueError(
                    error_text(
                        "update: no weight decay with lazy_correct",
                        got=f"a decay of {decay:g}",
                        expected="set_weight_decay(0)",
                        fix="set_sparse_updates(False) gives the same result",
                    )
                )
            for table in tables:
                table.start_to_decay()
        return decay

    def _goes_to_all_rows(self, table: TableStorage, decay: float) -> bool:
        """Whether the rule does; where rows may wait, they do from now on."""
        everywhere = not (self.sparse_updates_enabled or self._still)
        if self._deferred is not None:
            pays = everywhere and self._averages is None and self._may_wait(table)
            if not decay and (self._lazy_correct or pays):
                self._deferred.take(table, moving=self._updates > 0)
                everywhere = False
            else:
                self._deferred.let_go(table)
        return everywhere or table.gradient is not None

    def _may_wait(self, table: TableStorage) -> bool:
        """Whether it pays that rows wait; those that do go on with it."""
        count, *row = table.shape
        if table.deferred is None:
            count -= LATE * table.part_size()
        return count * math.prod(row) >= LEAST

    def _store(
        self, members: Members, values: list[Any], targets: Targets, kept: float
    ) -> None:
        # The old tables and states are gone: the new ones come first.
        for table, new in zip(members.tables, targets.tables, strict=True):
            table.store(new, kept)
        self._states.put(members, targets)
        for block, new_values in zip(members.blocks, values, strict=True):
            for parameter, new in zip(block, new_values, strict=True):
                parameter.values = new

    def updated_storages(self) -> list[DenseStorage | TableStorage]:
        """Storages of the parameters, and then of the tables, that it updates."""
        return self._census.members().updated

    def move_state(self, place: Callable[[np.ndarray], np.ndarray]) -> None:
        """Have each array of the state where `place` puts it, always in one order."""
        self._settle()
        self._states.move(self._census.members(), place)

    def why_not_shared(self) -> str:
        """What of its state is in no array of `move_state`; empty if all is."""
        if self._averages is not None:
            return "moving averages"
        if self._collection.get_weight_decay() > 0:
            return "weight decay"
        if self._lazy_correct:
            return "rows that catch up with updates"
        can_move = self._states.can_move
        if not (can_move and self._can_be_native(self._census.members())):
            return f"{self.whoami()}, whose rule looks at whole parameters"
        return ""

    def defer_no_rows(self) -> None:
        """Have every update change all rows that it is to change, from now on."""
        if self._deferred is not None:
            self._deferred.let_all_go()
            self._deferred = None

    @property
    def count_of_updates(self) -> int:
        """How many there were, which rules like Adam's go by."""
        return self._updates

    @count_of_updates.setter
    def count_of_updates(self, count: int) -> None:
        self._updates = count

    def check(self) -> None:
        """Wait for the last update, and raise if it was refused.

        Raises:
            RuntimeError: as `update` says.
        """
        self._settle()
        _unread.pop(id(self), None)
        refusal, self._refusal = self._refusal, None
        if refusal is not None:
            raise refusal

    def _settle(self) -> None:
        if self._sent is None:
            return
        norm, threshold, gradients = self._sent
        length = float(np.asarray(norm))  # float(norm) takes four times as long
        self._sent = None
        if not _is_refused(length, threshold):
            self._clips += threshold > 0 and length > threshold
            return
        self._undo()
        self._refusal = self._refused(length, gradients, at_once=not _asynchronous)

    def _refused(
        self, length: float, gradients: dict[Any, Any], at_once: bool
    ) -> RuntimeError:
        """What to raise for gradients of this norm."""
        worst, source = self._worst(gradients), _trace()
        return RuntimeError(
            error_text(
                f"update: Magnitude of gradient is bad: {length:g}",
                got=f"{worst}, from {source}" if source else worst,
                expected="a finite norm; no parameter was changed",
                fix="look for log(0) and the like, or lower the learning rate"
                if source or at_once
                else "init(async_checks=False) tells which operation it comes from",
            )
        )

    def _undo(self) -> None:
        """Take back what was noted of an update that was refused."""
        self._updates -= 1
        if self._deferred is not None:
            self._deferred.undo()

    def _worst(self, taken: dict[Any, Any]) -> str:
        """The first gradient that makes the norm no number, in words.

        That of a frozen parameter is cleared, or no update could follow.
        """
        worst, name = 0.0, ""
        for storage in self._storages():
            if storage in taken:
                size = storage.largest(taken[storage])
            else:
                size = storage.largest(storage.gradient_now())
                if not math.isfinite(size):
                    storage.take_gradient()
            if not (size <= worst or math.isnan(worst)):
                worst, name = size, storage.name
        return f"{worst:g} in the gradient of {name}"

    def _storages(self) -> list[Any]:
        """Storages of the collection, in order of creation, tables last."""
        self._census.look()
        parameters = [s for s in self._census.parameters if not s.in_table]
        return [*parameters, *self._census.tables]

    def restart(self, learning_rate: float | None = None) -> None:
        """Set all state of the rule to zero. The count of updates goes on.

        Args:
            learning_rate: a new one, if given.
        """
        self._settle()
        if self._deferred is not None:
            self._deferred.let_all_go()
        self._states.clear()
        if learning_rate is not None:
            self.learning_rate = learning_rate


def _is_refused(norm: float, threshold: float) -> bool:
    """Whether gradients of this norm cannot be clipped."""
    return threshold > 0 and not math.isfinite(norm)


def _take_gradients(members: Members) -> dict[Any, Any]:
    """The gradients of all that is updated, by whose they are; cleared there."""
    return {owner: owner.take_gradient() for owner in members.updated}


_trainers: weakref.WeakSet[Trainer] = weakref.WeakSet()


def is_there_a_trainer() -> bool:
    """Whether somebody has one."""
    return bool(_trainers)


# Those with an update that was not looked at, by id; a weak set is slow to ask.
_unread: dict[int, weakref.ref[Trainer]] = {}
_asynchronous = True
_is_chosen = False  # by the user
_trace: Callable[[], str] = str  # which is ""


def check_pending() -> None:
    """Raise what the last update of any trainer was refused for, if one was.

    Raises:
        RuntimeError: see `Trainer.update`.
    """
    for number, known in [*_unread.items()]:
        trainer = known()
        if trainer is not None:
            trainer.check()
        else:
            _unread.pop(number, None)


def trace_by(trace: Callable[[], str]) -> None:
    """Have `trace` say in words where bad gradients come from; "" if it cannot."""
    global _trace
    _trace = trace


def set_async_checks(enabled: bool) -> None:
    """Whether updates are checked when values are next read, not at once.

    With False every ``update()`` waits for the device and raises at its own line.
    """
    global _asynchronous, _is_chosen
    _asynchronous, _is_chosen = bool(enabled), True


def check_at_once_by_default() -> None:
    """Let every ``update()`` raise at its own line, unless the user has chosen."""
    global _asynchronous
    if not _is_chosen:
        _asynchronous = False
