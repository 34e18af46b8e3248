"""Runs: a plan carried out, with its values."""

from collections.abc import Callable
from typing import Any

import numpy as np

from dynetjax.engine.device import host_sees_device
from dynetjax.engine.draws import Draws
from dynetjax.engine.fused import Fusion, Pools
from dynetjax.engine.macros import MACROS
from dynetjax.engine.plan import Plan
from dynetjax.engine.program import empty
from dynetjax.engine.slices import cut
from dynetjax.engine.stats import note_pools, note_work, phase
from dynetjax.engine.steps import Step
from dynetjax.engine.tape import TapeWriter
from dynetjax.engine.tiling import Tiling
from dynetjax.engine.uniforms import Uniforms
from dynetjax.expression import Expression
from dynetjax.graph import free_last_graph
from dynetjax.lazy import at_first_call, jax
from dynetjax.ops.registry import IMPORT, INPUT

Array = Any
Rows = Callable[[int], np.ndarray]  # of a stored node, by its number


class Run:
    """One plan, run forward once.

    Attributes:
        pools: the arrays, by pool of the plan.
        keeping: whether results that backward needs were kept.
        lent: the same arrays, and what was kept; None before it ran.
        stop: one more than the number of the last node.
    """

    def __init__(self, tiling: Tiling, plan: Plan, uniforms: Uniforms, draws: Draws):
        self.tiling, self.plan, self.uniforms = tiling, plan, uniforms
        self.start = tiling.start
        self.stop = tiling.start + len(tiling) - len(tiling.older)
        self.tapes = TapeWriter(tiling, plan.layout, plan.lanes, draws)
        self.pools: dict[int, Array] = {}
        self.keeping = False
        self.lent: Pools | None = None
        self._tape: Array | None = None
        self._given: dict[int, Array] = {}
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

    def forward(self, keeping: bool, older: Rows | None = None) -> None:
        """Compute every node of the plan, and keep what backward needs if asked.

        `older` gives the rows of nodes that were computed before, if it reads any.
        """
        self.keeping = keeping
        with phase("tape"):
            self._write(older)
        with phase("run"):
            self._forward(self.plan.fusion)
        free_last_graph()  # while the device is at work
        note_work(self.plan.work)
        note_pools(self.plan.fusion.pool_bytes)

    def _write(self, older: Rows | None) -> None:
        """Write the tapes of all blocks into one array, and gather what is given."""
        plan = self.plan
        tape = plan.template.tape.copy()
        self.tapes.fill(plan.template.columns, tape)
        self._tape = tape
        for step in plan.steps:
            if step.program.body.cells[0].form == INPUT:
                self._given[step.part] = self._rows_given(step, older)

    def tape_back(self, unused: np.ndarray) -> Array:
        """The tape for a backward from something that these nodes are no part of.

        They have a gradient of 0, which an infinite slope would turn into NaN: their
        lanes are empty.
        """
        assert self._tape is not None
        if not len(unused):
            return self._tape
        tape = np.array(self._tape)
        self.tapes.clear(unused, self.plan.fusion.places, tape)
        return tape

    def prepare_backward_from(self, node: Expression) -> None:
        """Compile a backward from a node beside other work, if it is new."""
        fusion = self.plan.fusion
        pool, _ = self.place(node.args[0])
        uniforms = self.uniforms.several(fusion.uniforms)
        fusion.prepare_back(pool, uniforms)

    def _forward(self, fusion: Fusion) -> None:
        uniforms = self.uniforms.several(fusion.uniforms)
        given = [
            self._given[k]
            if k in self._given
            else empty(part.program.lanes, part.program.body.cells[0].shape)
            for k, part in enumerate(fusion.parts)
            if part.given
        ]
        assert self._tape is not None
        if not host_sees_device():  # once for both directions
            free_last_graph()  # while a program on the host writes the tape
            self._tape = jax.device_put(np.asarray(self._tape))
        about = uniforms, given, self._tape
        lent = self.lent = fusion.forward(self.keeping, *about)
        self.pools = dict(zip(fusion.pools, lent.pools, strict=True))

    def _rows_given(self, step: Step, older: Rows | None) -> Array:
        macro, lanes = step.wires.macros[0], step.program.lanes
        if MACROS[macro].form == IMPORT:
            assert older is not None
            return self._import(macro, lanes, older)
        return self.tapes.inputs(macro, lanes)

    def _import(self, macro: int, lanes: int, older: Rows) -> Array:
        """Rows that were computed before, lane by lane."""
        places = self.tapes.lanes(macro)
        first = len(self.tiling) - len(self.tiling.older)
        numbers = self.tiling.older[places.nodes - first].tolist()
        found = np.zeros((lanes, *MACROS[macro].shape), np.float32)
        found[places.at] = np.concatenate([older(n) for n in numbers])
        return found

    def macro(self, number: int) -> int:
        """The macro of a node that was computed here."""
        return self.tiling.cells[number - self.start].rule.macro

    def needs_pool(self, number: int) -> bool:
        """Whether no pool has the gradient at a node; next time one has."""
        scope = self.plan.scope
        scope.want_gradients(self.macro(number))
        return self.plan.version != scope.version

    def place(self, number: int) -> tuple[int, int]:
        """Pool and first row of a node that was computed here."""
        row = self.plan.layout.row.item(number - self.start)
        return self.plan.pools[self.macro(number)], row

    def rows(self, number: int, batch: int) -> np.ndarray:
        """The values of a node that was computed here, ``[batch, *shape]``."""
        pool, row = self.place(number)
        seen = self._seen.get(pool)
        if seen is not None:
            return seen[row : row + batch]
        array = self.pools[pool]
        if host_sees_device():
            array = self._seen[pool] = np.asarray(array)
        return read_rows(array, row, batch)

    def at_hand(self, node: Expression) -> np.ndarray | None:
        """The same, where another row of the pool was read before; else None."""
        seen = self._seen.get(self.plan.pools[node.rule.macro])
        if seen is None or self.start:
            return None
        row = self.plan.layout.row.item(node.args[0] - self.start)
        return seen[row : row + node.lanes]


def read_rows(pool: Array, row: int, count: int) -> np.ndarray:
    """`count` rows of a pool on the host, not to be written to; waits for them.

    Where the host sees the device's memory, they are a view of the pool.
    """
    if host_sees_device():
        return np.asarray(pool)[row : row + count]
    room = min(1 << (count - 1).bit_length(), pool.shape[0])  # few sizes are compiled
    start = min(row, pool.shape[0] - room)
    return np.asarray(_slice(pool, start, room))[row - start : row - start + count]


@at_first_call(lambda f: jax.jit(f, static_argnums=2))
def _slice(pool: Array, row: int, count: int) -> Array:
    return cut(pool, row, count)
