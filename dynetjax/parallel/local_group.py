"""A group of processes on one machine, which meet in shared memory.

Each process has two segments that it alone writes to, for exchanges of even and of odd
number: what it wrote for one exchange is read until all have come to the next. A
semaphore of each process counts who has come. A board in shared memory tells what each
process is at, so that nobody waits for one that has ended.
"""

import contextlib
import os
import socket
import time
import zlib
from typing import Any, NamedTuple

import numpy as np

from dynetjax.core.errors import error_text
from dynetjax.core.group import Message
from dynetjax.core.lazy import jax
from dynetjax.native import core
from dynetjax.parallel.collectives import Collectives, connect
from dynetjax.parallel.segment import Segment

SPIN = 1000  # looks at the semaphore, half a millisecond, before a process sleeps
PATIENCE = 0.2  # seconds of sleep until it looks whom it waits for
NAP = 0.001  # seconds between two looks at the board
LEAST = 1 << 16  # bytes of a segment
STATE, COUNT, BEAT, SEGMENTS = 0, 1, 2, 3  # columns of a board; two of the last
FILES = 256  # that are told apart, by a digest of their path
HEAD = 3  # words of a segment: how many words, numbers and dense ones follow
WIDTH = 8  # int64 of each process on the board
ENDED = 1  # a state; it is 0 before


class Seat(NamedTuple):
    """A process's place in a group, which is sent to it when it starts.

    Attributes:
        rank, size: its number, and how many there are.
        name: of the board; segments are named after it.
        arrivals: for exchanges of even and of odd number, a semaphore of each process.
    """

    rank: int
    size: int
    name: str
    arrivals: tuple[list[Any], list[Any]]


class Board:
    """What each process is at, ``[size, WIDTH]`` int64; each writes its own row."""

    def __init__(self, name: str | None, size: int):
        count = WIDTH * size + 2 * FILES
        bytes_of_all = 8 * count
        self._memory = Segment.made(bytes_of_all) if name is None else Segment(name)
        self.name: str = self._memory.name
        numbers = self._memory.view((count,), np.int64)
        if name is None:
            numbers[:] = 0
        self.rows: Any = numbers[: WIDTH * size].reshape(size, WIDTH)
        self.files: Any = numbers[WIDTH * size :].reshape(FILES, 2)

    def beat(self, rank: int) -> int:
        """How many signs of life a process has given."""
        return int(self.rows[rank, BEAT])

    def close(self) -> None:
        """Give it up, in this process."""
        self.rows = self.files = None
        self._memory.close()

    def remove(self) -> None:
        """Give it up for all, with what processes made, once these have ended."""
        for rank, row in enumerate(self.rows.tolist()):
            for parity in range(2):
                for generation in range(1, row[SEGMENTS + parity] + 1):
                    name = segment_name(self.name, rank, parity, generation)
                    with contextlib.suppress(FileNotFoundError):
                        Segment(name).remove()
        self.rows = self.files = None
        self._memory.remove()


def segment_name(board: str, rank: int, parity: int, generation: int) -> str:
    """That of the memory that a process made for its exchanges."""
    return f"{board}-{rank}-{parity}-{generation}"


def seats(size: int, context: Any) -> tuple[Board, list[Seat]]:
    """A new board, and a place for each of so many processes."""
    board = Board(None, size)
    even, odd = [[context.Semaphore(0) for _ in range(size)] for _ in range(2)]
    return board, [Seat(rank, size, board.name, (even, odd)) for rank in range(size)]


class MemoryGroup:
    """See `dynetjax.core.group.Group`, and the module.

    Args:
        seat: this process's.
    """

    def __init__(self, seat: Seat):
        self.rank: int = seat.rank
        self.size: int = seat.size
        self.collectives: Collectives | None = None
        self._board = Board(seat.name, seat.size)
        self._own = self._board.rows[seat.rank]
        self._arrivals = seat.arrivals
        self._segments = [Segments(seat.name, rank) for rank in range(seat.size)]
        self._spin = SPIN if seat.size <= (os.cpu_count() or 1) else 1
        self._count = 0  # exchanges
        self._files: dict[int, int] = {}  # how often written, by digests of paths

    def exchange(
        self, message: Message, dense: list[np.ndarray], scale: float = 1.0
    ) -> tuple[list[Message], list[np.ndarray]]:
        """Meet the others; see `Group`."""
        parity = self._count % 2
        count = sum([array.size for array in dense])
        sizes = len(message.words), len(message.numbers), count
        segments = self._segments[self.rank]
        memory = segments.of_size(parity, 4 * (HEAD + sum(sizes)))
        words = np.frombuffer(memory, np.int32)
        numbers = np.frombuffer(memory, np.float32)
        start = HEAD + len(message.words)
        words[:HEAD], words[HEAD:start] = sizes, message.words
        stop = HEAD + sum(sizes)
        core.gather(numbers[start:stop], [message.numbers, *dense], scale)
        self._own[SEGMENTS + parity] = segments.generations[parity]
        self._meet(parity)
        return self._read(parity)

    def _read(self, parity: int) -> tuple[list[Message], list[np.ndarray]]:
        """What all have sent."""
        messages, terms = [], []
        made = self._board.rows[:, SEGMENTS + parity].tolist()
        for segments, generation in zip(self._segments, made, strict=True):
            memory = segments.of_generation(parity, generation)
            words = np.frombuffer(memory, np.int32)
            numbers = np.frombuffer(memory, np.float32)
            *sizes, dense = words[:HEAD].tolist()
            split, stop = HEAD + sizes[0], HEAD + sum(sizes)
            messages.append(Message(words[HEAD:split], numbers[split:stop]))
            terms.append(numbers[stop : stop + dense])
        return messages, terms if len({*map(len, terms)}) == 1 else []

    def _meet(self, parity: int) -> None:
        """Come, and wait until all others have."""
        self._count += 1
        self._own[COUNT] = self._count
        for rank, arrival in enumerate(self._arrivals[parity]):
            if rank != self.rank:
                arrival.release()
        arrivals = self._arrivals[parity][self.rank]
        for _ in range(self.size - 1):
            if not any(arrivals.acquire(False) for _ in range(self._spin)):
                while not arrivals.acquire(timeout=PATIENCE):
                    self._look_for_ended()

    def _look_for_ended(self) -> None:
        for rank in range(self.size):
            state, count = self._board.rows[rank, [STATE, COUNT]].tolist()
            if state == ENDED and count < self._count:
                raise RuntimeError(
                    error_text(
                        f"update: process {rank} has ended",
                        got=f"its {count} updates, and {self._count} of this process",
                        expected="as many updates in each process",
                        fix="give each as much data: dynetjax.parallel.shard does",
                    )
                )

    def file_written(self, path: str) -> None:
        """Tell of it, or wait for it unless the first process waits, or has ended."""
        digest = zlib.crc32(path.encode()) + 1
        times = self._files[digest] = self._files.get(digest, 0) + 1
        entry = self._board.files[digest % FILES]
        if self.rank == 0:
            entry[:] = digest, times
            return
        first = self._board.rows[0]
        while entry[0] != digest or entry[1] < times:
            if first[COUNT] > self._count or first[STATE] == ENDED:
                return
            time.sleep(NAP)

    def beat(self) -> None:
        """Tell who watches that this process is alive."""
        self._own[BEAT] += 1

    def take_devices(self) -> None:
        """Have each process take a GPU for itself, between which arrays travel."""
        port = _free_port() if self.rank == 0 else 0
        nothing = np.zeros(0, np.float32)
        told, _ = self.exchange(Message(np.array([port], np.int32), nothing), [])
        connect(
            "give fewer --processes, or JAX_PLATFORMS=cpu",
            coordinator_address=f"127.0.0.1:{told[0].words[0]}",
            num_processes=self.size,
            process_id=self.rank,
            local_device_ids=[self.rank],
        )
        self.collectives = Collectives()

    def end(self) -> None:
        """Tell that this process has done its work, and comes no more."""
        self._own[STATE] = ENDED
        if self.collectives is not None:
            jax.distributed.shutdown()

    def leave(self) -> None:
        """Give up the memory."""
        self._own = None
        for segments in self._segments:
            segments.close()
        self._board.close()


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


class Segments:
    """The two segments of a process, made anew where more room is needed.

    Who has the board removes them: others may come late to what this process wrote.

    Args:
        board: the name of the group's.
        rank: of the process that writes to them.

    Attributes:
        generations: of both: how often each was made.
    """

    def __init__(self, board: str, rank: int):
        self._board, self._rank = board, rank
        self._memory: list[Segment | None] = [None, None]
        self.generations: list[int] = [0, 0]

    def of_size(self, parity: int, size: int) -> Any:
        """Own memory, with room for so many bytes."""
        memory = self._memory[parity]
        if memory is None or memory.size < size:
            self._drop(parity)
            self.generations[parity] += 1
            room = max(LEAST, 1 << (size - 1).bit_length())
            memory = Segment.made(room, self._segment_name(parity))
            self._memory[parity] = memory
        return memory.buf

    def of_generation(self, parity: int, generation: int) -> Any:
        """The memory that its process has made last."""
        if self.generations[parity] != generation:
            self._drop(parity)
            self.generations[parity] = generation
            self._memory[parity] = Segment(self._segment_name(parity))
        memory = self._memory[parity]
        assert memory is not None
        return memory.buf

    def _segment_name(self, parity: int) -> str:
        return segment_name(self._board, self._rank, parity, self.generations[parity])

    def _drop(self, parity: int) -> None:
        memory, self._memory[parity] = self._memory[parity], None
        if memory is not None:
            memory.close()

    def close(self) -> None:
        """Give both up."""
        self._drop(0)
        self._drop(1)
