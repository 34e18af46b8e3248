"""A function of many data, computed in several processes."""

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

from dynetjax.core.errors import error_text
from dynetjax.parallel.shared import Letter, SharedModel, opened
from dynetjax.parallel.workers import CONTEXT

T = TypeVar("T")
R = TypeVar("R")

CHUNKS = 8  # of each process, at least


class _Function:
    """What a worker computes, once it has begun."""

    call: Callable[[Any], Any]


def map(
    function: Callable[[T], R], data: Iterable[T], *, processes: int | None = None
) -> Iterator[R]:
    """``function(datum)`` of every datum, in order, as they come.

    Args:
        function: a function of a module, or an object of a module's class with
            ``__call__``, a model's say. It is pickled; its parameters are shared.
            It calls ``renew_cg()`` itself.
        data: what it is called with; read at once. They, and the results, are pickled.
        processes: how many; as many as there are cores if None.
    Raises:
        TypeError: something cannot be sent to other processes.
        RuntimeError: a process was ended.
        Exception: what `function` raised, with its traceback.
    """
    count = processes or os.cpu_count() or 1
    model = SharedModel(function, "map: the function")
    return _results(model, list(data), count)


def _results(model: SharedModel, data: list[Any], count: int) -> Iterator[Any]:
    pool = ProcessPoolExecutor(count, CONTEXT, _begin, (model.letter,))
    try:
        size = max(1, len(data) // (count * CHUNKS))
        yield from pool.map(_call, data, chunksize=size)
    except BrokenProcessPool as error:
        raise RuntimeError(
            error_text(
                "map: a process was ended",
                got=error,
                expected="processes that live until all is computed",
                fix="look for one that was killed, or took too much memory",
            )
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)
        model.close()


def _begin(letter: Letter) -> None:
    _Function.call = opened(letter).thing


def _call(datum: Any) -> Any:
    return _Function.call(datum)
