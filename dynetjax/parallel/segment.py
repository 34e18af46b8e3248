"""Shared memory, as `multiprocessing.shared_memory` has it, with arrays as views."""

import contextlib
import math
from multiprocessing.shared_memory import SharedMemory
from typing import Any

import numpy as np

from dynetjax.core.dims import Shape


class Segment(SharedMemory):
    """A segment that may be closed, or end, while an array is a view of it.

    The memory is given back with the last view then.
    """

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Give up this process's access, once no array is a view of it."""
        with contextlib.suppress(BufferError):
            super().close()

    def remove(self) -> None:
        """The same for all processes; those that have access keep it."""
        self.close()
        with contextlib.suppress(FileNotFoundError):
            self.unlink()

    def view(self, shape: Shape, dtype: Any, start: int = 0) -> Any:
        """An array that is stored from byte `start` on, and keeps the memory open."""
        count = math.prod(shape)
        if not count:
            return np.zeros(shape, dtype)
        # `numpy.ndarray(buffer=...)` would not keep it open.
        memory: Any = self.buf
        return np.frombuffer(memory, dtype, count, start).reshape(shape)
