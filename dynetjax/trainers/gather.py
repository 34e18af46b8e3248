"""What an update reads, gathered from the storages of a collection on the host.

What is the same from update to update is kept: this is on the way of every step of
a training loop.
"""

import math
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from dynetjax.dims import Shape
from dynetjax.model.collection import ParameterCollection
from dynetjax.model.storage import DenseStorage, TableStorage
from dynetjax.trainers.blocks import Block, States
from dynetjax.trainers.sparse import Gradient
from dynetjax.trainers.update import Gradients


class Members(NamedTuple):
    """The storages of a collection by their part in an update.

    Attributes:
        blocks: parameters that are updated.
        tables: tables that are updated.
        frozen: parameters that count in the norm, and stay as they are.
        frozen_tables: likewise.
    """

    blocks: tuple[Block, ...]
    tables: list[TableStorage]
    frozen: list[DenseStorage]
    frozen_tables: list[TableStorage]


class Census:
    """Knows the members of a collection, and arranges the state of the rule."""

    def __init__(self, collection: ParameterCollection, states: States):
        self._collection = collection
        self._states = states
        self._parameters: list[DenseStorage] = []
        self._tables: list[TableStorage] = []
        self._flags: list[bool] | None = None
        self._members = Members((), [], [], [])

    def members(self) -> Members:
        """Of now: parameters may be added, and `updated` may change, at any time."""
        parameters = self._collection.parameters_list()
        if len(parameters) != len(self._parameters):
            self._parameters = [p.storage for p in parameters]
        tables = self._collection.lookup_parameters_list()
        if len(tables) != len(self._tables):
            self._tables = [t.storage for t in tables]
        flags = [s.updated for s in self._parameters]
        flags += [s.updated for s in self._tables]
        if flags != self._flags:
            self._flags, self._members = flags, self._sort()
        return self._members

    def _sort(self) -> Members:
        updated = [s for s in self._parameters if s.updated]
        return Members(
            self._states.arrange(updated),
            [s for s in self._tables if s.updated],
            [s for s in self._parameters if not s.updated],
            [s for s in self._tables if not s.updated],
        )


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
