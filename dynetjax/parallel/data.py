"""Data of one process among those that train together."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from dynetjax.core.errors import error_text
from dynetjax.core.group import PROCESS

T = TypeVar("T")


class Shard(Generic[T]):
    """What `shard` returns: iterated over once an epoch, in an order of its own each.

    Attributes:
        epoch: the number of the next epoch, from 0; set it to go on with training.
    """

    def __init__(
        self,
        data: Sequence[T],
        seed: int,
        shuffle: bool,
        key: Callable[[T], Any] | None,
    ):
        self._data, self._seed, self._shuffle = data, seed, shuffle
        self._keys = None if key is None else [key(datum) for datum in data]
        self.epoch: int = 0

    def __repr__(self) -> str:
        return f"Shard: {len(self)} of {len(self._data)} data, epoch {self.epoch}"

    def __len__(self) -> int:
        return -(-len(self._data) // PROCESS.size)

    def __iter__(self) -> Iterator[T]:
        order, self.epoch = self._order(), self.epoch + 1
        for k in order[PROCESS.rank :: PROCESS.size]:
            yield self._data[k]

    def _order(self) -> list[int]:
        """All data, in turns of all ranks; some come twice to fill the last turn."""
        rng = np.random.default_rng([self._seed, self.epoch])
        count, size = len(self._data), PROCESS.size
        order = rng.permutation(count) if self._shuffle else np.arange(count)
        order = np.resize(order, len(self) * size)
        if self._keys is not None:
            keys = [self._keys[k] for k in order.tolist()]
            by_key = sorted(range(len(keys)), key=keys.__getitem__)
            turns = order[by_key].reshape(-1, size)
            order = (rng.permutation(turns) if self._shuffle else turns).ravel()
        return [*map(int, order)]


def shard(
    data: Sequence[T],
    *,
    seed: int = 0,
    shuffle: bool = True,
    key: Callable[[T], Any] | None = None,
) -> Shard[T]:
    """The part of `data` that this process trains on: an iterable, once an epoch.

    Every process gets as many, so that all make as many updates: where the data does
    not go up, a few come twice in an epoch. By itself a process gets all.

    Args:
        data: the same in every process.
        seed: of the orders, the same in every process.
        shuffle: in another order each epoch; otherwise as they come.
        key: tells how much work a datum is, such as ``len``: the processes get data of
            like size at the same time, and wait less for one another.
    Raises:
        ValueError: there is no data.
    Examples:
        >>> part = dy.parallel.shard(["a", "b", "c"], shuffle=False)
        >>> print(len(part), list(part))
        3 ['a', 'b', 'c']
    """
    if not len(data):
        raise ValueError(
            error_text(
                "shard: there is no data",
                got=f"a {type(data).__name__} of length 0",
                expected="a sequence with something in it",
                fix="check what was read from the file",
            )
        )
    return Shard(data, seed, shuffle, key)
