"""Arrays of several shapes as one flat array, and apart again."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

from dynetjax.core.dims import Shape
from dynetjax.core.lazy import jax, jnp


def join(arrays: Sequence[Any]) -> "jax.Array":
    """All arrays flat, end to end."""
    flat = [jnp.ravel(array) for array in arrays]
    return flat[0] if len(flat) == 1 else jnp.concatenate(flat)


def split(flat: Any, shapes: Iterable[Shape]) -> list[Any]:
    """What was joined, apart again; of NumPy's array these are views."""
    arrays, end = [], 0
    for shape in shapes:
        begin, end = end, end + math.prod(shape)
        arrays.append(flat[begin:end].reshape(shape))
    return arrays
