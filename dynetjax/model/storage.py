"""What owns the numbers: one storage per parameter or lookup table.

A dense parameter has one gradient array. The gradient of a table is a list of
*parts*, each the rows that one backward touched; they are summed when somebody
asks. Which rows are touched is known on the host without waiting for the device.
"""

import collections
import heapq
import math
import sys
import threading
import weakref
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from dynetjax.core.dims import Shape
from dynetjax.core.lazy import RUNS, at_first_call, jax, jnp
from dynetjax.core.registry import DEVICES, OWNERS, Scaled, Storage
from dynetjax.native import core

if TYPE_CHECKING:
    from dynetjax.engine.native.core import Storage as Base
else:
    Base = core.Storage
core.use_arrays(np.ndarray)

LINE = 16  # numbers in a line of the cache
LEAST_FACTOR = 0.25  # of a table: below, it is taken into the numbers


class _Idents:
    """Small ids, unique among living owners, the smallest free one first.

    An id goes from one owner to another of the same class and shape only: programs
    that were compiled for the one never meet an array of another shape.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._free: dict[tuple[Any, ...], list[int]] = {}
        self._next = 0
        # Owners die in the garbage collector, where no lock may be taken.
        self._returned: collections.deque[tuple[tuple[Any, ...], int]] = (
            collections.deque()
        )

    def take(self, owner: Storage, shape: Shape) -> int:
        key = type(owner), shape
        with self._lock:
            while self._returned:
                of, ident = self._returned.popleft()
                heapq.heappush(self._free.setdefault(of, []), ident)
            if self._free.get(key):
                ident = heapq.heappop(self._free[key])
            else:
                ident, self._next = self._next, self._next + 1
        OWNERS[ident] = owner
        DEVICES.pop(ident, None)  # which its last owner had
        weakref.finalize(owner, self._returned.append, (key, ident)).atexit = False
        return ident


_idents = _Idents()


def aligned(shape: Shape) -> np.ndarray:
    """A new array of float32 that begins at a line of the cache.

    Products with a matrix that does not take a fifth longer, where registers are as
    wide as a line.
    """
    size = math.prod(shape)
    room = np.empty(size + LINE, np.float32)
    first = -room.__array_interface__["data"][0] // 4 % LINE
    return room[first : first + size].reshape(shape)


def copy_of(array: Any) -> np.ndarray:
    """A float32 array of its own, in the host's memory, as storages keep it."""
    copy = aligned(np.shape(array))
    copy[...] = array
    return copy


def to_device(array: Any) -> "jax.Array":
    """A float32 array of its own on the default device."""
    return give_to_device(np.array(array, dtype=np.float32))


def give_to_device(array: np.ndarray, place: Any = None) -> "jax.Array":
    """`array` as float32 on the default device, without a copy on the host.

    Nobody may write to `array` any more.

    Args:
        place: the devices that its rows are spread over, instead.
    """
    RUNS.require()
    return jax.device_put(np.asarray(array, dtype=np.float32), place)


def on_host(array: Any) -> bool:
    """Whether an array is one of NumPy."""
    return isinstance(array, np.ndarray)


def to_host(array: Any) -> np.ndarray:
    """A copy as users see arrays: float64, Fortran order."""
    return np.array(array, dtype=np.float64, order="F")


def capacity_for(count: int) -> int:
    """Room for `count` rows, in few sizes: 64 times a power of four; 0 for none."""
    capacity = 64 if count else 0
    while capacity < count:
        capacity *= 4
    return capacity


class DenseStorage(Base):
    """The numbers of a parameter.

    Args:
        name: full name.
        values: copied.

    Attributes:
        ident: see `dynetjax.core.registry.Storage`.
        name: full name, ``/encoder/W``.
        shape: that of the parameter.
        gradient: accumulated gradient of the same shape, of JAX or NumPy; None stands
            for zeros.
        has_gradient: a backward reached it since the gradient was last cleared.
        updated: trainers may change it.
        in_table: a table has its numbers, which trainers change there.

    The numbers are an array of JAX, one of NumPy, or both: the one is made of the other
    when it is first asked for. Nobody ever writes to them, for a graph may hold them.
    """

    __slots__ = (
        "__weakref__",
        "ident",
        "name",
        "shape",
        "updated",
    )
    is_table = in_table = decays = False
    place = None

    def __init__(self, name: str, values: np.ndarray):
        self.shape: Shape = values.shape
        self.ident: int = _idents.take(self, values.shape)
        self.name: str = name
        self.values = copy_of(values)
        self.updated: bool = True

    @property
    def values(self) -> Any:
        """float32 array of the parameter's shape, on the device."""
        device, host = self._device, self._array
        if device is None:
            device = give_to_device(host)
            if self._array is host:  # no other thread has set the values meanwhile
                self._device = device
        return device

    @values.setter
    def values(self, values: Any) -> None:
        host = on_host(values)
        self._array, self._device = (values, None) if host else (None, values)

    @property
    def stored(self) -> Any:
        """The values: only tables are stored otherwise."""
        return self.values

    @property
    def present(self) -> Any:
        """The values, of JAX or of NumPy: what is there."""
        return self._array if self._device is None else self._device

    def host_values(self) -> np.ndarray:
        """The values, not to be written to."""
        device, host = self._device, self._array
        if host is None:
            host = np.asarray(device)
            if self._device is device:
                self._array = host
        return host

    def will_read(self, rows: np.ndarray | None) -> None:
        """Its values are always ready."""

    def __reduce__(self) -> tuple[Any, ...]:
        flags = self.has_gradient, self.updated
        gradient = None if self.gradient is None else np.array(self.gradient)
        return _dense, (self.name, np.array(self.host_values()), gradient, *flags)

    def host_rows(self, rows: Any) -> np.ndarray:
        raise AssertionError(f"{self.name} is no table: it has no rows")

    def add_row_gradients(self, rows: np.ndarray, values: Any) -> None:
        raise AssertionError(f"{self.name} is no table: it has no rows")

    def host_gradient(self) -> np.ndarray:
        """The gradient as float64."""
        if self.gradient is None:
            return np.zeros(self.shape, order="F")
        return to_host(self.gradient)

    def scale_gradient(self, factor: float) -> None:
        if self.gradient is not None:
            self.gradient = _times(self.gradient, factor)

    def _zeros(self) -> np.ndarray:
        """An array for a gradient."""
        return np.zeros(self.shape, np.float32)

    def _empty(self) -> np.ndarray:
        """An array for new values."""
        return aligned(self.shape)

    def take_gradient(self) -> Any:
        """Clear the gradient, and return what it was."""
        gradient, self.gradient, self.has_gradient = self.gradient, None, False
        return gradient

    def put_gradient(self, gradient: Any) -> None:
        """Have what `take_gradient` returned."""
        self.gradient, self.has_gradient = gradient, gradient is not None

    def gradient_now(self) -> Any:
        """What `take_gradient` would return."""
        return self.gradient

    @staticmethod
    def largest(gradient: Any) -> float:
        """The largest magnitude in a gradient; NaN if there is one."""
        return _largest([] if gradient is None else [gradient])


class RowGradient(NamedTuple):
    """Gradients of some rows.

    Attributes:
        rows: int32 ids; those past the last row of the table are padding.
        values: ``[len(rows), *row]``, of JAX or NumPy; what stands at the padding has
            no meaning.
    """

    rows: np.ndarray
    values: Any


class TableGradient(NamedTuple):
    """All of a table's gradient: what touched the whole of it, and the parts."""

    whole: Any
    parts: tuple[RowGradient, ...]


class Deferring(Protocol):
    """A trainer that lets rows miss updates; see `dynetjax.trainers.deferred`."""

    def catch_up(self, table: "TableStorage", rows: np.ndarray | None) -> None:
        """Have these rows catch up; None stands for all."""

    def let_go(self, table: "TableStorage") -> None:
        """Have all rows catch up, and miss no more."""


class TableStorage(Base):
    """The numbers of a lookup table, rows first.

    Attributes:
        ident, name, has_gradient, updated: as in `DenseStorage`.
        shape: ``[N, *row]``.
        gradient: dense gradient ``[N, *row]`` of uses of the whole table, or None.
        deferred: has rows catch up, before somebody looks at them, with updates that
            they missed; None if they missed none.
        shown: it stands in files under its own name. Otherwise parameters of its
            collection show its numbers.
        place: the devices that the rows are spread over, as a sharding of JAX; None if
            all are on one.

    Under weight decay it is stored with a factor, so that an update that changes all
    rows a little need write those only that were touched; see `Scaled`.

    The numbers are an array of JAX, or one of NumPy that is the storage's own and is
    written to in its place. Whoever asks for the other kind has them moved there.
    """

    __slots__ = (
        "__weakref__",
        "_left",
        "_touched",
        "ident",
        "name",
        "place",
        "shape",
        "shown",
        "updated",
    )
    is_table = True

    def __init__(self, name: str, values: np.ndarray):
        self.ident: int = _idents.take(self, values.shape)
        self.name: str = name
        self.shape: Shape = values.shape
        self._array = np.require(values, np.float32, ["C", "W", "O"])
        self._left = 1.0  # about what the factor is
        self.shown: bool = True
        self.place: Any = None
        self._parts: list[RowGradient] = []
        self._touched: np.ndarray | None = None
        self.updated: bool = True

    @property
    def values(self) -> Any:
        """float32 array ``[N, *row]`` on the device."""
        self.will_read(None)
        stored = self.stored
        if self._factor is None:
            return stored
        if self._left != 1:
            self._set(_multiply(*stored))
        return self._array

    @values.setter
    def values(self, values: Any) -> None:
        self.will_read(None)
        self._set(values)

    def will_read(self, rows: np.ndarray | None) -> None:
        """Have these rows ready to be read; None stands for all."""
        if self.deferred is not None:
            self.deferred.catch_up(self, rows)

    def catch_up_for_good(self) -> None:
        """Have all rows catch up, and wait for nothing more."""
        if self.deferred is not None:
            self.deferred.let_go(self)

    def _set(self, values: Any) -> None:
        self._array, self._left = values, 1.0
        if self._factor is not None:
            self._factor = 1.0

    @property
    def stored(self) -> Any:
        """`values`, or `Scaled` if the table decays."""
        if on_host(self._array):
            self._array = give_to_device(self._array, self.place)
        if self._factor is None:
            return self._array
        if isinstance(self._factor, float):
            self._factor = jnp.float32(self._factor)
        return Scaled(self._array, self._factor)

    @property
    def is_on_host(self) -> bool:
        """Whether the table is stored as an array of NumPy."""
        return on_host(self._array)

    @property
    def present(self) -> Any:
        """The values, of JAX or of NumPy: what is there."""
        return self.host_values() if self.is_on_host else self.values

    @property
    def decays(self) -> bool:
        """Whether the table is stored with a factor."""
        return self._factor is not None

    def start_to_decay(self) -> None:
        """Store it with a factor from now on."""
        if self._factor is None:
            self._factor = 1.0

    def store(self, stored: Any, kept: float) -> None:
        """What an update made of `stored`, which took `kept` of the factor."""
        scaled = isinstance(stored, Scaled)
        self._array, self._factor = stored if scaled else (stored, None)
        self._left *= kept
        if self._left < LEAST_FACTOR:
            self.values  # noqa: B018  (takes the factor in)

    def stored_on_host(self) -> tuple[np.ndarray, float]:
        """(array, factor on it), for `wrote`: nobody else has the array."""
        if not on_host(self._array) or sys.getrefcount(self._array) > 2:
            self._array = np.array(self._array)
        if self._factor is not None:
            self._factor = float(np.asarray(self._factor))
        return self._array, 1.0 if self._factor is None else self._factor

    def wrote(self, array: np.ndarray, factor: float) -> None:
        """An update has written to the array of `stored_on_host`, and left this factor.

        Another thread may have moved the array meanwhile: what it has is older.
        """
        if factor < LEAST_FACTOR:
            array *= np.float32(factor)
            factor = 1.0
        self._array, self._left = array, factor
        if self._factor is not None:
            self._factor = factor

    def edit(self) -> np.ndarray:
        """The values on the host, to be written to until somebody reads them.

        Setting a row on the device would copy the table: a hundred thousand
        pretrained vectors are set one by one here, and sent once.
        """
        self.will_read(None)
        array, factor = self.stored_on_host()
        if factor != 1:
            array *= np.float32(factor)
            self._set(array)
        return array

    def host_values(self) -> np.ndarray:
        """The values, not to be written to."""
        self.will_read(None)
        if self._factor is None or self._left == 1:
            return np.asarray(self._array)
        return self.edit() if on_host(self._array) else np.asarray(self.values)

    def host_rows(self, rows: Any) -> np.ndarray:
        """The values of a row, or of several."""
        if self.deferred is not None:
            self.will_read(np.atleast_1d(rows))
        values = np.asarray(self._array)[rows]
        if self._factor is None:
            return values
        return values * np.asarray(self._factor, np.float32)

    def __reduce__(self) -> tuple[Any, ...]:
        flags = self.has_gradient, self.updated
        whole = None if self.gradient is None else np.array(self.gradient)
        parts = [(np.array(rows), np.array(values)) for rows, values in self._parts]
        return _table, (self.name, np.array(self.host_values()), whole, parts, *flags)

    def add_row_gradients(self, rows: np.ndarray, values: Any) -> None:
        """Note gradients ``values[k]`` of the rows ``rows[k]``; see `RowGradient`."""
        self._parts.append(RowGradient(rows, values))
        self._touched, self.has_gradient = None, True
        count = len(self._parts)
        if count & (count - 1):
            return  # looking at 2, 4, 8, ... of them takes no time in the mean
        if sum([len(part.rows) for part in self._parts]) > 4 * self.shape[0] + 1024:
            self.row_gradient(self.row_capacity())

    def _add_rows(self, ids: bytes, gradients: bytes) -> None:
        """Note gradients of rows, from int32 and float32."""
        rows = np.frombuffer(ids, np.int32)
        values = np.frombuffer(gradients, np.float32)
        self.add_row_gradients(rows, values.reshape(-1, *self.shape[1:]))

    def touched(self) -> np.ndarray:
        """Ids of the rows with a gradient of their own, in order, each once."""
        if self._touched is None:
            rows = [part.rows for part in self._parts] or [np.zeros(0, np.int32)]
            self._touched = self._distinct(rows)
        return self._touched

    def _distinct(self, parts: list[np.ndarray]) -> np.ndarray:
        ids = np.unique(np.concatenate(parts))
        return ids[ids < self.shape[0]]

    def row_capacity(self) -> int:
        """A number of rows, one of a few sizes, that `row_gradient` has room in."""
        if self._is_merged():
            return len(self._parts[0].rows)
        return capacity_for(len(self.touched()))

    def has_rows(self) -> bool:
        """Rows were noted since the gradient was last cleared."""
        return bool(self._parts)

    def part_size(self) -> int:
        """A number of rows, one of a few sizes, that `part` has room in."""
        if len(self._parts) == 1 and not on_host(self._parts[0].values):
            return len(self._parts[0].rows)
        return capacity_for(len(self.touched()))

    def part(self, size: int) -> RowGradient:
        """All parts as one of `size` rows, in which a row may come repeatedly."""
        if len(self._parts) == 1 and len(self._parts[0].rows) == size:
            return self._parts[0]
        return self.row_gradient(size)

    def row_gradient(self, capacity: int) -> RowGradient:
        """The sum of the parts, each row once, padded to `capacity` rows."""
        if not (self._is_merged() and len(self._parts[0].rows) == capacity):
            self._parts = [self._merge(capacity)]
        return self._parts[0]

    def _is_merged(self) -> bool:
        if len(self._parts) != 1:
            return False
        rows = self._parts[0].rows
        return np.count_nonzero(rows < self.shape[0]) == len(self.touched())

    def _merge(self, capacity: int) -> RowGradient:
        ids = self.touched()
        rows = np.full(capacity, self.shape[0], np.int32)
        rows[: len(ids)] = ids
        if all(on_host(part.values) for part in self._parts):
            total = np.zeros((capacity + 1, *self.shape[1:]), np.float32)
            for part in self._parts:
                np.add.at(total, self._slots(part, ids, capacity), part.values)
            return RowGradient(rows, total[:capacity])
        first, *others = self._parts
        slots = self._slots(first, ids, capacity)
        total = _place(first.values, slots, capacity=capacity)
        for part in others:
            slots = self._slots(part, ids, capacity)
            total = _add_rows(total, part.values, slots)
        return RowGradient(rows, total)

    def _slots(self, part: RowGradient, ids: np.ndarray, past: int) -> np.ndarray:
        slots = np.searchsorted(ids, part.rows).astype(np.int32)
        slots[part.rows >= self.shape[0]] = past
        return slots

    def host_gradient(self) -> np.ndarray:
        """The gradient of the whole table as float64."""
        if self.gradient is None:
            total = np.zeros(self.shape, np.float32)
        else:
            total = np.array(self.gradient)
        for rows, values in self._parts:
            real = rows < self.shape[0]
            np.add.at(total, rows[real], np.asarray(values)[real])
        return to_host(total)

    def scale_gradient(self, factor: float) -> None:
        if self.gradient is not None:
            self.gradient = _times(self.gradient, factor)
        scaled = [RowGradient(p.rows, _times(p.values, factor)) for p in self._parts]
        self._parts = scaled

    def take_gradient(self) -> TableGradient:
        """Clear the gradient, and return what it was."""
        gradient = self.gradient_now()
        self.clear_gradient()
        return gradient

    def clear_gradient(self) -> None:
        """Have none."""
        self.gradient, self._parts, self._touched = None, [], None
        self.has_gradient = False

    def put_gradient(self, gradient: TableGradient) -> None:
        """Have what `take_gradient` returned."""
        self.gradient, self._parts = gradient.whole, list(gradient.parts)
        self._touched = None
        self.has_gradient = self.gradient is not None or bool(self._parts)

    def gradient_now(self) -> TableGradient:
        """What `take_gradient` would return."""
        return TableGradient(self.gradient, tuple(self._parts))

    def largest(self, gradient: TableGradient) -> float:
        """The largest magnitude in a gradient; NaN if there is one."""
        arrays: list[Any] = [] if gradient.whole is None else [gradient.whole]
        for rows, values in gradient.parts:
            arrays.append(np.asarray(values)[rows < self.shape[0]])
        return _largest(arrays)


def _dense(
    name: str, values: np.ndarray, gradient: Any, has_gradient: bool, updated: bool
) -> DenseStorage:
    """What was pickled."""
    made = DenseStorage(name, values)
    made.gradient = None if gradient is None else copy_of(gradient)
    made.has_gradient, made.updated = has_gradient, updated
    return made


def _table(
    name: str,
    values: np.ndarray,
    whole: Any,
    parts: list[tuple[np.ndarray, np.ndarray]],
    has_gradient: bool,
    updated: bool,
) -> TableStorage:
    """What was pickled."""
    made = TableStorage(name, values)
    made.gradient = None if whole is None else copy_of(whole)
    for rows, row_gradients in parts:
        made.add_row_gradients(rows, copy_of(row_gradients))
    made.has_gradient, made.updated = has_gradient, updated
    return made


def _times(array: Any, factor: float) -> Any:
    """An array of JAX or NumPy times a number; NumPy does not warn of NaN either."""
    with np.errstate(all="ignore"):
        return array * np.float32(factor)


def _largest(arrays: list[Any]) -> float:
    return float(np.max([np.abs(a).max(initial=0) for a in arrays], initial=0))


@at_first_call(lambda f: jax.jit(f, donate_argnums=0))
def _multiply(array, factor):
    return array * factor


@at_first_call(lambda f: jax.jit(f, static_argnames="capacity"))
def _place(values, slots, *, capacity):
    """Rows of `values` summed into the slots they belong to."""
    total = jnp.zeros((capacity, *values.shape[1:]), values.dtype)
    return total.at[slots].add(values, mode="drop")


@at_first_call(lambda f: jax.jit(f, donate_argnums=0))
def _add_rows(total, values, slots):
    return total.at[slots].add(values, mode="drop")
