"""A pool of workers that learn from data, by their numbers.

Where workers update by themselves, each is given chunks of data ahead. Where they
update together they are given as many data each, in rounds, and after each the first
one writes what it has to shared memory.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import numpy as np

from dynetjax.core.errors import error_text
from dynetjax.core.group import PROCESS
from dynetjax.parallel.pickling import Letter, SharedModel, opened
from dynetjax.parallel.segment import Segment
from dynetjax.parallel.workers import Workers
from dynetjax.trainers.base import Trainer
from dynetjax.trainers.shared import SharedState

AHEAD = 2  # chunks that a worker has, so that it need not wait for the next
MOST = 16  # data in a chunk
LARGE = 1 << 22  # numbers of a model that is not written after each round


class Mailing(NamedTuple):
    """What a worker is sent when it starts.

    Attributes:
        letter: what computes a loss, the trainer, and both kinds of data.
        state: the name of the segment with the trainer's state; empty where workers
            update together.
        lock: held by who updates.
    """

    letter: Letter
    state: str
    lock: Any


class Task(NamedTuple):
    """What a worker is to do.

    Attributes:
        numbers: of data, among those to learn from or those held out.
        learns: whether it is to learn from them.
        reads: it takes the values from shared memory first.
        writes: the first worker writes them there after it.
        tells: and tells the state of its trainer.
        learning_rate: a new one, or None.
    """

    numbers: list[int]
    learns: bool
    reads: bool = False
    writes: bool = False
    tells: bool = False
    learning_rate: float | None = None


class Pool:
    """Workers, and what they have in common with this process.

    Args:
        workers: who does `work`.
        model: learner, trainer and data.
        trainer: this process's.
        state: that of the trainer; None where workers update together.
        lock: held by who updates.
    """

    def __init__(
        self,
        workers: Workers,
        model: SharedModel,
        trainer: Trainer,
        state: SharedState | None,
        lock: Any,
    ):
        self._workers, self._model, self._trainer = workers, model, trainer
        self._state, self._lock = state, lock
        self._rate = trainer.learning_rate  # that workers know
        sizes = [np.prod(place.shape) for place in model.letter.places]
        self._is_large = sum(sizes) > LARGE

    def losses(
        self,
        order: list[int],
        learns: bool,
        note: Callable[[list[float]], object],
        frequency: int = 0,
    ) -> None:
        """Have data of these numbers computed.

        Args:
            order: the numbers.
            learns: whether workers are to learn from them.
            note: gets the losses as they come.
            frequency: about how many should come at a time; 0 if that is no matter.
        Raises:
            WorkerError: a worker has failed.
        """
        self._model.publish()
        if learns and self._state is None:
            self._together(order, note, frequency)
        else:
            self._each(order, learns, note, frequency)

    def _each(
        self,
        order: list[int],
        learns: bool,
        note: Callable[[list[float]], object],
        frequency: int,
    ) -> None:
        pipes = self._workers.pipes
        size = max(1, min(MOST, len(order) // (8 * len(pipes)), frequency or MOST))
        todo = (order[k : k + size] for k in range(0, len(order), size))
        waiting = 0
        self._set_learning_rate()
        for pipe, numbers in zip(pipes * AHEAD, todo):  # noqa: B905
            pipe.send(Task(numbers, learns))
            waiting += 1
        while waiting:
            rank, (losses, _) = self._workers.receive()
            waiting -= 1
            self._set_learning_rate()
            for numbers in islice(todo, 1):
                pipes[rank].send(Task(numbers, learns))
                waiting += 1
            self._learn_counts()
            note(losses)

    def _set_learning_rate(self) -> None:
        """Have workers that update by themselves use a new one."""
        if self._state is not None and self._trainer.learning_rate != self._rate:
            with self._lock:
                self._state.set_learning_rate()
            self._rate = self._trainer.learning_rate

    def _learn_counts(self) -> None:
        if self._state is not None:
            self._state.read_head()
            self._rate = self._trainer.learning_rate

    def _together(
        self, order: list[int], note: Callable[[list[float]], object], frequency: int
    ) -> None:
        pipes, rounds = self._workers.pipes, list(self._rounds(order, frequency))
        for k, numbers in enumerate(rounds):
            is_last, rate = k == len(rounds) - 1, self._trainer.learning_rate
            task = Task(
                [],
                learns=True,
                reads=k == 0,
                writes=is_last or not self._is_large,
                tells=is_last,
                learning_rate=None if rate == self._rate else rate,
            )
            for pipe, own in zip(pipes, numbers, strict=True):
                pipe.send(task._replace(numbers=own))
            self._rate = rate
            losses: list[float] = []
            for _ in pipes:
                _, (some, state) = self._workers.receive()
                losses += some
                if state is not None:
                    self._trainer.load_state_dict(state)
                    self._rate = self._trainer.learning_rate
            note(losses)

    def _rounds(self, order: list[int], frequency: int) -> Iterator[list[list[int]]]:
        """Data of each worker, as many for each: some come twice."""
        count = len(self._workers.pipes)
        filled = np.resize(order, -(-len(order) // count) * count).reshape(-1, count)
        size = max(1, min(MOST, (frequency or len(order)) // count))
        for k in range(0, len(filled), size):
            yield filled[k : k + size].T.tolist()


def work(pipe: Connection, mailing: Mailing) -> None:
    """What a worker does: what it is sent, until there is no more."""
    received = opened(mailing.letter)
    compute, trainer, data = received.things
    state = None
    if mailing.state:
        memory = Segment(mailing.state)
        trainer.defer_no_rows()
        state = SharedState(trainer, memory.buf, fill=False)
    while True:
        try:
            task = pipe.recv()
        except EOFError:
            return
        if task.learning_rate is not None:
            trainer.learning_rate = task.learning_rate
        if task.reads:
            for storage, view in zip(received.storages, received.views, strict=True):
                storage.values = view.copy()
        losses = []
        for number in task.numbers:
            losses.append(compute(data[not task.learns][number], task.learns))
            if task.learns and state is not None:
                with mailing.lock:
                    state.update()
            elif task.learns:
                trainer.update()
        if task.writes and PROCESS.rank == 0:
            for storage, view in zip(received.storages, received.views, strict=True):
                view[...] = storage.host_values()
        tells = task.tells and PROCESS.rank == 0
        pipe.send((losses, trainer.state_dict() if tells else None))


def require_shared(learner: list[Any], trained: list[Any], caller: str) -> None:
    """Refuse a learner that has none of the trainer's parameters in it.

    Args:
        learner: storages that are sent with it.
        trained: those of the trainer.
        caller: its name in messages.
    Raises:
        ValueError: it has none.
    """
    if trained and not {*learner} & {*trained}:
        raise ValueError(
            error_text(
                f"{caller}: the learner has none of the trainer's parameters in it",
                got="a function, or an object without the model",
                expected="an object that has the model, whose __call__ computes a loss",
                fix="each process would have a model of its own, and learn nothing",
            )
        )
