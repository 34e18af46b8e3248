"""Gradients of replicas that lie on devices, where XLA's collectives add them up.

The processes first tell each other through their group who has gradients of what; then
all of them run the same program.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dynetjax.core.group import Collectives, Group, Message
from dynetjax.model.storage import (
    DenseStorage,
    RowGradient,
    TableGradient,
    TableStorage,
    capacity_for,
    on_host,
)


def meet_on_devices(
    group: Group,
    head: np.ndarray,
    check: Callable[[list[bytes]], None],
    scale: float,
    parameters: Sequence[DenseStorage],
    tables: Sequence[TableStorage],
) -> bool:
    """Give each storage the gradient of all processes.

    Args:
        head: words that this process tells the others.
        check: is called with the heads of all, and may raise.
        scale: factor on gradients.
    Returns:
        False if some process has its gradients on the host: then nothing has changed.
    """
    assert group.collectives is not None
    ids = [table.touched() for table in tables]
    flags = [_are_here(parameters, tables), *[s.has_gradient for s in parameters]]
    counts = np.array([*flags, *map(len, ids)], np.int32)
    message = Message(np.concatenate([head, counts, *ids]), np.zeros(0, np.float32))
    messages, _ = group.exchange(message, [])
    told = [m.words.copy() for m in messages]
    check([of_one[: len(head)].tobytes() for of_one in told])
    rest = [of_one[len(head) :] for of_one in told]
    if not all(of_one[0] for of_one in rest):
        return False
    split = 1 + len(parameters)
    learned = np.any([of_one[1:split] for of_one in rest], axis=0)
    of_tables = [of_one[split:] for of_one in rest]
    _exchange(group.collectives, scale, parameters, learned, tables, of_tables)
    return True


def _are_here(
    parameters: Sequence[DenseStorage], tables: Sequence[TableStorage]
) -> bool:
    """Whether gradients lie on a device, and none is of a whole table."""
    of_tables = [table.gradient_now() for table in tables]
    if any(whole is not None for whole, _ in of_tables):
        return False
    arrays = [s.gradient for s in parameters if s.gradient is not None]
    arrays += [part.values for _, parts in of_tables for part in parts]
    return not all(map(on_host, arrays))


def _exchange(
    collectives: Collectives,
    scale: float,
    parameters: Sequence[DenseStorage],
    learned: np.ndarray,
    tables: Sequence[TableStorage],
    words: list[np.ndarray],
) -> None:
    """The same call in each process, with arrays of the same shapes.

    Args:
        learned: whether any process has a gradient of a parameter.
        words: of each process, how many rows of each table it has, and which.
    """
    ids = [_ids_of(of_one, len(tables)) for of_one in words]
    rows_of = [[of_one[k] for of_one in ids] for k in range(len(tables))]
    rooms = [capacity_for(max(map(len, each))) for each in rows_of]
    chosen = [s for s, is_one in zip(parameters, learned, strict=True) if is_one]
    touched = [(t, room) for t, room in zip(tables, rooms, strict=True) if room]
    sums, rows = collectives.meet(
        [_dense(s) for s in chosen], [_rows(t, room) for t, room in touched], scale
    )
    found = dict(zip(chosen, sums, strict=True))
    for storage in parameters:
        storage.put_gradient(found.get(storage))
    values = iter(rows)
    for table, each, room in zip(tables, rows_of, rooms, strict=True):
        padded = np.full((len(each), room), table.shape[0], np.int32)
        for row, some in zip(padded, each, strict=True):
            row[: len(some)] = some
        parts = (RowGradient(padded.ravel(), next(values)),) if room else ()
        table.put_gradient(TableGradient(None, parts))


def _dense(storage: DenseStorage) -> Any:
    if storage.gradient is None:
        return np.zeros(storage.shape, np.float32)
    return storage.gradient


def _rows(table: TableStorage, room: int) -> Any:
    if table.has_rows():
        return table.row_gradient(room).values
    return np.zeros((room, *table.shape[1:]), np.float32)


def _ids_of(words: np.ndarray, count: int) -> list[np.ndarray]:
    """The ids of rows of each table."""
    return np.split(words[count:], np.cumsum(words[:count])[:-1])
