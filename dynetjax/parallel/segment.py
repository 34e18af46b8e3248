"""Shared memory, as `multiprocessing.shared_memory` has it, with arrays as views."""

import contextlib
import errno
import math
import os
import shutil
from multiprocessing.shared_memory import SharedMemory
from typing import Any

import numpy as np

from dynetjax.core.dims import Shape
from dynetjax.core.errors import error_text

FOLDER = "/dev/shm"  # where Linux has it


class Segment(SharedMemory):
    """A segment that may be closed, or end, while an array is a view of it.

    The memory is given back with the last view then.
    """

    @classmethod
    def made(cls, size: int, name: str | None = None) -> "Segment":
        """A new one of so many bytes.

        Raises:
            OSError: there is not enough shared memory. Writing to it would end the
                process.
        """
        free = shutil.disk_usage(FOLDER).free if os.path.isdir(FOLDER) else size
        if free < size:
            raise OSError(
                errno.ENOSPC,
                error_text(
                    "parallel: there is not enough shared memory",
                    got=f"{free >> 20} MB free in {FOLDER}",
                    expected=f"{(size >> 20) + 1} MB",
                    fix="give the container more, as by docker run --shm-size=4g",
                ),
            )
        return cls(name, True, size)

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
        memory: Any = self.buf
        # `numpy.ndarray(buffer=...)` would not keep it open.
        return np.frombuffer(memory, dtype, count, start).reshape(shape)
