"""Plans of structures met before: the latest as they are, and all packed.

Training sees the same sentences and trees in every epoch, and planning one takes longer
than anything else that is done for it in Python. Packed, a plan takes a tenth of the
memory, so that those of a whole corpus can be kept.
"""

import marshal
from dataclasses import dataclass
from hashlib import blake2b
from typing import Generic, Protocol, TypeVar

from dynetjax.uninterrupted import Uninterrupted

READY = 256  # plans as they are
WAITING = 16  # plans to be packed
PACKED_BYTES = 1 << 28

T = TypeVar("T", bound="Packable")
T_co = TypeVar("T_co", bound="Packable", covariant=True)
Key = tuple


class Packable(Protocol):
    """What is kept."""

    def packed(self: T) -> "Packed[T]":
        """The same in less memory."""


class Packed(Protocol[T_co]):
    """Something that was packed."""

    @property
    def nbytes(self) -> int:
        """What it takes, about."""

    def unpacked(self) -> T_co:
        """What it was."""


@dataclass(slots=True)
class _Entry(Generic[T]):
    """Something packed, a digest of its key, and its place in the list of all."""

    digest: bytes
    packed: Packed[T]
    place: int


class Kept(Generic[T]):
    """Keeps things by keys of ints, bytes, and tuples of such."""

    def __init__(self) -> None:
        self._ready: dict[int, tuple[Key, T]] = {}  # by hash, the latest last
        self._waiting: dict[int, tuple[Key, T]] = {}  # to be packed
        self._entries: dict[int, _Entry[T]] = {}
        self._numbers: list[int] = []  # of the entries
        self._bytes = 0

    def get(self, key: Key) -> T | None:
        """What was put there, or None."""
        number = hash(key)
        known, found = self._ready.get(number, (None, None))
        if found is not None and known == key:
            self._ready[number] = self._ready.pop(number)
            return found
        entry = self._entries.get(number)
        if entry is None or entry.digest != _digest(key):
            return None
        found = entry.packed.unpacked()
        self._keep(number, key, found)
        return found

    def put(self, key: Key, what: T) -> None:
        """Keep something, in the place of what was there."""
        number = hash(key)
        with Uninterrupted():
            self._forget(number)
            self._keep(number, key, what)
            self._waiting[number] = key, what
        if len(self._waiting) > WAITING:
            self.tidy()

    def _keep(self, number: int, key: Key, what: T) -> None:
        self._ready.pop(number, None)
        self._ready[number] = key, what
        while len(self._ready) > READY:
            del self._ready[next(iter(self._ready))]

    def tidy(self) -> None:
        """Pack what is new: for a moment when there is time, and it is in the cache."""
        while self._waiting:
            with Uninterrupted():
                number, (key, what) = self._waiting.popitem()
                self._pack(number, key, what)

    def _pack(self, number: int, key: Key, what: T) -> None:
        """Keep it packed, in the place of any others where there is no room."""
        packed = what.packed()
        while self._numbers and self._bytes + packed.nbytes > PACKED_BYTES:
            # Not the oldest: it is needed next where data comes in the same order.
            self._forget(self._numbers[number % len(self._numbers)])
        self._entries[number] = _Entry(_digest(key), packed, len(self._numbers))
        self._numbers.append(number)
        self._bytes += packed.nbytes

    def _forget(self, number: int) -> None:
        """Have it packed no more."""
        entry = self._entries.pop(number, None)
        if entry is not None:
            self._bytes -= entry.packed.nbytes
            last = self._numbers.pop()
            if last != number:
                self._numbers[entry.place] = last
                self._entries[last].place = entry.place


def _digest(key: Key) -> bytes:
    """Another for every other key, as far as anybody knows."""
    written = marshal.dumps(key, 2)  # which writes equal objects alike
    return blake2b(written, digest_size=16).digest()
