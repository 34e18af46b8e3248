"""A function of many data, computed in several processes."""

import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

from dynetjax.core.errors import error_text
from dynetjax.parallel.pickling import (
    Letter,
    SharedModel,
    makes_parameters,
    opened,
)
from dynetjax.parallel.workers import CONTEXT, checked_count, end_with_parent

T = TypeVar("T")
R = TypeVar("R")

CHUNKS, MOST = 8, 16  # chunks of each process, at least; data in a chunk


class _Function:
    """What a worker computes, once it has begun."""

    call: Callable[[Any], Any]


def map(
    function: Callable[[T], R], data: Iterable[T], *, processes: int | None = None
) -> Iterator[R]:
    """``function(datum)`` of every datum, in order, as they come.

    Args:
        function: an object of a module's class with ``__call__``, or a function of a
            module. It is pickled; the parameters that are in it are shared. A model
            that a function finds in its module is another one in each process, so that
            is refused. It calls ``renew_cg()`` itself.
        data: what it is called with; read at once. They, and the results, are pickled.
        processes: how many; as many as there are cores if None.
    Raises:
        TypeError: something cannot be sent to other processes.
        ValueError: there is no such number of processes.
        RuntimeError: a process was ended, or makes parameters of its own.
        Exception: what `function` raised, with its traceback.
    """
    count = checked_count("map", processes)
    model = SharedModel("map", function=function)
    results = _results(model, list(data), count)
    weakref.finalize(results, model.close)  # perhaps nobody asks for them
    return results


def _results(model: SharedModel, data: list[Any], count: int) -> Iterator[Any]:
    pool = ProcessPoolExecutor(count, CONTEXT, _begin, (model.letter,))
    try:
        size = max(1, min(MOST, len(data) // (count * CHUNKS)))
        results = pool.map(_call, data, chunksize=size)
        yield from results
    except BrokenProcessPool as error:
        raise RuntimeError(
            error_text(
                "map: a process was ended",
                got=error,
                expected="processes that live until all is computed",
                fix="see what it has written to stderr; look for one that was killed, "
                "or took too much memory",
            )
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)
        model.close()


def _begin(letter: Letter) -> None:
    threading.Thread(target=end_with_parent, daemon=True).start()
    received = opened(letter)
    (_Function.call,) = received.things
    if makes_parameters(received) and not received.storages:
        _Function.call = _refuse


def _refuse(datum: Any) -> Any:
    raise RuntimeError(
        error_text(
            "map: the function's module makes parameters when it is imported",
            got="a function without parameters in it",
            expected="an object that has the model, whose __call__ computes",
            fix="each process would have a model of its own, with other values",
        )
    )


def _call(datum: Any) -> Any:
    return _Function.call(datum)
