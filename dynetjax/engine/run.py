"""Runs: a plan carried out, with its values and, after backward, its gradients."""

from collections.abc import Iterable
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dynetjax.dims import Shape
from dynetjax.engine.backward import back_pools, backward
from dynetjax.engine.fused import HOT, Fusion, fused_backward, fused_forward
from dynetjax.engine.plan import Plan, Step
from dynetjax.engine.program import forward
from dynetjax.engine.schedule import capacity
from dynetjax.engine.stats import phase
from dynetjax.engine.tape import TapeWriter
from dynetjax.engine.tiling import MACROS
from dynetjax.engine.uniforms import Uniforms
from dynetjax.graph import ComputationGraph
from dynetjax.ops.registry import IMPORT, INPUT, LOOKUP

Array = Any


MOST_PARTS = 96  # components that are worth compiling as one


class Run:
    """One plan, run forward once.

    Attributes:
        pools: the arrays, by pool of the plan.
        keeping: whether results that backward needs were kept.
        fused: whether all components ran as one program.
    """

    def __init__(
        self,
        graph: ComputationGraph,
        plan: Plan,
        uniforms: Uniforms,
        seed: int,
        older: "Iterable[Run]" = (),
    ):
        self.graph, self.plan, self.uniforms = graph, plan, uniforms
        self.tapes = TapeWriter(graph, plan, seed)
        self.older = list(older)
        self.pools: dict[int, Array] = {}
        self.keeping = False
        self.fused = False
        self._tape: np.ndarray | None = None
        self._given: dict[int, Array] = {}
        self._kept: dict[int, list[Array]] = {}

    def forward(self, keeping: bool) -> None:
        """Compute every node of the plan, and keep what backward needs if asked."""
        if self._tape is None:
            with phase("tape"):
                self._write()
        self.keeping = keeping
        fusion = self.plan.fusion
        fusion.runs += 1
        self.fused = fusion.runs > HOT and len(fusion.parts) <= MOST_PARTS
        with phase("run"):
            if self.fused:
                self._forward_fused(fusion)
            else:
                self.pools = {}
                self._kept = {
                    s.part: self._forward(s, self.tape(s)) for s in self.plan.steps
                }

    def _write(self) -> None:
        """Write the tapes of all blocks into one array, and gather what is given."""
        tape, again = self.plan.blank_tape()
        for step in self.plan.steps:
            self.tapes.write(step, self._part(tape, step), again)
            if step.program.body.cells[0].form == INPUT:
                self._given[step.part] = self._rows_given(step)
        if not again:  # and only now: a tape half written is no template
            self.plan.template.append(tape)
        self._tape = tape

    def _part(self, tape: np.ndarray, step: Step) -> np.ndarray:
        """The part of a tape that is one block's, a view."""
        start = self.plan.fusion.parts[step.part].start
        return tape[start : start + step.program.tape_size]

    def tape(self, step: Step) -> np.ndarray:
        """The written tape of one block."""
        assert self._tape is not None
        return self._part(self._tape, step)

    def _forward_fused(self, fusion: Fusion) -> None:
        uniforms = [self.uniforms.value(k) for k in fusion.uniforms]
        given = [
            self._given[k]
            if k in self._given
            else empty(part.program.lanes, part.program.body.cells[0].shape)
            for k, part in enumerate(fusion.parts)
            if part.given
        ]
        run = fused_forward(fusion.parts, self.keeping)
        pools, kept = run(uniforms, given, self._tape)
        self.pools = dict(zip(fusion.pools, pools, strict=True))
        self._kept = dict(enumerate(kept))

    def _forward(self, step: Step, tape: np.ndarray) -> list[Array]:
        program, names = step.program, step.wires.pools
        written = program.written
        fresh = tuple(p for p in written if names[p] not in self.pools)
        read, shared = [], []
        for p, name in enumerate(names):
            if p not in written:
                read.append(self._pool(name, program.capacities[p]))
            elif p not in fresh:
                shared.append(self.pools[name])
        run = forward(program, fresh, self.keeping)
        given = self._given.get(step.part)
        arrays, kept = run(self._uniforms(step), read, shared, given, tape)
        for p, array in zip(written, arrays, strict=True):
            self.pools[names[p]] = array
        return kept

    def _pool(self, name: int, capacity: int) -> Array:
        """A pool; empty if nothing in this graph writes it."""
        found = self.pools.get(name)
        return empty(capacity, MACROS[name].shape) if found is None else found

    def _uniforms(self, step: Step) -> list[Array]:
        return [self.uniforms.value(k) for k in step.wires.uniforms]

    def _rows_given(self, step: Step) -> Array:
        macro, lanes = step.wires.macros[0], step.program.lanes
        if MACROS[macro].form == IMPORT:
            return self._import(macro, lanes)
        return self.tapes.inputs(macro, lanes)

    def _import(self, macro: int, lanes: int) -> Array:
        """Rows that older runs computed, lane by lane."""
        places = self.tapes.lanes(macro)
        nodes = self.plan.section.ids[places.node]
        rows: dict[tuple[int, int], np.ndarray] = {}
        for node, element, at in zip(
            nodes.tolist(), places.element.tolist(), places.at.tolist(), strict=True
        ):
            k, pool, row = self._where(node)
            if (k, pool) not in rows:
                rows[k, pool] = np.zeros(lanes, np.int32)
            rows[k, pool][at] = row + element
        total = None
        for (k, pool), chosen in rows.items():
            total = _add_rows(total, self.older[k].pools[pool], chosen)
        return total

    def _where(self, node: int) -> tuple[int, int, int]:
        """The older run that stored a node of the graph, its pool and first row."""
        for k in reversed(range(len(self.older))):
            place = self.older[k].place(node)
            if place is not None:
                return k, *place
        raise AssertionError(f"node {node} is imported but was never stored")

    def local(self, node: int) -> int | None:
        """The plan's number of a node of the graph."""
        section = self.plan.section
        k = int(np.searchsorted(section.ids, node))
        if k == len(section) or section.ids[k] != node or k in section.hidden:
            return None
        return k

    def place(self, node: int) -> tuple[int, int] | None:
        """Pool and first row of a node of the graph, if this run stored it."""
        k = self.local(node)
        if k is None or not self.plan.stored(k):
            return None
        if MACROS[int(self.plan.tiling.macro_of[k])].form == IMPORT:
            return None
        return self.plan.pool(k), int(self.plan.layout.row[k])

    def origin(self, node: int) -> int | None:
        """The macro that stored a node of the graph."""
        k = self.local(node)
        if k is None or self.place(node) is None:
            return None
        return int(self.plan.tiling.macro_of[k])

    def rows(self, node: int, batch: int) -> np.ndarray | None:
        """The values of a node of the graph, ``[batch, *shape]``."""
        place = self.place(node)
        return (
            None if place is None else read_rows(self.pools[place[0]], place[1], batch)
        )


class Backward:
    """The gradients of one node of one number, through one run."""

    def __init__(self, run: Run, node: int, full: bool):
        self.run, self.node, self.full = run, node, full
        self.gradients: dict[int, Array] = {}
        self.weights: dict[int, list[Array]] = {}
        place = run.place(node)
        assert place is not None, "the root of a backward is stored"
        self.tables: list[tuple[Step, Array]] = []
        if run.fused:
            self._fused(*place)
        else:
            self._step_by_step(*place)

    def _fused(self, pool: int, row: int) -> None:
        run = self.run
        fusion = run.plan.fusion
        parts = len(fusion.parts)
        gradients, weights, tables = fused_backward(
            fusion.parts, fusion.pools.index(pool)
        )(
            np.int32(row),
            [run.uniforms.value(k) for k in fusion.uniforms],
            [run.pools[p] for p in fusion.pools],
            [run._kept[k] for k in range(parts)],
            run._tape,
        )
        self.gradients = {fusion.pools[p]: a for p, a in gradients.items()}
        self.weights = {fusion.uniforms[n]: [a] for n, a in weights.items()}
        self.tables = [
            (step, tables[step.part]) for step in run.plan.steps if step.part in tables
        ]

    def _step_by_step(self, pool: int, row: int) -> None:
        steps = self.run.plan.steps
        level = self.run.plan.layout.level
        shape = MACROS[pool].shape
        self.gradients[pool] = _seed(row, capacity(shape, level), shape)
        for step in reversed(steps):
            self._step(step)

    def _step(self, step: Step) -> None:
        run = self.run
        body = step.wires.body
        names = step.wires.pools
        if not run.plan.fusion.parts[step.part].learns:
            return
        if all(names[p] not in self.gradients for p in step.program.written):
            return
        into = back_pools(body)
        fresh = tuple(p for p in into if names[p] not in self.gradients)
        above = [self._above(step, p) for p in step.program.written if p not in into]
        back = [self.gradients[names[p]] for p in into if p not in fresh]
        pools = [
            run._pool(name, c)
            for name, c in zip(names, step.program.capacities, strict=True)
        ]
        arrays, weights = backward(step.program, fresh)(
            run._uniforms(step),
            pools,
            run._kept[step.part],
            above,
            back,
            None,
            run.tape(step),
        )
        if body.cells[0].form == LOOKUP:
            self.tables.append((step, arrays[0]))
            return
        for p, array in zip(into, arrays, strict=True):
            self.gradients[names[p]] = array
        for n, gradient in zip(step.program.learned, weights, strict=True):
            self.weights.setdefault(step.wires.uniforms[n], []).append(gradient)

    def _above(self, step: Step, p: int) -> Array:
        found = self.gradients.get(step.wires.pools[p])
        return (
            empty(step.program.capacities[p], step.wires.body.pools[p])
            if (found is None)
            else found
        )

    def rows(self, node: int, batch: int) -> np.ndarray | None:
        """The gradient of a node of the graph; None if it was inlined."""
        run = self.run
        place = run.place(node)
        if place is None:
            return None
        macro = int(run.plan.tiling.macro_of[run.local(node)])
        pool, row = place
        reached = self.full or macro in run.plan.differentiable
        if node == self.node or (reached and pool in self.gradients):
            return read_rows(self.gradients[pool], row, batch)
        return np.zeros((batch, *MACROS[macro].shape), np.float32)

    def touched(self) -> Iterable[tuple[int, np.ndarray, Array]]:
        """(kind id of the table, row ids, gradients) of every lookup up to the root."""
        run = self.run
        for step, values in self.tables:
            macro = step.wires.macros[0]
            table = MACROS[macro].kinds[0]
            lanes = run.tapes.lanes(macro)
            ids = np.full(step.program.lanes, table.shape[0], np.int32)
            found = run.tapes.values(lanes, lanes.nodes, 0, np.int32)
            reached = run.plan.section.ids[lanes.node] <= self.node
            ids[lanes.at[reached]] = found[reached]
            yield table.id, ids, values


@partial(jax.jit, static_argnums=(1, 2))
def _seed(row: int, capacity: int, shape: Shape) -> Array:
    return jnp.zeros((capacity, *shape)).at[row].set(1.0)


@jax.jit
def _add_rows(total: Array | None, pool: Array, rows: Array) -> Array:
    found = pool.at[rows].get(mode="promise_in_bounds")
    return found if total is None else total + found


@lru_cache(maxsize=64)
def empty(capacity: int, shape: Shape) -> Array:
    """A pool of zeros, which nobody may donate."""
    return jax.device_put(np.zeros((capacity, *shape), np.float32))


@partial(jax.jit, static_argnums=2)
def _slice(pool: Array, row: int, count: int) -> Array:
    return lax.dynamic_slice_in_dim(pool, row, count)


def read_rows(pool: Array, row: int, count: int) -> np.ndarray:
    """`count` rows of a pool on the host; waits for them.

    Where the host sees the device's memory, no copy of the whole pool is made.
    """
    if next(iter(pool.devices())).platform == "cpu":
        return np.array(np.asarray(pool)[row : row + count])
    room = min(1 << (count - 1).bit_length(), pool.shape[0])
    start = min(row, pool.shape[0] - room)
    return np.asarray(_slice(pool, start, room))[row - start :][:count]
