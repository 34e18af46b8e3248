"""What an update reads, gathered from the storages of a collection on the host.

What is the same from update to update is kept: this is on the way of every step of
a training loop.
"""

import math
from typing import Any

import numpy as np

from dynetjax.core.dims import Shape
from dynetjax.core.lazy import jnp
from dynetjax.model.storage import DenseStorage, TableStorage
from dynetjax.trainers.members import Members
from dynetjax.trainers.sparse import Gradient
from dynetjax.trainers.update import Gradients


class Gatherer:
    """Makes `Gradients`, in sizes that were compiled before if it can."""

    def __init__(self) -> None:
        self._zeros: dict[Shape, Any] = {}
        self._sizes: list[tuple[int, ...]] = []

    def gather(self, members: Members) -> Gradients:
        """The gradients of all members; those of frozen ones only if they have one."""
        tables = members.tables
        sizes = self._sizes_for(tables) if tables else ()
        return Gradients(
            [[self._dense(s) for s in block] for block in members.blocks],
            [self._rows(s, n) for s, n in zip(tables, sizes, strict=True)],
            [s.gradient for s in members.frozen if s.gradient is not None],
            [self._rows(s, s.part_size()) for s in with_gradient(members)],
        )

    def _dense(self, parameter: DenseStorage) -> Any:
        gradient = parameter.gradient
        return self._zeros_of(parameter.shape) if gradient is None else gradient

    def _zeros_of(self, shape: Shape) -> Any:
        zeros = self._zeros.get(shape)
        if zeros is None:
            zeros = self._zeros[shape] = jnp.zeros(shape, jnp.float32)
        return zeros

    def _rows(self, table: TableStorage, size: int) -> Gradient:
        if table.has_rows():
            return Gradient(*table.part(size), table.gradient)
        count, *row = table.shape
        rows = np.full(size, count, np.int32)
        return Gradient(rows, self._zeros_of((size, *row)), table.gradient)

    def _sizes_for(self, tables: list[TableStorage]) -> tuple[int, ...]:
        """How many rows of each table the compiled update takes.

        Sizes that were compiled before are used again where they are not much too
        large, or every mixture of sizes would be compiled.
        """
        needed = tuple([s.part_size() for s in tables])
        if needed in self._sizes:
            return needed
        widths = [math.prod(s.shape[1:]) for s in tables]

        def cost(sizes: tuple[int, ...]) -> int:
            return sum(n * w for n, w in zip(sizes, widths, strict=True))

        limit = 4 * cost(needed) + 4096
        fitting = [
            known
            for known in self._sizes
            if len(known) == len(needed)
            and all(k >= n for k, n in zip(known, needed, strict=True))
            and cost(known) <= limit
        ]
        if fitting:
            return min(fitting, key=cost)
        self._sizes.append(needed)
        return needed


def with_gradient(members: Members) -> list[TableStorage]:
    """The frozen tables that count in the norm."""
    return [s for s in members.frozen_tables if s.has_gradient]
