"""Rows of arrays, by numbers that are never negative.

JAX has negative ones count from the end: that is three more operations for each slice
and each gather, to be traced, compiled and run in every trip.
"""

from typing import Any

from dynetjax.core.lazy import lax

Array = Any


def entry(array: Array, k: int) -> Array:
    """The number at a known place of a vector."""
    return lax.index_in_dim(array, k, keepdims=False)


def cut(array: Array, start: Array, count: int) -> Array:
    """`count` consecutive rows from `start` on."""
    return lax.dynamic_slice_in_dim(array, start, count, allow_negative_indices=False)


def put(array: Array, rows: Array, at: Array) -> Array:
    """`array` with consecutive rows from `at` on replaced."""
    return lax.dynamic_update_slice_in_dim(
        array, rows, at, 0, allow_negative_indices=False
    )


def take(array: Array, rows: Array) -> Array:
    """Rows of an array; they are known to be within it.

    XLA makes a slice of a single row, and where a loop writes the array, copies all of
    it in each trip. So there are two.
    """
    if len(rows) == 1:
        both = take(array, lax.broadcast_in_dim(rows, (2,), (0,)))
        return lax.slice_in_dim(both, 0, 1)
    return _gathered(array, rows, lax.GatherScatterMode.PROMISE_IN_BOUNDS)


def take_if_there(array: Array, rows: Array) -> Array:
    """Rows of an array; those that lie beyond it are zero."""
    return _gathered(array, rows, lax.GatherScatterMode.FILL_OR_DROP)


def _gathered(array: Array, rows: Array, mode: "lax.GatherScatterMode") -> Array:
    whole = tuple(range(1, array.ndim))
    where = lax.GatherDimensionNumbers(whole, (0,), (0,))
    sizes = 1, *array.shape[1:]
    places = lax.expand_dims(rows, (1,))
    return lax.gather(array, places, where, sizes, mode=mode, fill_value=0)
