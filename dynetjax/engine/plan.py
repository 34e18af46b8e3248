"""Plans: a section of a graph, laid out for compiled components."""

import marshal
import math
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dynetjax.engine.body import Wiring, wiring
from dynetjax.engine.causes import variants_of
from dynetjax.engine.draws import undrawn
from dynetjax.engine.fused import Fusion, numbered
from dynetjax.engine.macros import MACROS, macro_of_rule
from dynetjax.engine.places import places_of
from dynetjax.engine.program import Program, program
from dynetjax.engine.reads import reads_of
from dynetjax.engine.rooms import LEAST, Sizes, room_on_tape
from dynetjax.engine.schedule import (
    Schedule,
    lanes_key,
    schedule,
    settled_width,
)
from dynetjax.engine.stats import Done
from dynetjax.engine.steps import Step, heads_of, rows_of_components
from dynetjax.engine.structure import Scope
from dynetjax.engine.tape import TapeWriter, Template
from dynetjax.engine.tiling import Tiling, structure_of, tile
from dynetjax.expression import Expression
from dynetjax.graph import ComputationGraph
from dynetjax.ops.rules import CHANGED
from dynetjax.tables import forgets

MOST_KEPT = 4096  # nodes of a plan that is kept
PLANS = 256  # that are kept

_scopes: dict[tuple[frozenset[int], bool], list[Scope]] = {}
_lock = threading.RLock()


@dataclass(slots=True)
class Plan:
    """A structure of graphs, and everything decided about it.

    Attributes:
        scope: the facts it was made from.
        tiling: what it was made for, without the nodes themselves.
        layout: blocks, lanes and rows.
        steps: the blocks in order, with their programs.
        work: of each of them, what `note_work` is told of a run.
        fusion: all components of the scope as one program.
        pools: the pool that each macro's rows are in.
        differentiable: macros whose results depend on a parameter.
        version: of the scope.
        lanes: where each macro's nodes are in their block, as far as found.
        ends: nodes that no other reads.
        template: what tapes of this structure have in common.
    """

    scope: Scope
    tiling: Tiling
    layout: Schedule
    steps: list[Step]
    work: list[Done]
    fusion: Fusion
    pools: dict[int, int]
    differentiable: set[int]
    version: int
    lanes: dict[int, Any]
    ends: np.ndarray
    template: Template


_kept: OrderedDict[bytes, Plan] = OrderedDict()  # the one used last comes last


@forgets
def _forget() -> None:
    with _lock:
        _scopes.clear()
        _kept.clear()


def make_plan(
    graph: ComputationGraph,
    start: int,
    asked: list[Expression],
    full: bool = False,
) -> tuple[Tiling, Plan] | None:
    """Lay out the stored nodes from `start` on for a program that asks for some.

    With `full`, gradients are to flow
    to constants too. Plans are kept for graphs of the same structure, as far as there
    are any. None if rules had to be changed: the graph must be built anew to follow
    them, if it can be.
    """
    cells = graph.cells[start:]
    if any(node.rule.macro < 0 for node in asked):
        structure_of(cells)  # gives macros that are new their numbers, in order
    roots = frozenset([macro_of_rule(node.rule) for node in asked])
    structure = structure_of(cells)
    tiling = tile(graph, start, structure) if start else None
    known = tuple(structure) if tiling is None else tiling.key()
    # Tuples are slower to compare: their members lie all over the memory. Version 2
    # writes equal objects alike.
    parts: Any = known, sorted(roots), full
    key = b"" if len(cells) > MOST_KEPT else marshal.dumps(parts, 2)
    with _lock:
        plan = _kept.get(key) if key else None
        if plan is None or plan.version != plan.scope.version:
            tiling = tiling or tile(graph, start, structure)
            plan = _make(tiling, roots, full)
            if plan is None:
                return None
        if key:
            _kept[key] = plan
            _kept.move_to_end(key)
            while len(_kept) > PLANS:
                _kept.popitem(last=False)
    return tiling or plan.tiling.of(cells), plan


def _make(tiling: Tiling, roots: frozenset[int], full: bool) -> Plan | None:
    _drop_outdated()
    scope = _scope_for(tiling, roots)
    try:
        return _lay_out(scope, tiling, roots, full)
    except BaseException:
        _scopes[_key(tiling, roots)].remove(scope)  # its facts may be half taken in
        raise


def _scope_for(tiling: Tiling, roots: frozenset[int]) -> Scope:
    """The scope with a macro of this graph that has weights; else another.

    Graphs of another model have none in common: one program for both would be wasted.
    """
    scopes = _scopes.setdefault(_key(tiling, roots), [])
    weighted = [macro for macro in tiling.nodes if MACROS[macro].weighted]
    for scope in scopes:
        if not weighted or any(map(scope.knows, weighted)):
            return scope
    scopes.append(Scope())
    return scopes[-1]


def _key(tiling: Tiling, roots: frozenset[int]) -> tuple[frozenset[int], bool]:
    """What graphs of a scope share: the later part of one is another thing."""
    return roots, tiling.start > 0


def _drop_outdated() -> None:
    """Forget scopes with macros that no graph has any more."""
    for rule in CHANGED.take():
        for scopes in _scopes.values():
            scopes[:] = [scope for scope in scopes if not scope.follows(rule)]


def _lay_out(
    scope: Scope, tiling: Tiling, roots: frozenset[int], full: bool
) -> Plan | None:
    reads = tiling.reads()
    scope.observe(tiling, reads)
    if _hoist(scope):
        return None
    while (layout := schedule(scope, tiling, reads)) is None:
        pass  # by facts that were widened
    steps = _steps(scope, tiling, layout, full)
    variants = variants_of(MACROS[m].steps[-1].signature.op for m in roots)
    for step in steps:
        variants.watch(step.wires.body)
    fusion = _fusion(scope, layout, steps, full)
    starts = [(step, fusion.parts[step.part].start) for step in steps]
    lanes: dict[int, Any] = {}
    writer = TapeWriter(tiling, layout, lanes, undrawn)
    places = fusion.places
    heads, rows = heads_of(starts, layout.base), reads_of(tiling, layout)
    at, written = writer.written(heads, places, rows)
    tape = np.zeros(fusion.size, np.int32)
    tape[at] = written
    unread = np.bincount(reads[2], minlength=len(tiling)) == 0
    return Plan(
        scope,
        tiling.of([]),
        layout,
        steps,
        [step.work for step in steps],
        fusion,
        scope.pools,
        scope.differentiable,
        scope.version,
        lanes,
        unread.nonzero()[0],
        Template(tape, writer.data(places)),
    )


def _hoist(scope: Scope) -> bool:
    """Store contractions inlined in a loop that need nothing from the loop.

    They become components of their own, and run once for all iterations. True if any
    was found.
    """
    if scope.hoisted == scope.version:
        return False
    scope.hoisted = scope.version
    found = False
    for component in scope.components:
        if not component.cyclic:
            continue
        for number in component.macros:
            macro = MACROS[number]
            for step in macro.steps[:-1]:
                if step.signature.op.contraction and not any(
                    scope.component_of[source] == scope.component_of[number]
                    for what, k in step.operands
                    if what == "leaf"
                    for source in scope.sources(macro.slot + k)
                ):
                    assert step.rule is not None
                    found = found or not step.rule.view.stored
                    step.rule.store()
    return found


def _steps(scope: Scope, tiling: Tiling, layout: Schedule, full: bool) -> list[Step]:
    rows = rows_of_components(scope, tiling)
    steps = []
    for block in layout.blocks:
        wires = wiring(scope, block.component, full)
        part = scope.component_of[wires.macros[0]]
        made = _program_for(scope, wires, part, block.width, layout.room)
        steps.append(Step(block, wires, made, part, rows[part]))
    return steps


def _program_for(
    scope: Scope, wires: Wiring, number: int, width: int, room: Sizes
) -> Program:
    """The program that runs a component, by its number, in that much room."""
    key = id(room), width
    known = wires.programs.get(key)
    if known is None:
        rows = [room.get(p, LEAST) for p in wires.pools]
        written = [rows[cell.pool] for cell in wires.body.cells]  # one for every lane
        lanes = min(room[lanes_key(scope.components[number])], *written)
        lanes = max(lanes, width)  # all are powers of two
        made = program(wires.body, width, lanes, tuple(rows))
        known = wires.programs[key] = room, made  # no other has its id while it is here
    return known[1]


def _fusion(scope: Scope, layout: Schedule, steps: list[Step], full: bool) -> Fusion:
    """The fused program for graphs of this scope and these sizes."""
    programs: list[Program | None] = [None] * len(scope.components)
    for step in steps:
        programs[step.part] = step.program
    for k, component in enumerate(scope.components):
        if programs[k] is None:
            wires = wiring(scope, component, full)
            width = settled_width(scope, k)
            written = {wires.pools[cell.pool] for cell in wires.body.cells}
            width = min([width, *[layout.room.get(p, LEAST) for p in written]])
            programs[k] = _program_for(scope, wires, k, width, layout.room)
    key = *programs, full
    found = scope.fusions.get(key)
    if found is None:
        found = scope.fusions[key] = _fuse(scope, programs, layout.room, full)
    return found


def _fuse(
    scope: Scope, programs: Sequence[Program | None], room: Sizes, full: bool
) -> Fusion:
    several = []
    for component, made in zip(scope.components, programs, strict=True):
        assert made is not None
        several.append((wiring(scope, component, full), made))
    parts, pools, uniforms, tape = numbered(several)
    places = places_of(
        (wires, part.program, part.start)
        for (wires, _), part in zip(several, parts, strict=True)
    )
    numbers = sum(room.get(p, LEAST) * math.prod(MACROS[p].shape) for p in pools)
    return Fusion(parts, pools, uniforms, room_on_tape(tape), places, 4 * numbers)
