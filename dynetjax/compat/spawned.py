"""Processes that `multiprocessing` spawns begin as their parent did."""

import multiprocessing
from collections.abc import Callable
from multiprocessing import spawn
from typing import Any

Data = dict[str, Any]


class _Data(dict[str, Any]):
    """What a spawned process reads first; a function is called where it is read."""

    def __init__(self, data: Data, begin: Callable[[Data], Data]):
        super().__init__(data)
        self._data, self._begin = data, begin

    def __reduce__(self) -> tuple[Any, ...]:
        return self._begin, (self._data,)


def begin_spawned_with(begin: Callable[[Data], Data]) -> None:
    """Call a function in every process that is spawned, before its main module runs.

    A server of forked processes no longer imports the main module for all of them, as
    it would do that before.

    Args:
        begin: a function of a module. It is given what `multiprocessing` tells the
            process, and returns what of it is still to be done.
    """
    collected = spawn.get_preparation_data

    def get_preparation_data(name: str) -> Data:
        return _Data(collected(name), begin)

    spawn.get_preparation_data = get_preparation_data
    multiprocessing.set_forkserver_preload([])
