"""Runs: a plan carried out, with its values and, after backward, its gradients."""

import time
from collections.abc import Callable, Iterable
from functools import cache, partial, wraps
from itertools import chain
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dynetjax.dims import Shape
from dynetjax.engine.archive import Archive, copied
from dynetjax.engine.backward import backward, scattered_pools
from dynetjax.engine.draws import Draws
from dynetjax.engine.fused import HOT, Fusion, Pools
from dynetjax.engine.gradients import reached_from
from dynetjax.engine.macros import MACROS, pool_of
from dynetjax.engine.plan import Plan
from dynetjax.engine.program import empty, forward
from dynetjax.engine.stats import note_pools, note_time, note_work, phase, timing
from dynetjax.engine.steps import Step
from dynetjax.engine.tape import TapeWriter
from dynetjax.engine.tiling import Tiling
from dynetjax.engine.uniforms import Uniforms
from dynetjax.expression import Expression
from dynetjax.ops.registry import IMPORT, INPUT, LOOKUP

Array = Any


MOST_PARTS = 96  # components that are worth compiling as one


def timed(method: Callable[[Any, Step], Any]) -> Callable[[Any, Step], Any]:
    """A method that runs a component; where components are timed, it waits for it."""

    @wraps(method)
    def run(self: Any, step: Step) -> Any:
        if not timing():
            return method(self, step)
        start = time.perf_counter()
        result = method(self, step)
        jax.block_until_ready([*self.arrays()])
        note_time(step.label, time.perf_counter() - start)
        return result

    return run


class Run:
    """One plan, run forward once.

    Attributes:
        pools: the arrays, by pool of the plan.
        keeping: whether results that backward needs were kept.
        lent: the same arrays, where all components ran as one program; else None.
        stop: one more than the number of the last node.
    """

    def __init__(
        self,
        tiling: Tiling,
        plan: Plan,
        uniforms: Uniforms,
        draws: Draws,
        archive: Archive | None = None,
    ):
        self.tiling, self.plan, self.uniforms = tiling, plan, uniforms
        self.start = tiling.start
        self.stop = tiling.start + len(tiling) - len(tiling.older)
        self.archive = archive
        self.tapes = TapeWriter(tiling, plan.layout, plan.lanes, draws)
        self.pools: dict[int, Array] = {}
        self.keeping = False
        self.lent: Pools | None = None
        self._tape: np.ndarray | None = None
        self._given: dict[int, Array] = {}
        self._kept: dict[int, list[Array]] = {}
        self._seen: dict[int, np.ndarray] = {}  # pools that were read, by the host

    def __del__(self) -> None:
        """Arrays that were lent can be lent again: nobody reads this run any more."""
        if self.lent is not None:
            self.lent.give_back()

    def again(self) -> "Run":
        """The same, not yet run."""
        found = Run(self.tiling, self.plan, self.uniforms, self.tapes.draws)
        found.stop = self.stop
        return found

    def forward(self, keeping: bool, ahead: Expression | None = None) -> None:
        """Compute every node of the plan, and keep what backward needs if asked.

        Where programs are new, that of a backward from `ahead` is compiled meanwhile.
        """
        with phase("tape"):
            self._write()
        self.keeping = keeping
        fusion = self.plan.fusion
        fusion.runs += 1
        hot = fusion.runs > HOT and len(fusion.parts) <= MOST_PARTS
        with phase("run"):
            if hot and not timing():
                if ahead is not None and fusion.runs == HOT + 1:
                    self._prepare_backward(fusion, ahead)
                self._forward_fused(fusion)
            else:
                self._kept = {s.part: self._forward(s) for s in self.plan.steps}
        self._note()

    def _note(self) -> None:
        """Tell the counters what was done."""
        note_work(self.plan.work)
        note_pools(self.plan.fusion.pool_bytes)

    def _write(self) -> None:
        """Write the tapes of all blocks into one array, and gather what is given."""
        plan = self.plan
        tape = plan.template.tape.copy()
        self.tapes.fill(plan.template.columns, tape)
        for step in plan.steps:
            if step.program.body.cells[0].form == INPUT:
                self._given[step.part] = self._rows_given(step)
        self._tape = tape

    def part(self, tape: np.ndarray, step: Step) -> np.ndarray:
        """The part of a tape that is one block's, a view."""
        start = self.plan.fusion.parts[step.part].start
        return tape[start : start + step.program.tape_size]

    def tape_back(self, root: int) -> np.ndarray:
        """The tape for a backward from `root`.

        What the root is not made of has a gradient of 0, which an infinite slope would
        turn into NaN: its lanes are empty.
        """
        assert self._tape is not None
        unused = self.tiling.not_under(root - self.start, self.plan.ends)
        if not len(unused):
            return self._tape
        tape = self._tape.copy()
        self.tapes.clear(unused, self.plan.fusion.places, tape)
        return tape

    def _prepare_backward(self, fusion: Fusion, node: Expression) -> None:
        pool, _ = self.place(node.args[0])
        uniforms = self.uniforms.several(fusion.uniforms)
        fusion.prepare_backward(fusion.pools.index(pool), uniforms, self._tape)

    def _forward_fused(self, fusion: Fusion) -> None:
        uniforms = self.uniforms.several(fusion.uniforms)
        given = [
            self._given[k]
            if k in self._given
            else empty(part.program.lanes, part.program.body.cells[0].shape)
            for k, part in enumerate(fusion.parts)
            if part.given
        ]
        assert self._tape is not None
        lent = self.lent = fusion.forward(self.keeping, uniforms, given, self._tape)
        self.pools = dict(zip(fusion.pools, lent.pools, strict=True))

    @timed
    def _forward(self, step: Step) -> list[Array]:
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
        assert self._tape is not None
        tape = self.part(self._tape, step)
        arrays, kept = run(self._uniforms(step), read, shared, given, tape)
        for p, array in zip(written, arrays, strict=True):
            self.pools[names[p]] = array
        return kept

    def _pool(self, name: int, capacity: int) -> Array:
        """A pool; empty if nothing in this graph writes it."""
        found = self.pools.get(name)
        return empty(capacity, MACROS[name].shape) if found is None else found

    def _uniforms(self, step: Step) -> list[Array]:
        return self.uniforms.several(tuple(step.wires.uniforms))

    def arrays(self) -> Iterable[Array]:
        """What was computed so far."""
        return self.pools.values()

    def _rows_given(self, step: Step) -> Array:
        macro, lanes = step.wires.macros[0], step.program.lanes
        if MACROS[macro].form == IMPORT:
            return self._import(macro, lanes)
        return self.tapes.inputs(macro, lanes)

    def _import(self, macro: int, lanes: int) -> Array:
        """Rows that were computed before, lane by lane."""
        assert self.archive is not None
        places = self.tapes.lanes(macro)
        first = len(self.tiling) - len(self.tiling.older)
        numbers = self.tiling.older[places.nodes - first].tolist()
        rows = places.spread(np.array([self.archive.row[n] for n in numbers]))
        if places.element is not None:
            rows = rows + places.element
        chosen = np.zeros(lanes, np.int32)
        chosen[places.at] = rows
        return self.archive.take(pool_of(MACROS[macro].shape), chosen)

    def macro(self, number: int) -> int:
        """The macro of a node that was computed here."""
        return int(self.tiling.macro_of[number - self.start])

    def needs_pool(self, number: int) -> bool:
        """Whether no pool has the gradient at a node; next time one has."""
        scope = self.plan.scope
        pulled = any(part.left for part in self.plan.fusion.parts)
        scope.want_gradients(self.macro(number), pulled)
        return self.plan.version != scope.version

    def place(self, number: int) -> tuple[int, int]:
        """Pool and first row of a node that was computed here."""
        row = self.plan.layout.row[number - self.start]
        return self.plan.pools[self.macro(number)], int(row)

    def rows(self, number: int, batch: int) -> np.ndarray:
        """The values of a node that was computed here, ``[batch, *shape]``."""
        pool, row = self.place(number)
        array = self.pools[pool]
        if host_sees_device():
            array = self._seen[pool] = np.asarray(array)
        return read_rows(array, row, batch)

    def at_hand(self, number: int, batch: int) -> np.ndarray | None:
        """The same, where another row of the pool was read before; else None."""
        pool, row = self.place(number)
        seen = self._seen.get(pool)
        return None if seen is None else seen[row : row + batch]


class Backward:
    """The gradients of one node of one number, through one run.

    Attributes:
        number: of the node among the stored ones.
        reached: the parameters that nodes up to it read, but for constant ones.
        touched: of every lookup up to it: kind id of the table, row ids, gradients.
    """

    def __init__(self, run: Run, node: Expression, full: bool):
        self.run, self.node, self.full = run, node, full
        self.gradients: dict[int, Array] = {}
        self.weights: dict[int, list[Array]] = {}
        self.number: int = node.args[0]
        self._tape = run.tape_back(self.number)
        place = run.place(self.number)
        self.tables: list[tuple[Step, Array]] = []
        if run.lent is not None:
            self._fused(run.lent, *place)
        else:
            self._step_by_step(*place)
        self.reached = reached_from(node, run.tiling)
        self.touched = [*self._touched()]

    def _fused(self, lent: Pools, pool: int, row: int) -> None:
        run = self.run
        fusion = run.plan.fusion
        gradients, weights, tables = fusion.backward(
            fusion.pools.index(pool),
            np.int32(row),
            run.uniforms.several(fusion.uniforms),
            lent.pools,
            lent.kept,
            self._tape,
        )
        self.gradients = {fusion.pools[p]: a for p, a in gradients.items()}
        self.weights = {fusion.uniforms[n]: [a] for n, a in weights.items()}
        self.tables = [
            (step, tables[step.part]) for step in run.plan.steps if step.part in tables
        ]

    def _step_by_step(self, pool: int, row: int) -> None:
        steps = self.run.plan.steps
        shape = MACROS[pool].shape
        self.gradients[pool] = _seed(row, self.run.plan.layout.room[pool], shape)
        for step in reversed(steps):
            self._step(step)

    @timed
    def _step(self, step: Step) -> None:
        run = self.run
        body = step.wires.body
        names = step.wires.pools
        if not run.plan.fusion.parts[step.part].learns:
            return
        if all(names[p] not in self.gradients for p in step.program.written):
            return
        into = scattered_pools(body)
        fresh = tuple(p for p in into if names[p] not in self.gradients)
        known = self.gradients
        above = [
            [known[names[p]]] if names[p] in known and p not in into else []
            for p in step.program.written
        ]
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
            run.part(self._tape, step),
        )
        if body.cells[0].form == LOOKUP:
            self.tables.append((step, arrays[0]))
            return
        for p, array in zip(into, arrays, strict=True):
            self.gradients[names[p]] = array
        for n, gradient in zip(step.program.learned, weights, strict=True):
            self.weights.setdefault(step.wires.uniforms[n], []).append(gradient)

    def arrays(self) -> Iterable[Array]:
        """What was computed so far."""
        return [*self.gradients.values(), *chain(*self.weights.values())]

    def rows(self, number: int, batch: int) -> np.ndarray:
        """The gradient of a stored node, ``[batch, *shape]``."""
        run = self.run
        macro = run.macro(number)
        pool, row = run.place(number)
        reached = self.full or macro in run.plan.differentiable
        if number == self.number or (reached and pool in self.gradients):
            return read_rows(self.gradients[pool], row, batch)
        return np.zeros((batch, *MACROS[macro].shape), np.float32)

    def _touched(self) -> Iterable[tuple[int, np.ndarray, Array]]:
        run = self.run
        for step, values in self.tables:
            macro = step.wires.macros[0]
            table = MACROS[macro].kinds[0]
            lanes = run.tapes.lanes(macro)
            ids = np.full(step.program.lanes, table.shape[0], np.int32)
            found = run.tapes.row_ids(lanes)
            cells, root = run.tiling.cells, self.node.index
            if cells[int(lanes.nodes[-1])].index <= root:
                ids[lanes.at] = found
            else:
                indices = [cells[n].index for n in lanes.nodes.tolist()]
                reached = lanes.spread(np.array(indices) <= root)
                ids[lanes.at[reached]] = found[reached]
            yield table.id, ids, values


@partial(jax.jit, static_argnums=(1, 2))
def _seed(row: int, capacity: int, shape: Shape) -> Array:
    return jnp.zeros((capacity, *shape)).at[row].set(1.0)


@cache
def host_sees_device() -> bool:
    """Whether arrays of the device lie in the host's memory."""
    return jax.default_backend() == "cpu"


def read_rows(pool: Array, row: int, count: int) -> np.ndarray:
    """`count` rows of a pool on the host, not to be written to; waits for them.

    Where the host sees the device's memory, they are a view of the pool.
    """
    if host_sees_device():
        return np.asarray(pool)[row : row + count]
    return copied(pool, row, count)
