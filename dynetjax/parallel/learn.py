"""Training in a pool of processes: ``train``, and DyNet's ``RunMultiProcess``.

Each worker has a copy of the learner and of the trainer. Their numbers, the state of
the trainer included, are in shared memory: a worker computes a gradient by the values
as they are while others change them, and then makes its update, one worker at a time.
With ``synchronous=True`` the workers are replicas instead, which make every update
together; see `dynetjax.trainers.replicas`.
"""

import contextlib
import math
import os
import secrets
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import numpy as np

from dynetjax.core.errors import error_text
from dynetjax.core.expression import Expression
from dynetjax.core.group import PROCESS
from dynetjax.graph import renew_cg
from dynetjax.parallel.segment import Segment
from dynetjax.parallel.shared import Letter, SharedModel, opened
from dynetjax.parallel.workers import CONTEXT, Workers
from dynetjax.trainers.base import Trainer
from dynetjax.trainers.shared import SharedState, why_not

AHEAD = 2  # chunks that a worker has, so that it need not wait for the next
MOST = 16  # data in a chunk


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


class _Mailing(NamedTuple):
    """What a worker is sent when it starts.

    Attributes:
        letter: what computes a loss, the trainer, and both kinds of data.
        state: the name of the segment with the trainer's state.
        lock: held by who updates; None where workers update together.
    """

    letter: Letter
    state: str
    lock: Any


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
            that it finds. A function of a module, or an object with ``__call__``; it
            may have the parameters in it. It is pickled.
        train_data: learned from in another order each epoch.
        dev_data: held-out data, whose mean loss decides which epoch is best; without
            it the mean loss in training does.
        trainer: of the parameters.
        processes: how many; as many as there are cores if None.
        epochs: times that the data is gone through.
        report: called with a `Report` after each epoch, and after `report_frequency`
            data.
        report_frequency: 0 is once an epoch.
        save: called where an epoch was the best so far.
        synchronous: all workers wait for one another, and go by the mean of their
            gradients. Otherwise each updates by its own, as in the DyNet paper.
        seed: of the orders and of masks.
        patience: seconds without a sign of life, after which training ends.
    Raises:
        TypeError: something cannot be sent to other processes.
        ValueError: there is no data; or the trainer cannot be shared.
        WorkerError: a worker has failed; the values are those of the last update.
    """
    settings = _Settings(epochs, 0, report_frequency, report, save)
    return _train(
        _OfLoss(learner),
        (list(train_data), list(dev_data or ())),
        trainer,
        processes or os.cpu_count() or 1,
        settings,
        synchronous=synchronous,
        seed=secrets.randbelow(2**32 - 1) + 1 if seed is None else seed,
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
        _OfLearner(learner),
        data,
        trainer,
        num_children,
        _Settings(
            num_iterations, dev_frequency, report_frequency, _print, learner.SaveModel
        ),
        synchronous=False,
        seed=secrets.randbelow(2**32 - 1) + 1,
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
    compute: Callable[[Any, bool], float],
    data: tuple[list[Any], list[Any]],
    trainer: Trainer,
    processes: int,
    settings: _Settings,
    *,
    synchronous: bool,
    seed: int,
    patience: float,
) -> float:
    if not data[0]:
        raise ValueError(
            error_text(
                "train: there is no data",
                got="a sequence of length 0",
                expected="something to learn from",
                fix="check what was read from the file",
            )
        )
    if not synchronous and (reason := why_not(trainer)):
        raise ValueError(
            error_text(
                "train: the updates of this trainer cannot be shared",
                got=reason,
                expected="a trainer without",
                fix="synchronous=True",
            )
        )
    what = "train: the learner, or the data,"
    with contextlib.ExitStack() as stack:
        model = SharedModel((compute, trainer, data), what)
        stack.callback(model.close)
        lock, state = CONTEXT.Lock(), None
        if not synchronous:
            memory = Segment(create=True, size=SharedState.bytes_for(trainer))
            stack.callback(memory.remove)
            state = SharedState(trainer, memory.buf, fill=True)
            stack.callback(state.leave)
        mailing = _Mailing(model.letter, memory.name if state else "", lock)
        mailings = [(mailing,)] * processes
        workers = stack.enter_context(
            Workers(_work, mailings, seed=seed, meets=synchronous, patience=patience)
        )
        pool = _Pool(workers, trainer, state, lock)
        return _Training(pool, data, settings, seed).run()


class _Pool:
    """Workers that are given data by their numbers.

    Args:
        workers: each has all data.
        trainer: this process's.
        state: that all have in common; None where they update together.
        lock: held by who updates.
    """

    def __init__(
        self, workers: Workers, trainer: Trainer, state: SharedState | None, lock: Any
    ):
        self._workers, self._trainer = workers, trainer
        self._state, self._lock = state, lock

    def losses(
        self, order: list[int], learns: bool, note: Callable[[list[float]], object]
    ) -> None:
        """Have data of these numbers computed; `note` gets the losses as they come."""
        pipes = self._workers.pipes
        together = learns and self._state is None
        size = max(1, min(MOST, len(order) // (8 * len(pipes))))
        starts = range(0, len(order), size)
        chunks = (
            self._turns(order) if together else [order[k : k + size] for k in starts]
        )
        todo, waiting = iter(chunks), 0
        for pipe, chunk in zip(pipes * (1 if together else AHEAD), todo):  # noqa: B905
            pipe.send((chunk, learns))
            waiting += 1
        while waiting:
            rank, (losses, state) = self._workers.receive()
            waiting -= 1
            for chunk in islice(todo, 1):
                pipes[rank].send((chunk, learns))
                waiting += 1
            if state is not None:
                self._trainer.load_state_dict(state)
            note(losses)
        if self._state is not None:
            with self._lock:
                self._state.set_learning_rate()

    def _cut(self, order: list[int]) -> Iterator[list[int]]:
        """Chunks, a few for each worker at least."""
        size = max(1, min(MOST, len(order) // (8 * len(self._workers.pipes))))
        return (order[k : k + size] for k in range(0, len(order), size))

    def _turns(self, order: list[int]) -> list[list[int]]:
        """All of a worker's data in a chunk, as many for each: some come twice."""
        count = len(self._workers.pipes)
        filled = np.resize(order, -(-len(order) // count) * count)
        return [filled[k::count].tolist() for k in range(count)]


class _Training:
    """Epochs, and what is told of them."""

    def __init__(
        self,
        pool: _Pool,
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

        self._pool.losses(order, True, note)
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


def _work(pipe: Connection, mailing: _Mailing) -> None:
    """What a worker does: compute what it is sent, until there is no more."""
    (compute, trainer, data), storages, views = opened(mailing.letter)
    state = None
    if mailing.state:
        memory = Segment(mailing.state)
        trainer.defer_no_rows()
        state = SharedState(trainer, memory.buf, fill=False)
    else:
        for storage, view in zip(storages, views, strict=True):
            storage.values = view.copy()
    while True:
        try:
            chunk, learns = pipe.recv()
        except EOFError:
            return
        losses, told = [], None
        for number in chunk:
            losses.append(compute(data[not learns][number], learns))
            if learns and state is not None:
                with mailing.lock:
                    state.update()
            elif learns:
                trainer.update()
        if learns and state is None and PROCESS.rank == 0:
            for storage, view in zip(storages, views, strict=True):
                view[...] = storage.host_values()
            told = trainer.state_dict()
        pipe.send((losses, told))
