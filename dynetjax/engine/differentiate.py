"""Gradients: a run carried out backwards, and a later one before it."""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

import numpy as np

from dynetjax.engine.backward import backward, scattered_pools
from dynetjax.engine.fused import Pools
from dynetjax.engine.gradients import reached_from
from dynetjax.engine.macros import MACROS
from dynetjax.engine.run import Run, read_rows, timed
from dynetjax.engine.seeds import Seed
from dynetjax.engine.steps import Step
from dynetjax.expression import Expression
from dynetjax.lazy import at_first_call, jax, jnp
from dynetjax.ops.registry import IMPORT, INPUT, LOOKUP

Array = Any
Seeds = list[tuple[int, Seed]]  # each with its pool


class Backward:
    """The gradients of one node of one number, through the run that computed it.

    Where that run reads rows of an earlier one, its `origin`, they go on through that.

    Attributes:
        number: of the node among the stored ones.
        reached: the parameters that nodes up to it read, but for constant ones.
        weights: of parameters and what is computed of them, by kind id.
        pulled_back: what these come to for parameters alone.
    """

    def __init__(self, run: Run, node: Expression, full: bool):
        self.run, self.node, self.full = run, node, full
        self.pulled_back = run.uniforms.pull_back
        self.number: int = node.args[0]
        root = self.number - run.start
        unused = run.tiling.not_under((root,), run.plan.ends)
        back = _Way(run, [run.seed(node)], unused)
        self.gradients, self.weights = back.gradients, back.weights
        self.reached = reached_from(node, run.tiling)
        self._ways = [back]
        if run.origin is not None:
            self._go_on(run.origin, back, unused)

    def has(self, number: int) -> bool:
        """Whether it knows the gradient of a stored node."""
        run = self.run
        if run.origin is not None:  # the rows of an earlier run are not among its own
            run.origin.plan.scope.divides = False
            return False
        return number < run.stop and not run.needs_pool(number)

    def touched(self) -> Iterator[tuple[int, np.ndarray, Array]]:
        """Of every lookup up to the node: kind id of the table, row ids, gradients."""
        for way in self._ways:
            yield from way.touched(self.node.index)

    def _go_on(self, origin: Run, back: "_Way", unused: np.ndarray) -> None:
        """Through the run whose rows were read."""
        self.reached |= reached_from(self.node, origin.tiling)
        seeds = back.seeds(origin)
        if not seeds:
            return
        tiling = self.run.tiling
        first = len(tiling) - len(tiling.older)
        read = np.ones(len(tiling), bool)
        read[unused] = False
        roots = set((tiling.older[read[first:]] - origin.start).tolist())
        earlier = _Way(origin, seeds, origin.tiling.not_under(roots, origin.plan.ends))
        for kind, several in earlier.weights.items():
            self.weights.setdefault(kind, []).extend(several)
        self._ways.append(earlier)

    def rows(self, number: int, batch: int) -> np.ndarray:
        """The gradient of a stored node of this run, ``[batch, *shape]``."""
        run = self.run
        macro = run.macro(number)
        pool, row = run.place(number)
        reached = self.full or macro in run.plan.differentiable
        if number == self.number or (reached and pool in self.gradients):
            return read_rows(self.gradients[pool], row, batch)
        return np.zeros((batch, *MACROS[macro].shape), np.float32)


class _Way:
    """One run backwards.

    Attributes:
        gradients: of pools, where they were scattered.
        weights: see `Backward`.
        tables: of the rows of a source, lane by lane, by component.
    """

    def __init__(self, run: Run, seeds: Seeds, unused: np.ndarray):
        self.run = run
        self.gradients: dict[int, Array] = {}
        self.weights: dict[int, list[Array]] = {}
        self.tables: dict[int, Array] = {}
        self._tape = run.tape_back(unused)
        if run.lent is not None:
            self._fused(run.lent, seeds)
        else:
            self._step_by_step(seeds)

    def _fused(self, lent: Pools, seeds: Seeds) -> None:
        run = self.run
        fusion = run.plan.fusion
        give_back, gradients, weights, self.tables = fusion.backward(
            *zip(*seeds, strict=True),
            run.uniforms.several(fusion.uniforms),
            lent.pools,
            lent.kept,
            self._tape,
        )
        give_back()
        self.gradients = {fusion.pools[p]: a for p, a in gradients.items()}
        self.weights = {fusion.uniforms[n]: [a] for n, a in weights.items()}

    def _step_by_step(self, seeds: Seeds) -> None:
        steps, room = self.run.plan.steps, self.run.plan.layout.room
        for pool, seed in seeds:
            found = self.gradients.get(pool)
            if found is None:
                found = jnp.zeros((room[pool], *MACROS[pool].shape))
            self.gradients[pool] = _sown(found, seed)
        for step in reversed(steps):
            self._step(step)

    @timed
    def _step(self, step: Step) -> None:
        run = self.run
        body = step.wires.body
        names = step.wires.pools
        if not step.program.learns:
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
            run.pool(name, c)
            for name, c in zip(names, step.program.capacities, strict=True)
        ]
        arrays, weights = backward(step.program, fresh)(
            run.uniforms_of(step),
            pools,
            run.kept[step.part],
            above,
            back,
            run.part(self._tape, step),
        )
        if body.cells[0].form in (LOOKUP, INPUT):
            self.tables[step.part] = arrays[0]
            return
        for p, array in zip(into, arrays, strict=True):
            self.gradients[names[p]] = array
        for n, gradient in zip(step.program.learned, weights, strict=True):
            self.weights.setdefault(step.wires.uniforms[n], []).append(gradient)

    def arrays(self) -> Iterable[Array]:
        """What was computed so far."""
        return [*self.gradients.values(), *chain(*self.weights.values())]

    @property
    def sources(self) -> Iterator[tuple[Step, Array]]:
        """Those whose rows have gradients, with these."""
        for step in self.run.plan.steps:
            if step.part in self.tables:
                yield step, self.tables[step.part]

    def touched(self, last: int) -> Iterator[tuple[int, np.ndarray, Array]]:
        """See `Backward`; `last` is the index of its node."""
        for step, values in self.sources:
            if MACROS[step.wires.macros[0]].form == LOOKUP:
                yield *_looked_up(self.run, step, last), values

    def seeds(self, origin: Run) -> Seeds:
        """What it found for rows that were read of an earlier run."""
        return [
            (pool, Seed(rows, values))
            for step, values in self.sources
            for pool, rows in _imported(self.run, step, origin)
        ]


def will_sow(run: Run, origin: Run) -> Seeds:
    """What a backward of `run` will find for rows of `origin`; zeros, as they stand."""
    return [
        (pool, Seed(rows, np.zeros((len(rows), *MACROS[pool].shape), np.float32)))
        for step in run.plan.steps
        if step.program.learns
        for pool, rows in _imported(run, step, origin)
    ]


def _imported(run: Run, step: Step, origin: Run) -> Iterable[tuple[int, Array]]:
    """The pool and the rows of `origin` that a step reads, if it does."""
    macro = step.wires.macros[0]
    if MACROS[macro].form != IMPORT:
        return
    numbers = run.imported(macro)
    if origin.macro(numbers[0]) in origin.plan.differentiable:
        pool, first = origin.places(numbers)
        beyond = origin.plan.layout.room[pool]
        yield pool, run.in_lanes(macro, first, step.program.lanes, beyond)


def will_touch(run: Run, last: int) -> Iterable[tuple[int, np.ndarray]]:
    """What `Backward.touched` will be, but for gradients, which are not there yet."""
    for step in run.plan.steps:
        is_lookup = MACROS[step.wires.macros[0]].form == LOOKUP
        if is_lookup and step.program.learns:
            yield _looked_up(run, step, last)


def _looked_up(run: Run, step: Step, last: int) -> tuple[int, np.ndarray]:
    """The table that a step reads, by its kind id, and of each lane the row id."""
    macro = step.wires.macros[0]
    table = MACROS[macro].kinds[0]
    lanes = run.tapes.lanes(macro)
    ids = np.full(step.program.lanes, table.shape[0], np.int32)
    found = run.tapes.row_ids(macro)
    cells = run.tiling.cells
    if cells[int(lanes.nodes[-1])].index <= last:
        ids[lanes.at] = found
    else:
        indices = [cells[n].index for n in lanes.nodes.tolist()]
        reached = lanes.spread(np.array(indices) <= last)
        ids[lanes.at[reached]] = found[reached]
    return table.id, ids


@at_first_call(lambda f: jax.jit(f))
def _sown(gradients: Array, seed: Seed) -> Array:
    return seed.sown(gradients)
