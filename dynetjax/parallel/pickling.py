"""Models in shared memory: pickled without their numbers, which all processes see."""

import io
import math
import pickle
from typing import Any, NamedTuple

import numpy as np

from dynetjax.core.dims import Shape
from dynetjax.core.errors import error_text
from dynetjax.core.registry import OWNERS
from dynetjax.model.storage import DenseStorage, TableStorage
from dynetjax.parallel.segment import Segment

UNPICKLABLE = pickle.PicklingError, AttributeError, TypeError, RuntimeError


class Place(NamedTuple):
    """Where the values of a parameter or a table are.

    Attributes:
        is_table: whether it is a table.
        name: of the parameter or table.
        shape: of its values, rows of a table first.
        start: bytes before them.
        updated: whether trainers change it.
    """

    is_table: bool
    name: str
    shape: Shape
    start: int
    updated: bool


class Letter(NamedTuple):
    """What a process is sent: pickled objects, and where their parameters' values are.

    Attributes:
        pickled: all of it but the values.
        memory: the name of the segment that has these.
        places: of the values of each parameter and table.
    """

    pickled: bytes
    memory: str
    places: list[Place]


class SharedModel:
    """Things with parameters in them, to be sent to other processes.

    From then on the parameters of this process are views of the shared values, until
    `close`.

    Args:
        caller: its name in messages.
        things: what is sent, by their names in messages.

    Attributes:
        letter: what `opened` makes them of, a tuple.
        contents: the storages that each thing has and none before it, by its name.
    Raises:
        OSError: there is not enough shared memory.
        TypeError: one cannot be pickled.
    """

    def __init__(self, caller: str, **things: Any):
        pickled, pickler = _pickled(caller, things)
        self._storages = pickler.storages
        self.contents: dict[str, list[Any]] = pickler.contents
        places, size = [], 0
        for s in self._storages:
            places.append(Place(s.is_table, s.name, s.shape, size, s.updated))
            size += 4 * math.prod(s.shape)
        self._memory = Segment.made(max(size, 1))
        self.letter: Letter = Letter(pickled, self._memory.name, places)
        self._views = [_view(self._memory, place) for place in places]
        self._is_open = True
        self.publish()

    def publish(self) -> None:
        """Have values that were set in this process since it began seen by all."""
        for storage, view in zip(self._storages, self._views, strict=True):
            values = storage.host_values()
            if values is not view:
                view[...] = values
                storage.values = view

    def close(self) -> None:
        """Have values of one's own again, and give up the memory."""
        if not self._is_open:
            return
        self._is_open = False
        self.publish()
        for storage, view in zip(self._storages, self._views, strict=True):
            storage.values = view.copy()
        self._views = []
        self._memory.remove()


def _pickled(caller: str, things: dict[str, Any]) -> "tuple[bytes, _Pickler]":
    file = io.BytesIO()
    pickler = _Pickler(file, things)
    try:
        pickler.dump(tuple(things.values()))
    except UNPICKLABLE as error:
        raise _unpicklable(f"{caller}: the {pickler.current}", error) from error
    return file.getvalue(), pickler


def _unpicklable(what: str, error: BaseException) -> TypeError:
    return TypeError(
        error_text(
            f"{what} cannot be sent to another process",
            got=error,
            expected="what pickle can write",
            fix="use an object of a module's class in place of a lambda or a nested "
            "function; python -m dynetjax --processes N sends nothing",
        )
    )


class Opened(NamedTuple):
    """A letter that has arrived.

    Attributes:
        things: what was sent.
        storages: of its parameters.
        views: of their values, in shared memory.
    """

    things: tuple[Any, ...]
    storages: list[DenseStorage | TableStorage]
    views: list[np.ndarray]


def opened(letter: Letter) -> Opened:
    """What was sent; its parameters have values that other processes see."""
    memory = Segment(letter.memory)
    storages = [_storage(memory, place) for place in letter.places]
    things = _Unpickler(io.BytesIO(letter.pickled), storages).load()
    return Opened(things, storages, [_view(memory, place) for place in letter.places])


def makes_parameters(received: Opened) -> bool:
    """Whether modules have made parameters here when they were imported."""
    return len(OWNERS) > len(received.storages)


def _storage(memory: Segment, place: Place) -> DenseStorage | TableStorage:
    kind = TableStorage if place.is_table else DenseStorage
    storage = kind(place.name, np.zeros(place.shape, np.float32))
    storage.values = _view(memory, place)
    storage.updated = place.updated
    return storage


def _view(memory: Segment, place: Place) -> Any:
    return memory.view(place.shape, np.float32, place.start)


class _Pickler(pickle.Pickler):
    """Leaves out parameters and tables, and knows which there were.

    Args:
        file: to write to.
        things: what a tuple that is dumped has, by names.

    Attributes:
        storages: in the order in which they came.
        contents: the same by the thing in which they came first.
        current: the name of the thing that is written.
    """

    def __init__(self, file: io.BytesIO, things: dict[str, Any]):
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self.storages: list[Any] = []
        self.contents: dict[str, list[Any]] = {name: [] for name in things}
        self.current = ""
        self._names = {id(thing): name for name, thing in things.items()}
        self._numbers: dict[Any, int] = {}

    def persistent_id(self, thing: Any) -> int | None:
        """The number of a storage; None for all else."""
        self.current = self._names.get(id(thing), self.current)
        if type(thing) not in (DenseStorage, TableStorage):
            return None
        number = self._numbers.setdefault(thing, len(self.storages))
        if number == len(self.storages):
            self.storages.append(thing)
            self.contents[self.current].append(thing)
        return number


class _Unpickler(pickle.Unpickler):
    """Puts them in again."""

    def __init__(self, file: io.BytesIO, storages: list[Any]):
        super().__init__(file)
        self._storages = storages

    def persistent_load(self, number: int) -> Any:
        """The storage of this number."""
        return self._storages[number]
