"""Worker processes: started together, and ended together.

A worker that raises sends its traceback; one that is killed, or stands still, is
noticed. Then the others are ended, too, and whoever started them is told why.
"""

import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple

import numpy as np

from dynetjax.core.devices import have_one_each
from dynetjax.core.errors import error_text
from dynetjax.core.group import PROCESS, Message
from dynetjax.model.random import reset_random_seed
from dynetjax.parallel.hosts import HostGroup, Hosts
from dynetjax.parallel.local_group import MemoryGroup, Seat, seats

BEAT = 0.5  # seconds between two signs of life
LOOK = 0.2  # seconds between two looks at the workers
GRACE = 2.0  # seconds from being asked to end until being ended
CONTEXT: Any = multiprocessing.get_context("spawn")


class WorkerError(RuntimeError):
    """A worker has failed, or its process has died or stood still.

    Attributes:
        rank: its number.
    """

    def __init__(self, rank: int, message: str):
        super().__init__(message)
        self.rank = rank

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.rank, *self.args)


class Failure(NamedTuple):
    """What a worker sends before it ends with an error.

    Attributes:
        text: why.
    """

    text: str


class Workers:
    """Processes of one group.

    Args:
        work: what each calls, a function of a module: with its end of a pipe, and with
            its arguments.
        arguments: of each, by rank.
        seed: of their random numbers, one for all; masks differ by rank.
        meets, averages: see `dynetjax.core.group.Process`.
        hosts: machines, each with as many workers; None if all are on this one.
        patience: seconds without a sign of life, after which a worker is given up.

    Attributes:
        pipes: to each worker, by rank.
    """

    def __init__(
        self,
        work: Callable[..., object],
        arguments: list[tuple[Any, ...]],
        *,
        seed: int,
        meets: bool = True,
        averages: bool = True,
        hosts: Hosts | None = None,
        patience: float = 10,
    ):
        self._patience = patience
        self._board, self._seats = seats(len(arguments), CONTEXT)
        self._beats = [(0, time.monotonic())] * len(arguments)
        self.pipes: list[Connection] = []
        self._processes: list[Any] = []
        try:
            for seat, given in zip(self._seats, arguments, strict=True):
                here, there = CONTEXT.Pipe()
                self.pipes.append(here)
                process = CONTEXT.Process(
                    target=_run,
                    args=(seat, (seed, meets, averages), hosts, there, work, given),
                    name=f"dynetjax-{seat.rank}",
                )
                self._processes.append(process)
                process.start()
                there.close()
        except BaseException:
            self.close()
            raise

    def join(self) -> None:
        """Wait until all have ended.

        Raises:
            WorkerError: one has failed, and the others were ended.
        """
        while self.are_alive():
            self.look()
        self.look()

    def are_alive(self) -> bool:
        """Whether some have not ended; waits a little for that."""
        alive = [p.sentinel for p in self._processes if p.exitcode is None]
        if alive:
            wait(alive, LOOK)
        return bool(alive)

    def look(self) -> None:
        """Look for one that has failed.

        Raises:
            WorkerError: there is one.
        """
        for rank, process in enumerate(self._processes):
            if process.exitcode:
                raise WorkerError(rank, self._told_by(rank, process.exitcode))
            if process.exitcode is None and self._stands_still(rank):
                raise WorkerError(
                    rank,
                    error_text(
                        f"process {rank} stands still",
                        got=f"no sign of life for {self._patience:g} seconds",
                        expected="one every half second",
                        fix="find out what it waits for, or allow more patience",
                    ),
                )

    def _stands_still(self, rank: int) -> bool:
        beat, now = self._board.beat(rank), time.monotonic()
        if not beat or beat != self._beats[rank][0]:  # it has not begun, or lives
            self._beats[rank] = beat, now
        return now - self._beats[rank][1] > self._patience

    def receive(self) -> tuple[int, Any]:
        """The next thing that a worker sends, and its rank.

        Raises:
            WorkerError: one has failed.
        """
        while True:
            ready: list[Any] = wait(self.pipes, LOOK)
            for pipe in ready:
                rank = self.pipes.index(pipe)
                try:
                    told = pipe.recv()
                except (EOFError, OSError):
                    self._processes[rank].join(LOOK)
                    if self._processes[rank].exitcode == 0:
                        text = f"process {rank} has ended before its work was done"
                        raise WorkerError(rank, text) from None
                    continue
                if isinstance(told, Failure):
                    raise WorkerError(rank, told.text)
                return rank, told
            self.look()

    def _told_by(self, rank: int, code: int) -> str:
        """Why a worker has ended with this exit status."""
        pipe = self.pipes[rank]
        try:
            while pipe.poll():
                told = pipe.recv()
                if isinstance(told, Failure):
                    return told.text
        except (EOFError, OSError):
            pass
        name = signal.Signals(-code).name if code < 0 else f"exit status {code}"
        return f"process {rank} was ended by {name}"

    def close(self, grace: float = 0) -> None:
        """End those that are left after some seconds, and give everything back."""
        for pipe in self.pipes:  # whoever waits for more hears that there is no more
            pipe.close()
        self._processes = [p for p in self._processes if p.pid is not None]  # started
        self._wait(grace)
        for process in self._processes:
            if process.exitcode is None:
                process.terminate()
        self._wait(GRACE)
        for process in self._processes:
            if process.exitcode is None:
                process.kill()
                process.join()
            process.close()
        self._processes, self.pipes = [], []
        self._board.remove()

    def _wait(self, seconds: float) -> None:
        """Until all have ended, or so long."""
        until = time.monotonic() + seconds
        for process in self._processes:
            process.join(max(0, until - time.monotonic()))

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, kind: Any, *_: object) -> None:
        self.close(GRACE if kind is None else 0)


def _run(
    seat: Seat,
    settings: tuple[int, bool, bool],
    hosts: Hosts | None,
    pipe: Connection,
    work: Callable[..., object],
    given: tuple,
) -> None:
    """What a worker does."""
    share = max(1, (os.cpu_count() or 1) // seat.size)
    os.environ.setdefault("DYNETJAX_THREADS", str(share))  # read at the first graph
    on_machine = MemoryGroup(seat)
    ended = threading.Event()
    life = threading.Thread(target=_live, args=(on_machine, ended), daemon=True)
    life.start()
    try:
        group = _join(on_machine, settings, hosts)
        work(pipe, *given)
        group.end()
    except KeyboardInterrupt:
        sys.exit(130)
    except SystemExit as end:
        if end.code in (None, 0):
            group.end()
        else:
            pipe.send(Failure(f"process {PROCESS.rank} has ended: {end.code}"))
        raise
    except BaseException:
        told = f"process {PROCESS.rank} has failed\n{traceback.format_exc()}"
        pipe.send(Failure(told))
        sys.exit(1)
    finally:
        ended.set()
        life.join()
        on_machine.leave()


def _join(
    on_machine: MemoryGroup, settings: tuple[int, bool, bool], hosts: Hosts | None
) -> MemoryGroup | HostGroup:
    """Be one of the group, with the seed that the first process has."""
    group: MemoryGroup | HostGroup = on_machine
    seed, *rest = settings
    if hosts is not None:
        group = HostGroup(hosts, on_machine.rank, on_machine.size)
        own = np.array([seed], np.uint32).view(np.int32)
        told, _ = group.exchange(Message(own, np.zeros(0, np.float32)), [])
        seed = int(told[0].words.view(np.uint32)[0])
    elif rest[0] and have_one_each(group.size):
        on_machine.take_devices()
    PROCESS.join(group)
    PROCESS.seed, (PROCESS.meets, PROCESS.averages) = seed, rest
    reset_random_seed(seed)
    if group.rank:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    return group


def _live(group: MemoryGroup, ended: threading.Event) -> None:
    """Give signs of life; end this process if whoever started it has ended."""
    group.beat()
    while not ended.wait(BEAT):
        group.beat()
        _end_without_parent()


def end_with_parent() -> None:
    """End this process when whoever started it has ended."""
    while True:
        time.sleep(BEAT)
        _end_without_parent()


def _end_without_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None and not parent.is_alive():
        os.kill(os.getpid(), signal.SIGTERM)


def checked_count(caller: str, processes: int | None) -> int:
    """How many processes: as many as there are cores if None.

    Raises:
        ValueError: that is no number above 0.
    """
    count = (os.cpu_count() or 1) if processes is None else processes
    if not isinstance(count, int) or count < 1:
        raise ValueError(
            error_text(
                f"{caller}: there is no such number of processes",
                got=repr(processes),
                expected="a number from 1 on, or None for all cores",
                fix="leave it out",
            )
        )
    return count
