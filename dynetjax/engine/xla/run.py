"""Runs: a layout carried out, with its values."""

from functools import lru_cache
from typing import Any

import numpy as np

from dynetjax.core.dims import Shape
from dynetjax.core.expression import Expression
from dynetjax.core.lazy import at_first_call, jax
from dynetjax.core.registry import IMPORT, OWNERS
from dynetjax.engine.device import host_sees_device
from dynetjax.engine.ir.draws import Draws, keys_of
from dynetjax.engine.ir.fused import FusedOp
from dynetjax.engine.ir.part import Rows, Summary
from dynetjax.engine.plan.layout import Layout
from dynetjax.engine.plan.wiring import Column
from dynetjax.engine.stats import note_launch, note_pools, note_sent, note_work, phase
from dynetjax.engine.xla.compiling import Compiled
from dynetjax.engine.xla.executable import (
    Pools,
    backward,
    forward,
    is_given,
    keeps,
    prepare_backward,
    prepare_forward,
    run_forward,
)
from dynetjax.engine.xla.slices import cut
from dynetjax.engine.xla.weights import Weights

Array = Any
SMALL = 1 << 16  # numbers of a pool, which are fetched as soon as a few of them


class Run:
    """One layout, run forward once.

    Args:
        stored: the `StoredNodes` of a graph.

    Attributes:
        layout: of the stored nodes from `start` on; those that were computed before
            follow.
        stop: one more than the number of the last node.
        keeping: whether residuals were kept.
        values: what was computed; None before it ran.
        indices: the index buffer, with runtime data; where it was sent to a device,
            what is there.
    """

    def __init__(
        self,
        stored: Any,
        start: int,
        layout: Layout,
        weights: Weights,
        draws: Draws,
    ):
        self.layout = layout
        self.weights = weights
        self._stored, self._draws = stored, draws
        self.start = start
        self.stop: int = start + layout.flat.count
        self.keeping: bool = False
        self.values: Pools | None = None
        self.indices: Array = None
        self._written = layout.indices  # the same on the host
        self._of_op: dict[int, Nodes] = {}  # once found
        self._seen: dict[int, np.ndarray] = {}  # pools that were read, by the host

    def __del__(self) -> None:
        """Nobody reads this run any more: its arrays can be used again."""
        if self.values is not None:
            self.values.release()

    def again(self) -> "Run":
        """A run of the same layout and weights, with nothing computed yet."""
        run = Run(self._stored, self.start, self.layout, self.weights, self._draws)
        return run

    def forward(self, root: int | None, older: Rows | None = None) -> None:
        """Compute every node of the layout, and keep what backward needs if asked.

        Args:
            root: number of the node where a backward may begin; None if none may.
            older: gives the rows of nodes that were computed before, if it reads any.
        """
        self.keeping = keeping = root is not None
        made = self.layout.program
        with phase("write", 1):
            self._write_runtime_data()
            if root is not None:
                self._written[-1] = self.pool_and_row(root)[1]
            given = self._given(older)
        with phase("run", 1, " forward"):
            weights = self.weights.several(self.layout.binding.wiring.weights)
            if not host_sees_device():  # once for both directions
                self.indices = jax.device_put(self._written)
                note_sent(1)
            args = weights, given, self.indices
            self.values = run_forward(made, keeping, *args)
        note_work(self.layout.work())
        note_pools(made.pool_bytes)

    def _write_runtime_data(self) -> None:
        self.indices = self._written = self.layout.indices
        for column, at in self.layout.binding.data:
            nodes = self.nodes(column.op)
            if len(nodes.numbers):
                self._written[at + nodes.lanes] = self._runtime(column, nodes)

    @property
    def differentiable(self) -> set[int]:
        """The ops whose results depend on a parameter."""
        return self.layout.differentiable

    def number(self, local: int) -> int:
        """The number of a stored node that has the number `local` in this run."""
        count = self.layout.flat.count
        older: list[int] = self.layout.flat.older
        return self.start + local if local < count else older[local - count]

    def index(self, local: int) -> int:
        """A node's place among the user's, by its local number."""
        index: int = self._stored.index(self.number(local))
        return index

    def fused_up_to(self, root: Expression) -> list[int]:
        """The fused ops of nodes that the user made up to one."""
        numbers = range(self.start, self.stop)
        index, fused = self._stored.index, self._stored.fused
        return list(
            dict.fromkeys([fused(n) for n in numbers if index(n) <= root.index])
        )

    def nodes(self, op: int) -> "Nodes":
        """The nodes of an op."""
        nodes = self._of_op.get(op)
        if nodes is None:
            nodes = self._of_op[op] = Nodes(*self.layout.flat.nodes(op))
        return nodes

    def _runtime(self, column: Column, nodes: "Nodes") -> np.ndarray:
        """A column of runtime data, by lanes."""
        if column.content == "rows":
            ids = self.row_ids(column.op)
            table = OWNERS.get(self._fused(column.op).kinds[0].source)
            if table is not None:
                table.will_read(ids)
            return ids
        fused = self._fused(column.op)
        values = self._data(nodes, fused.data, fused.fields[column.field])
        if column.content in "if":
            return values
        keys = keys_of(self._draws, values.astype(np.int64), nodes.counts)
        return np.ascontiguousarray(keys[:, int(column.content == "k2")]).view(np.int32)

    def _data(self, nodes: "Nodes", letters: str, field: int) -> np.ndarray:
        """A field of the runtime data of nodes of this run."""
        numbers = nodes.numbers + np.int32(self.start)
        return np.frombuffer(self._stored.column(numbers, letters, field), np.int32)

    def _fused(self, op: int) -> FusedOp:
        return self.layout.family.ops[op]

    def row_ids(self, op: int) -> np.ndarray:
        """The rows of a table that the nodes of a LOOKUP read, by lanes."""
        return self._data(self.nodes(op), "i", 0)

    def _given(self, older: Rows | None) -> list[Array]:
        """The rows of components that get them from outside."""
        made, family = self.layout.program, self.layout.family
        given = []
        for k, body in enumerate(made.code.components):
            if not is_given(body):
                continue
            shape = made.lanes[k], *body[0].shape
            if not self.layout.trips[k]:
                given.append(empty(shape))
                continue
            (op,) = family.components[k]
            nodes = self.nodes(op)
            rows = np.zeros(shape, np.float32)
            if family.ops[op].form == IMPORT:
                assert older is not None
                numbers = nodes.numbers - self.layout.flat.count
                parts = [older(self.layout.flat.older[n]) for n in numbers.tolist()]
            else:
                given_by = self._stored.given
                parts = [given_by(self.number(n)) for n in nodes.numbers.tolist()]
            rows[nodes.lanes] = np.concatenate(parts)
            given.append(rows)
        return given

    def indices_back(self, root: int) -> Array:
        """The index buffer for a backward from a node.

        Nodes that it is not made of have a gradient of 0, which an infinite slope would
        turn into NaN: their lanes are empty.
        """
        flat, (_, row) = self.layout.flat, self.pool_and_row(root)
        unused = flat.unused(root - self.start)
        if not unused and self._written[-1] == row:
            return self.indices
        indices = self._written.copy()
        indices[-1] = row
        flat.clear(unused, self.layout.binding.addresses, indices)
        return indices

    def functions(self, keeping: bool, root: int | None) -> list[Compiled]:
        """What runs it: forward, and back from a node if there is one."""
        program = self.layout.program
        run = forward(program, keeping and keeps(program))
        return [run] if root is None else [run, backward(program, self.pool(root))]

    def prepare(self, keeping: bool, root: int | None) -> None:
        """Compile these beside other work, if they are new."""
        weights = self.weights.shapes(self.layout.binding.wiring.weights)
        prepare_forward(self.layout.program, keeping, weights)
        if root is not None:
            self.prepare_backward_from(root)

    def prepare_backward_from(self, number: int) -> None:
        """Compile a backward from a node beside other work, if it is new."""
        weights = self.weights.shapes(self.layout.binding.wiring.weights)
        prepare_backward(self.layout.program, self.pool(number), weights)

    def pool(self, number: int) -> int:
        """The pool that has the rows of a stored node."""
        return self.layout.pool(self._stored.fused(number))

    def pool_and_row(self, number: int) -> tuple[int, int]:
        """Pool and first row of a node that was computed here."""
        return self.pool(number), self.layout.flat.row(number - self.start)

    def rows(self, number: int, batch: int) -> np.ndarray:
        """The values of a node that was computed here, ``[batch, *shape]``."""
        pool, row = self.pool_and_row(number)
        seen = self._seen.get(pool)
        if seen is not None:
            return seen[row : row + batch]
        assert self.values is not None
        array = self.values.pools[pool]
        if host_sees_device() or array.size <= SMALL:
            array = self._seen[pool] = np.asarray(array)
            return array[row : row + batch]
        return read_rows(array, row, batch)

    def cut(self, stop: int) -> bool:
        """False: it is computed as a whole, and cannot keep only the first nodes."""
        del stop
        return False

    def executor(self) -> None:
        """Nothing that a value could be asked of without a copy of its pool."""

    def summary(self) -> Summary:
        """What this run is, in words, and its components with their nodes."""
        layout, components = self.layout, []
        for k, ops in enumerate(layout.family.components):
            trips, width = layout.trips[k], layout.program.widths[k]
            if trips:
                kind = "loop" if layout.family.cyclic[k] else "once"
                size = f"{trips} trip{'s' if trips > 1 else ''} of {width} lane"
                numbers = [n for op in ops for n in self.nodes(op).numbers.tolist()]
                nodes = [self.number(n) for n in numbers]
                components.append((f"{kind}, {size}{'s' if width > 1 else ''}", nodes))
        head = f"nodes {self.start} to {self.stop - 1}: {len(components)} components of"
        room = f"room for {layout.program.pool_bytes >> 10} KB of rows"
        return f"{head} {len(layout.trips)}, {room}", components


class Nodes:
    """The nodes of one op: local numbers, batch sizes, and the lane of each element."""

    __slots__ = ("counts", "lanes", "numbers")

    def __init__(self, numbers: Any, first: Any, counts: Any):
        arrays = numbers, first, counts
        numbers, first, counts = [np.frombuffer(a, np.int32) for a in arrays]
        self.numbers: np.ndarray = numbers
        self.counts: np.ndarray = counts
        self.lanes: np.ndarray = first
        if (counts > 1).any():
            ends = counts.cumsum()
            element = np.arange(ends[-1]) - (ends - counts).repeat(counts)
            self.lanes = first.repeat(counts) + element


@lru_cache(maxsize=64)
def empty(shape: Shape) -> Array:
    """Rows of zeros, which nobody may donate."""
    return jax.device_put(np.zeros(shape, np.float32))


def read_rows(pool: Array, row: int, count: int) -> np.ndarray:
    """`count` rows of a pool on the host, not to be written to; waits for them.

    Where the host sees the device's memory, they are a view of the pool.
    """
    if host_sees_device():
        return np.asarray(pool)[row : row + count]
    room = min(1 << (count - 1).bit_length(), pool.shape[0])  # few sizes are compiled
    start = min(row, pool.shape[0] - room)
    note_launch()
    return np.asarray(_slice(pool, start, room))[row - start : row - start + count]


@at_first_call(lambda f: jax.jit(f, static_argnums=2))
def _slice(pool: Array, row: int, count: int) -> Array:
    return cut(pool, row, count)
