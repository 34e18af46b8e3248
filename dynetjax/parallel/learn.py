"""Training in a pool of processes: ``train``, and DyNet's ``RunMultiProcess``.

Each worker has a copy of the learner and of the trainer. Their numbers, the state of
the trainer included, are in shared memory: a worker computes a gradient by the values
as they are while others change them, and then makes its update, one worker at a time.
With ``synchronous=True`` the workers are replicas instead, which make every update
together; see `dynetjax.trainers.replicas`.
"""

import contextlib
import math
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from dynetjax.core.errors import error_text
from dynetjax.core.expression import Expression
from dynetjax.graph import renew_cg
from dynetjax.model.random import new_seed
from dynetjax.parallel.pickling import SharedModel
from dynetjax.parallel.pool import Mailing, Pool, require_shared, work
from dynetjax.parallel.segment import Segment
from dynetjax.parallel.workers import CONTEXT, Workers, checked_count
from dynetjax.trainers.base import Trainer
from dynetjax.trainers.shared import SharedState, why_not


class Report(NamedTuple):
    """How training goes.

    Attributes:
        epoch: from 0.
        seen: data of this epoch that were learned from.
        loss: their mean loss since the last report.
        dev_loss: the mean loss of the held-out data; None if they were not looked at.
        is_best: whether that is the lowest so far.
        seconds: since training began.
    """

    epoch: int
    seen: int
    loss: float
    dev_loss: float | None
    is_best: bool
    seconds: float


class _OfLoss:
    """Computes by a function that makes the expression of a loss."""

    def __init__(self, learner: Callable[[Any], Expression]):
        self._learner = learner

    def __call__(self, datum: Any, learns: bool) -> float:
        renew_cg()
        loss = self._learner(datum)
        value: Any = loss.value()
        if learns:
            loss.backward()
        return value


class _OfLearner:
    """Computes by an object such as DyNet's ``ILearner``."""

    def __init__(self, learner: Any):
        self._learner = learner

    def __call__(self, datum: Any, learns: bool) -> float:
        return float(self._learner.LearnFromDatum(datum, learns))


def train(
    learner: Callable[[Any], Expression],
    train_data: Sequence[Any],
    dev_data: Sequence[Any] | None = None,
    *,
    trainer: Trainer,
    processes: int | None = None,
    epochs: int = 1,
    report: Callable[[Report], object] | None = None,
    report_frequency: int = 0,
    save: Callable[[], object] | None = None,
    synchronous: bool = False,
    seed: int | None = None,
    patience: float = 10,
) -> float:
    """Train in several processes; the lowest mean loss found.

    Args:
        learner: ``learner(datum)`` is the loss of a datum, one number, in the graph
            that it finds. An object of a module's class, which has the model in it, or
            a method of it. It is pickled. (A function finds another model in the module
            of each process.)
        train_data: learned from in another order each epoch.
        dev_data: held-out data, whose mean loss decides which epoch is best; without
            it the mean loss in training does.
        trainer: of the parameters.
        processes: how many; as many as there are cores if None.
        epochs: times that the data is gone through.
        report: called with a `Report` after each epoch, and after `report_frequency`
            data or a few more. Where it sets values, they hold from the next epoch on;
            a learning rate holds from the next data on.
        report_frequency: 0 is once an epoch.
        save: called where an epoch was the best so far.
        synchronous: all workers wait for one another, and go by the mean of their
            gradients. Otherwise each updates by its own, as in the DyNet paper.
        seed: of the orders and of masks.
        patience: seconds without a sign of life, after which training ends.
    Raises:
        TypeError: something cannot be sent to other processes.
        ValueError: there is no data, or no such number of processes; the trainer's
            updates cannot be shared; or the learner has none of its parameters.
        WorkerError: a worker has failed. The values are those of the last update, or
            where workers wait for one another those from a few updates before.
    """
    settings = _Settings(epochs, 0, report_frequency, report, save)
    return _train(
        "train",
        _OfLoss(learner),
        (list(train_data), list(dev_data or ())),
        trainer,
        processes,
        settings,
        synchronous=synchronous,
        seed=new_seed() if seed is None else seed,
        patience=patience,
    )


def run_multi_process(
    num_children: int,
    learner: Any,
    trainer: Trainer,
    train_data: Sequence[Any],
    dev_data: Sequence[Any],
    num_iterations: int,
    dev_frequency: int,
    report_frequency: int,
) -> None:
    """Train as ``RunMultiProcess`` of DyNet's C++ does.

    Args:
        num_children: how many processes.
        learner: ``LearnFromDatum(datum, learn)`` returns the loss of a datum as a
            number, and calls backward if it is to learn. ``SaveModel()`` is called
            where the loss of the held-out data is the lowest so far. It is pickled.
        trainer: of the parameters.
        train_data, dev_data: to learn from, and held out.
        num_iterations: times that the data is gone through.
        dev_frequency: of so many data, held-out data are looked at.
        report_frequency: of so many data, the loss is written to stderr.
    Raises:
        TypeError, ValueError, WorkerError: see `train`.
    """
    data = list(train_data), list(dev_data)
    _train(
        "run_multi_process",
        _OfLearner(learner),
        data,
        trainer,
        num_children,
        _Settings(
            num_iterations, dev_frequency, report_frequency, _print, learner.SaveModel
        ),
        synchronous=False,
        seed=new_seed(),
        patience=10,
    )


def _print(report: Report) -> None:
    held_out = "" if report.dev_loss is None else f", held out {report.dev_loss:.5g}"
    best = " (best)" if report.is_best and held_out else ""
    text = f"epoch {report.epoch}, {report.seen} data: loss {report.loss:.5g}"
    print(f"{text}{held_out}{best}", file=sys.stderr, flush=True)


class _Settings(NamedTuple):
    """How long to train, and what to do meanwhile; see `train`."""

    epochs: int
    dev_frequency: int
    report_frequency: int
    report: Callable[[Report], object] | None
    save: Callable[[], object] | None


def _train(
    caller: str,
    compute: Callable[[Any, bool], float],
    data: tuple[list[Any], list[Any]],
    trainer: Trainer,
    processes: int | None,
    settings: _Settings,
    *,
    synchronous: bool,
    seed: int,
    patience: float,
) -> float:
    count = checked_count(caller, processes)
    _require_trainable(caller, data, trainer, synchronous)
    with contextlib.ExitStack() as stack:
        model = SharedModel(caller, learner=compute, trainer=trainer, data=data)
        stack.callback(model.close)
        learner = model.contents["learner"]
        require_shared(learner, trainer.updated_storages(), caller)
        lock, state, name = CONTEXT.Lock(), None, ""
        if not synchronous:
            memory = Segment.made(SharedState.bytes_for(trainer))
            stack.callback(memory.remove)
            state, name = SharedState(trainer, memory.buf, fill=True), memory.name
            stack.callback(state.leave)
        mailings = [(Mailing(model.letter, name, lock),)] * count
        workers = stack.enter_context(
            Workers(work, mailings, seed=seed, meets=synchronous, patience=patience)
        )
        pool = Pool(workers, model, trainer, state, lock)
        return _Training(pool, data, settings, seed).run()


def _require_trainable(
    caller: str, data: tuple[list[Any], list[Any]], trainer: Trainer, synchronous: bool
) -> None:
    """Refuse what no pool could be for.

    Raises:
        ValueError: there is no data, or the trainer's updates cannot be shared.
    """
    if not data[0]:
        raise ValueError(
            error_text(
                f"{caller}: there is no data",
                got="a sequence of length 0",
                expected="something to learn from",
                fix="check what was read from the file",
            )
        )
    if not synchronous and (reason := why_not(trainer)):
        raise ValueError(
            error_text(
                f"{caller}: the updates of this trainer cannot be shared",
                got=reason,
                expected="a trainer without",
                fix="synchronous=True",
            )
        )


class _Training:
    """Epochs, and what is told of them."""

    def __init__(
        self,
        pool: Pool,
        data: tuple[list[Any], list[Any]],
        settings: _Settings,
        seed: int,
    ):
        self._pool, self._data, self._settings = pool, data, settings
        self._seed, self._begun = seed, time.monotonic()
        self._best = math.inf
        self._since: list[float] = []  # losses since the last report
        self._seen = self._epoch = 0

    def run(self) -> float:
        """All of it; the lowest mean loss."""
        count = len(self._data[0])
        size = self._settings.dev_frequency or count
        for epoch in range(self._settings.epochs):
            self._epoch, self._seen = epoch, 0
            rng = np.random.default_rng([self._seed, epoch])
            order = rng.permutation(count).tolist()
            for start in range(0, count, size):
                self._stretch(order[start : start + size])
        return self._best

    def _stretch(self, order: list[int]) -> None:
        """Learn from some data, and look at what is held out."""
        learned: list[float] = []

        def note(losses: list[float]) -> None:
            learned.extend(losses)
            self._since += losses
            self._seen += len(losses)
            if 0 < self._settings.report_frequency <= len(self._since):
                self._report(None, False)

        self._pool.losses(order, True, note, self._settings.report_frequency)
        held_out: list[float] = []
        if self._data[1]:
            self._pool.losses([*range(len(self._data[1]))], False, held_out.extend)
        loss = float(np.mean(held_out or learned))
        is_best = loss < self._best
        self._best = min(self._best, loss)
        self._since = self._since or learned
        self._report(loss if held_out else None, is_best)
        if is_best and self._settings.save is not None:
            self._settings.save()

    def _report(self, dev_loss: float | None, is_best: bool) -> None:
        if self._settings.report is not None:
            mean, passed = float(np.mean(self._since)), time.monotonic() - self._begun
            epoch, seen = self._epoch, self._seen
            self._settings.report(Report(epoch, seen, mean, dev_loss, is_best, passed))
        self._since = []
