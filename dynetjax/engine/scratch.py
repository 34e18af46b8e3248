"""Scratch: large buffers that programs write before they read, used again and again.

A new buffer starts as zeros, page by page, in every run. These start as they were left:
a program takes them as arguments, donated, and gives them back as results.
"""

import math
import threading
from typing import Any

import jax
import numpy as np

from dynetjax.dims import Shape

Array = Any

LARGE = 1 << 20  # numbers in a buffer
OF_A_SHAPE, HELD = 2, 1 << 26  # buffers that are held, and numbers in all of them

_free: dict[Shape, list[Array]] = {}
_lock = threading.RLock()  # a run may end, and give back, while this thread holds it


def is_large(shape: Shape) -> bool:
    """Whether a buffer of this shape is worth holding."""
    return math.prod(shape) >= LARGE


def lend(shapes: list[Shape]) -> list[Array]:
    """Buffers of these shapes, with anything in them, to be donated."""
    return [_lend(shape) for shape in shapes]


def _lend(shape: Shape) -> Array:
    with _lock:
        held = _free.get(shape)
        if held:
            return held.pop()
    return jax.device_put(np.empty(shape, np.float32))


def take_back(buffers: list[Array]) -> None:
    """Hold buffers that nobody reads any more; those not used for long are let go."""
    if not buffers:
        return
    with _lock:
        for buffer in buffers:
            held = _free.pop(buffer.shape, [])
            if len(held) < OF_A_SHAPE:
                held.append(buffer)
            _free[buffer.shape] = held
        while sum(b.size for held in _free.values() for b in held) > HELD:
            del _free[next(iter(_free))]
