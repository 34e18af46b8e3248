"""Steps: blocks of a schedule with the programs that run them."""

from collections.abc import Iterable
from dataclasses import dataclass

from dynetjax.engine.body import Wiring
from dynetjax.engine.causes import label
from dynetjax.engine.program import Program
from dynetjax.engine.schedule import Block
from dynetjax.engine.stats import Done
from dynetjax.engine.structure import Scope
from dynetjax.engine.tape import Heads
from dynetjax.engine.tiling import Tiling


@dataclass(slots=True)
class Step:
    """A block with what it runs, its part in a fused program, and its nodes' rows."""

    block: Block
    wires: Wiring
    program: Program
    part: int
    rows: int

    @property
    def room(self) -> int:
        """Lanes of all cells, over all trips."""
        return self.block.trips * self.block.width * len(self.wires.macros)

    @property
    def label(self) -> str:
        """The component in a few words."""
        return label(self.wires.body)

    @property
    def work(self) -> Done:
        """What `note_work` is told of a run."""
        return self.label, self.block.trips, self.rows, self.room, 0.0


def heads_of(steps: Iterable[tuple[Step, int]], base: dict[int, int]) -> Heads:
    """The heads of tapes; steps come with where theirs begin.

    `base` has the first row of each macro.
    """
    found = Heads([], [])
    for step, start in steps:
        macros = step.wires.macros
        found.at.extend(range(start, start + 1 + len(macros)))
        found.numbers.append(step.block.trips)
        found.numbers.extend([base[m] for m in macros])
    return found


def rows_of_components(scope: Scope, tiling: Tiling) -> list[int]:
    """How many rows the nodes of each component have."""
    found = [0] * len(scope.components)
    for macro, nodes in tiling.nodes.items():
        rows = len(nodes) if tiling.single else int(tiling.batch[nodes].sum())
        found[scope.component_of[macro]] += rows
    return found
