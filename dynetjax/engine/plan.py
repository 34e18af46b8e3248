"""Plans: a section of a graph, laid out for compiled components."""

from dataclasses import dataclass

import numpy as np

from dynetjax.engine.body import Wiring, wiring
from dynetjax.engine.chains import shorten
from dynetjax.engine.program import Program, program
from dynetjax.engine.schedule import Block, Schedule, floor_rows, schedule
from dynetjax.engine.section import SIGNATURE_TABLE, Section
from dynetjax.engine.structure import Scope
from dynetjax.engine.tiling import MACROS, Tiling, tile

_scopes: dict[frozenset[int], Scope] = {}


@dataclass(slots=True)
class Step:
    """A block with what it runs."""

    block: Block
    wires: Wiring
    program: Program


@dataclass(slots=True)
class Plan:
    """A section, and everything decided about it.

    Attributes:
        scope: the facts it was made from.
        layout: blocks, lanes and rows.
        steps: the blocks in order, with their programs.
        pools: the pool that each macro's rows are in.
        differentiable: macros whose results depend on a parameter.
    """

    section: Section
    tiling: Tiling
    scope: Scope
    layout: Schedule
    steps: list[Step]
    pools: dict[int, int]
    differentiable: set[int]

    def stored(self, node: int) -> bool:
        """Whether a local node has rows."""
        return bool(self.tiling.macro_of[node] >= 0)

    def pool(self, node: int) -> int:
        """The pool in which a stored node's rows are."""
        return self.pools[int(self.tiling.macro_of[node])]


def make_plan(section: Section, asked: list[int], full: bool = False) -> Plan:
    """Lay out `section`; the graph's nodes `asked`, all in it, get rows in any case.

    With `full`, gradients are to flow to constants too.
    """
    section = shorten(section, np.searchsorted(section.ids, asked))
    wanted = np.searchsorted(section.ids, asked)
    key = frozenset(section.sig[_roots(section, wanted)].tolist())
    while True:
        scope = _scopes.setdefault(key, Scope())
        tiling = tile(section, wanted)
        reads = tiling.reads()
        scope.observe(tiling, reads)
        if not _hoist(scope):
            break
        _scopes[key] = Scope()
    layout = schedule(scope, tiling, reads)
    while layout is None:
        layout = schedule(scope, tiling, reads)
    steps = [_step(scope, layout, block, full) for block in layout.blocks]
    return Plan(
        section, tiling, scope, layout, steps, scope.pools, scope.differentiable
    )


def _roots(section: Section, asked: np.ndarray) -> np.ndarray:
    uses = np.bincount(section.operands, minlength=len(section))
    unused = (uses == 0) & ~SIGNATURE_TABLE.uniform[section.sig]
    unused[asked] = True
    return np.flatnonzero(unused)


def _hoist(scope: Scope) -> bool:
    """Store contractions inlined in a loop that need nothing from the loop.

    They become components of their own, and run once for all iterations. True if any
    was found; plans must then be made anew.
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
                signature = step.signature
                if signature.op.contraction and not any(
                    scope.component_of[source] == scope.component_of[number]
                    for what, k in step.operands
                    if what == "leaf"
                    for source in scope.sources(macro.slot + k)
                ):
                    SIGNATURE_TABLE.cut(signature.id)
                    found = True
    return found


def _step(scope: Scope, layout: Schedule, block: Block, full: bool) -> Step:
    wires = wiring(scope, block.component, full)
    capacities = tuple(
        layout.capacity.get(p, floor_rows(MACROS[p].shape)) for p in wires.pools
    )
    written = {cell.pool for cell in wires.body.cells}
    lanes = min(capacities[p] for p in written)
    lanes = -(-lanes // block.width) * block.width
    return Step(block, wires, program(wires.body, block.width, lanes, capacities))
