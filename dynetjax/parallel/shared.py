"""Models in shared memory: pickled without their numbers, which all processes see."""

import io
import math
import pickle
from typing import Any, NamedTuple

import numpy as np

from dynetjax.core.dims import Shape
from dynetjax.core.errors import error_text
from dynetjax.model.storage import DenseStorage, TableStorage
from dynetjax.parallel.segment import Segment


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
        memory: the name of the segment that has these; empty if there are none.
        places: of the values of each parameter and table.
    """

    pickled: bytes
    memory: str
    places: list[Place]


class SharedModel:
    """Anything with parameters in it, to be sent to other processes.

    From then on the parameters of this process are views of the shared values, until
    `close`.

    Args:
        thing: what is sent.
        what: its name in messages.

    Attributes:
        letter: what `opened` makes the thing of.
    Raises:
        TypeError: it cannot be pickled.
    """

    def __init__(self, thing: Any, what: str):
        file = io.BytesIO()
        pickler = _Pickler(file, pickle.HIGHEST_PROTOCOL)
        try:
            pickler.dump(thing)
        except (pickle.PicklingError, AttributeError, TypeError, RuntimeError) as error:
            raise TypeError(
                error_text(
                    f"{what} cannot be sent to another process",
                    got=error,
                    expected="what pickle can write",
                    fix="use a function of a module, or an object of a module's class, "
                    "in place of a lambda or a nested function",
                )
            ) from error
        self._storages = pickler.storages
        places, size = [], 0
        for s in self._storages:
            places.append(Place(s.is_table, s.name, s.shape, size, s.updated))
            size += 4 * math.prod(s.shape)
        self._memory = Segment(create=True, size=max(size, 1))
        self.letter = Letter(file.getvalue(), self._memory.name, places)
        for storage, place in zip(self._storages, places, strict=True):
            values = storage.host_values()
            view = _view(self._memory, place)
            view[...] = values
            storage.values = view

    def close(self) -> None:
        """Have values of one's own again, and give up the memory."""
        for storage, place in zip(self._storages, self.letter.places, strict=True):
            storage.values = _view(self._memory, place).copy()
        self._memory.remove()


class Opened(NamedTuple):
    """A letter that has arrived.

    Attributes:
        thing: what was sent.
        storages: of its parameters.
        views: of their values, in shared memory.
    """

    thing: Any
    storages: list[DenseStorage | TableStorage]
    views: list[np.ndarray]


def opened(letter: Letter) -> Opened:
    """What was sent; its parameters have values that other processes see."""
    memory = Segment(letter.memory)
    storages = [_storage(memory, place) for place in letter.places]
    thing = _Unpickler(io.BytesIO(letter.pickled), storages).load()
    return Opened(thing, storages, [_view(memory, place) for place in letter.places])


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

    Attributes:
        storages: of these, in the order in which they came.
    """

    def __init__(self, *args: Any):
        super().__init__(*args)
        self.storages: list[Any] = []
        self._numbers: dict[Any, int] = {}

    def persistent_id(self, thing: Any) -> int | None:
        """The number of a storage; None for all else."""
        if type(thing) not in (DenseStorage, TableStorage):
            return None
        number = self._numbers.setdefault(thing, len(self.storages))
        if number == len(self.storages):
            self.storages.append(thing)
        return number


class _Unpickler(pickle.Unpickler):
    """Puts them in again."""

    def __init__(self, file: io.BytesIO, storages: list[Any]):
        super().__init__(file)
        self._storages = storages

    def persistent_load(self, number: int) -> Any:
        """The storage of this number."""
        return self._storages[number]
