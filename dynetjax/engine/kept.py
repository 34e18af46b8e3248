"""Plans of structures met before: the latest as they are, and all packed.

Training sees the same sentences and trees in every epoch, and planning one takes longer
than anything else that is done for it in Python. Packed, a plan takes a tenth of the
memory, so that those of a whole corpus can be kept.
"""

from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Generic, Protocol, TypeVar

from dynetjax.uninterrupted import Uninterrupted

READY = 256  # plans as they are
WAITING = 16  # plans to be packed
PACKED_BYTES = 1 << 28

T = TypeVar("T", bound="Packable")
T_co = TypeVar("T_co", bound="Packable", covariant=True)


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
    """Something packed, and its place in the list of all."""

    packed: Packed[T]
    place: int


class Kept(Generic[T]):
    """Keeps things by keys that are bytes."""

    def __init__(self) -> None:
        self._ready: dict[bytes, T] = {}  # the latest last
        # By digests of the keys:
        self._waiting: dict[bytes, T] = {}  # to be packed
        self._entries: dict[bytes, _Entry[T]] = {}
        self._digests: list[bytes] = []  # of the entries
        self._bytes = 0

    def get(self, key: bytes) -> T | None:
        """What was put there, or None."""
        found = self._ready.pop(key, None)
        if found is not None:
            self._ready[key] = found
            return found
        entry = self._entries.get(_digest(key))
        if entry is None:
            return None
        found = entry.packed.unpacked()
        self._keep(key, found)
        return found

    def put(self, key: bytes, what: T) -> None:
        """Keep something, in the place of what was there."""
        digest = _digest(key)
        with Uninterrupted():
            self._forget(digest)
            self._keep(key, what)
            self._waiting[digest] = what
        if len(self._waiting) > WAITING:
            self.tidy()

    def _keep(self, key: bytes, what: T) -> None:
        self._ready.pop(key, None)
        self._ready[key] = what
        while len(self._ready) > READY:
            del self._ready[next(iter(self._ready))]

    def tidy(self) -> None:
        """Pack what is new: for a moment when there is time, and it is in the cache."""
        while self._waiting:
            with Uninterrupted():
                self._pack(*self._waiting.popitem())

    def _pack(self, digest: bytes, what: T) -> None:
        """Keep it packed, in the place of any others where there is no room."""
        packed = what.packed()
        while self._digests and self._bytes + packed.nbytes > PACKED_BYTES:
            # Not the oldest: it is needed next where data comes in the same order.
            number = int.from_bytes(digest[:8])
            self._forget(self._digests[number % len(self._digests)])
        self._entries[digest] = _Entry(packed, len(self._digests))
        self._digests.append(digest)
        self._bytes += packed.nbytes

    def _forget(self, digest: bytes) -> None:
        """Have it packed no more."""
        entry = self._entries.pop(digest, None)
        if entry is not None:
            self._bytes -= entry.packed.nbytes
            last = self._digests.pop()
            if last != digest:
                self._digests[entry.place] = last
                self._entries[last].place = entry.place


@lru_cache(maxsize=1)
def _digest(key: bytes) -> bytes:
    """Another for every other key, as far as anybody knows."""
    return blake2b(key, digest_size=16).digest()
