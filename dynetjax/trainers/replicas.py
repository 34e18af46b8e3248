"""Replicas: processes that train copies of one model, and stay equal.

Before an update each process gets the gradients of all, summed in the order of ranks,
so that all of them make the same update, to the last bit.
"""

import hashlib
import math
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dynetjax.core.errors import error_text
from dynetjax.core.group import PROCESS, Group, Message
from dynetjax.model.storage import (
    DenseStorage,
    RowGradient,
    TableGradient,
    TableStorage,
)
from dynetjax.native import core
from dynetjax.trainers.gradients_on_devices import meet_on_devices

OFTEN = 100  # updates between two comparisons of values, at least
NUMBERS = 1 << 12  # of values, for which there is one update more between them
SMALL = 1 << 21  # numbers of a model that is compared soon, too
HEAD = 4  # words: two of the digest of the model, two of that of its values


class Replicas:
    """One trainer's model in all processes."""

    def __init__(self) -> None:
        self._updates, self._often, self._is_small = 0, OFTEN, True
        self._model = b""
        self._storages: list[Any] = []

    def exchange(
        self, parameters: Sequence[DenseStorage], tables: Sequence[TableStorage]
    ) -> None:
        """Have the gradients of all processes; nothing where there is one process.

        Raises:
            RuntimeError: the processes have different models, or values; or one has
                ended.
        """
        group = PROCESS.group
        if group is None or not PROCESS.meets:
            return
        storages: list[Any] = [*parameters, *tables]
        if storages != self._storages:
            self._storages, self._model = storages, _digest_of_model(storages)
            size = sum([_size(storage) for storage in storages])
            self._often, self._is_small = max(OFTEN, size // NUMBERS), size < SMALL
        compares = self._compares()
        values = _digest_of_values(storages) if compares else b"\0" * 8
        head = np.frombuffer(self._model + values, np.int32)
        scale = 1 / group.size if PROCESS.averages else 1.0
        heads: list[bytes] = []

        def check(every: list[bytes]) -> None:
            heads[:] = every
            if any(h[:8] != self._model for h in heads):
                raise _different_models(group, storages)

        about = group, head, check, scale, parameters, tables
        if group.collectives is None or not meet_on_devices(*about):
            _meet_on_host(*about)
        if compares and any(h != heads[0] for h in heads):
            if self._updates:
                raise _different_values([h != heads[0] for h in heads])
            _have_values_of_first(group, storages)
        self._updates += 1

    def _compares(self) -> bool:
        """Whether values are compared: soon, then seldom, as it takes a while."""
        is_soon = self._is_small and not self._updates & (self._updates - 1)
        return is_soon or self._updates % self._often == 0


def _meet_on_host(
    group: Group,
    head: np.ndarray,
    check: Callable[[list[bytes]], None],
    scale: float,
    parameters: Sequence[DenseStorage],
    tables: Sequence[TableStorage],
) -> None:
    """Give each storage the gradient of all processes; see `meet_on_devices`."""
    messages, terms = group.exchange(*_packed(head, parameters, tables), scale)
    check([m.words[:HEAD].tobytes() for m in messages])
    _unpack(messages, terms, parameters, tables)


def _packed(
    head: np.ndarray,
    parameters: Sequence[DenseStorage],
    tables: Sequence[TableStorage],
) -> tuple[Message, list[np.ndarray]]:
    """The gradients of this process: rows of tables as a message, and dense ones.

    The words are the head, whether each storage has a gradient, then the number of
    rows of each table, and their ids. The numbers are these rows.
    """
    has = [s.has_gradient for s in parameters] + [t.has_gradient for t in tables]
    counts, ids, rows = [], [], []
    for table in tables:
        count = 0
        for of_rows, values in _parts(table):
            count += len(of_rows)
            ids.append(np.asarray(of_rows, np.int32))
            rows.append(np.ravel(values))
        counts.append(count)
    words = np.concatenate([head, np.array([*has, *counts], np.int32), *ids])
    numbers = np.concatenate(rows) if rows else np.zeros(0, np.float32)
    dense = [
        np.zeros(s.shape, np.float32)
        if s.gradient is None
        else np.ascontiguousarray(s.gradient)
        for s in parameters
    ]
    return Message(words.astype(np.int32, copy=False), numbers), dense


def _parts(table: TableStorage) -> tuple[RowGradient, ...]:
    """All of a table's gradient as rows."""
    whole, parts = table.gradient_now()
    if whole is None:
        return parts
    return RowGradient(np.arange(table.shape[0], dtype=np.int32), whole), *parts


def _unpack(
    messages: list[Message],
    terms: list[np.ndarray],
    parameters: Sequence[DenseStorage],
    tables: Sequence[TableStorage],
) -> None:
    """Give each storage the gradient of all processes."""
    count = len(parameters) + len(tables)
    first, *others = [m.words[HEAD : HEAD + count] for m in messages]
    has = sum(others, first).tolist()
    sizes = [_size(storage) for storage in parameters]
    core.scatter(terms, [*parameters], sizes, has)
    parts: list[list[RowGradient]] = [[] for _ in tables]
    for message in messages:
        at, row = HEAD + count + len(tables), 0
        counts = message.words[at - len(tables) : at].tolist()
        for table, of_table, n in zip(tables, parts, counts, strict=True):
            numbers = n * math.prod(table.shape[1:])
            if n:
                ids = message.words[at : at + n].copy()
                values = message.numbers[row : row + numbers].copy()
                of_table.append(RowGradient(ids, values.reshape(n, *table.shape[1:])))
            at, row = at + n, row + numbers
    for table, of_table in zip(tables, parts, strict=True):
        table.put_gradient(TableGradient(None, tuple(of_table)))


def _have_values_of_first(group: Group, storages: list[Any]) -> None:
    """Begin with the values that the first process has."""
    values = [storage.host_values() for storage in storages]
    sent = [v if group.rank == 0 else np.zeros_like(v) for v in values]
    nothing = Message(np.zeros(0, np.int32), np.zeros(0, np.float32))
    _, terms = group.exchange(nothing, sent)
    total, start = np.sum(terms, axis=0), 0
    for storage in storages:
        stop = start + _size(storage)
        storage.values = total[start:stop].reshape(storage.shape).copy()
        start = stop


def _size(storage: Any) -> int:
    return math.prod(storage.shape)


def _described(storages: list[Any]) -> list[str]:
    return [f"{s.name} {s.shape}{'' if s.updated else ' frozen'}" for s in storages]


def _digest_of_model(storages: list[Any]) -> bytes:
    text = "\n".join(_described(storages))
    return hashlib.blake2b(text.encode(), digest_size=8).digest()


def _digest_of_values(storages: list[Any]) -> bytes:
    digest = 0
    for storage in storages:
        if storage.is_table and storage.deferred is not None:
            continue  # its rows catch up when they are read, and round as they do
        words = np.ravel(storage.host_values()).view(np.int32)
        half = len(words) // 2  # sums of pairs of words take half as long
        pairs, rest = words[: 2 * half].view(np.int64), words[2 * half :]
        digest = zlib.crc32(np.append(rest, np.sum(pairs)).tobytes(), digest)
    return digest.to_bytes(8, "little")


def _different_models(group: Group, storages: list[Any]) -> RuntimeError:
    """Says where, after another exchange: every process has found the difference."""
    own = _described(storages)
    text = np.frombuffer("\n".join(own).encode("utf-32-le"), np.int32)
    messages, _ = group.exchange(Message(text, np.zeros(0, np.float32)), [])
    models = [m.words.tobytes().decode("utf-32-le").split("\n") for m in messages]
    rank = next(k for k, model in enumerate(models) if model != models[0])
    first, other = [
        next((name for name in a if name not in b), "another order")
        for a, b in ((models[0], models[rank]), (models[rank], models[0]))
    ]
    return RuntimeError(
        error_text(
            f"update: process {rank} has another model than process 0",
            got=f"{other} where process 0 has {first}",
            expected="the same parameters in the same order in each process",
            fix="make the model before anything that depends on the rank",
        )
    )


def _different_values(differs: list[bool]) -> RuntimeError:
    ranks = ", ".join([str(rank) for rank, x in enumerate(differs) if x])
    return RuntimeError(
        error_text(
            "update: the processes have different values",
            got=f"others than process 0 in {ranks}",
            expected="replicas that are equal to the last bit",
            fix="change values in each process alike: set_value, populate, learning "
            "rates and clipping thresholds",
        )
    )
