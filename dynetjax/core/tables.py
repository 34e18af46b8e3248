"""Tables of what the process has met, and how it forgets.

A program makes a few hundred signatures, however long it runs; a process that trains
one model after another makes more for each new shape. So once there are very many, all
is forgotten, as in a fresh process: whatever is needed again is made again. Nobody has
to wait for that, for who has something keeps it, with its number, which no other thing
ever gets.
"""

import gc
import threading
import weakref
from collections.abc import Callable, Hashable
from functools import lru_cache
from itertools import count
from typing import Any, Generic, ParamSpec, TypeVar, cast

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")
P = ParamSpec("P")

MOST = 1 << 10  # results of a function

_forgetting: list[Callable[[], object]] = []
_lock = threading.Lock()


def forgets(forget: Callable[[], T]) -> Callable[[], T]:
    """A decorator of what empties tables; it may be called at any time."""
    _forgetting.append(forget)
    return forget


def remembers(function: Callable[P, T]) -> Callable[P, T]:
    """A decorator of a function without effects: it knows its latest results."""
    known = lru_cache(maxsize=MOST)(function)
    forgets(known.cache_clear)
    return cast(Callable[P, T], known)


def forget_all() -> None:
    """Empty the tables of the process, and collect what nobody has any more.

    While another thread does that, nothing happens.
    """
    if _lock.acquire(blocking=False):
        try:
            for forget in _forgetting:
                forget()
        finally:
            _lock.release()
        gc.collect()


class Life:
    """Ends with what it is `of`: which takes no weak references itself."""

    __slots__ = ("__weakref__", "of")

    def __init__(self, of: Any):
        self.of: Any = of


class Numbered(dict[int, T], Generic[T]):
    """Things by number: those that are known, and others that somebody has.

    Each has a `life`.
    """

    def __init__(self) -> None:
        self._count = count()
        self._others: weakref.WeakValueDictionary[int, Life]
        self._others = weakref.WeakValueDictionary()
        forgets(self.forget)

    def add(self, thing: T) -> int:
        """Take in a thing; its number is one more than that of the last."""
        number = next(self._count)
        self[number] = thing
        return number

    def __missing__(self, number: int) -> T:
        thing: T = self._others[number].of
        self[number] = thing  # it is in use
        return thing

    def forget(self) -> None:
        """Know nothing but what somebody has."""
        for number in list(self):
            thing: Any = self[number]
            self._others[number] = thing.life
            del self[number]


class Shared(Generic[K, T]):
    """Things by key, as long as somebody has them: one for each key.

    Args:
        make: the thing for a key, which has a `life`.
    """

    def __init__(self, make: Callable[[K], T]):
        self._make = make
        self._known: weakref.WeakValueDictionary[K, Life]
        self._known = weakref.WeakValueDictionary()
        self._lock = threading.RLock()

    def __getitem__(self, key: K) -> T:
        with self._lock:
            life = self._known.get(key)
            if life is None:
                made: Any = self._make(key)
                self._known[key] = life = made.life
            thing: T = life.of
            return thing

    def __len__(self) -> int:
        return len(self._known)


class Found(dict[K, T], Generic[K, T]):
    """What follows from keys, found when it is first asked for; to be forgotten."""

    def __init__(self, find: Callable[[K], T]):
        self._find = find
        forgets(self.clear)

    def __missing__(self, key: K) -> T:
        thing = self[key] = self._find(key)
        return thing
