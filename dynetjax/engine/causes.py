"""Why programs are made, and a warning where that does not end."""

import warnings
from collections import defaultdict
from collections.abc import Iterable
from weakref import WeakSet

from dynetjax.engine.body import Body, Cell, CellStep
from dynetjax.engine.macros import label_of
from dynetjax.engine.stats import note_program
from dynetjax.errors import CompilationWarning, explain
from dynetjax.ops.registry import Op
from dynetjax.tables import forgets, remembers

MOST_VARIANTS = 32  # of one operation in one program, before that is called endless

_made: dict[tuple[Body, ...], list[tuple]] = {}
forgets(_made.clear)
_bodies: WeakSet[Body] = WeakSet()


@remembers
def label(body: Body) -> str:
    """The operations of a component: of each cell the last, and how many others."""
    return ", ".join(map(_cell_label, body.cells))


def _cell_label(cell: Cell) -> str:
    return label_of([step.op.name for step in cell.steps] or [cell.form], cell.shape)


Size = tuple[Body, int, tuple[int, ...]]  # a body, lanes of a trip, rows of its pools


def note_made(direction: str, sizes: tuple[Size, ...]) -> None:
    """Note that a program of all components of a scope is made, and what is new."""
    bodies = tuple(body for body, _, _ in sizes)
    known = _made.setdefault(bodies, [])
    fresh = [body for body in bodies if body not in _bodies]
    capacities = tuple(rows for _, _, rows in sizes)
    widths = tuple(width for _, width, _ in sizes)
    same_size = [d for d, w, c in known if (w, c) == (widths, capacities)]
    if fresh:
        why = f"new operations or dims: {'; '.join(label(body) for body in fresh)}"
    elif not known:
        why = "components that were not together before"
    elif widths not in [w for _, w, _ in known]:
        why = f"trips of {', '.join(map(str, sorted(set(widths))))} lanes"
    elif not same_size:
        why = f"room for {max(max(rows, default=0) for rows in capacities)} rows"
    elif direction not in same_size:
        why = f"the first {direction} of this size"
    else:
        why = "other components share its rows, or backward is to follow"
    _bodies.update(bodies)
    known.append((direction, widths, capacities))
    note_program(f"{direction} of {len(sizes)} components: {why}")


class Variants:
    """The variants of each operation that were met in one of the user's programs."""

    def __init__(self) -> None:
        self._bodies: WeakSet[Body] = WeakSet()
        self._found: dict[tuple[Op, int], list[tuple]] = defaultdict(list)
        self._warned = False

    def watch(self, body: Body) -> None:
        """Take in a body; warn, once, if there is no end of them."""
        if self._warned or body in self._bodies:
            return
        self._bodies.add(body)
        for cell in body.cells:
            for step in cell.steps:
                variant = _variant(body, cell, step)
                found = self._found[step.op, len(step.operands)]
                if variant not in found:
                    found.append(variant)
                    if len(found) >= MOST_VARIANTS:
                        self._warned = True
                        _warn(step.op, found)
                        self._found.clear()
                        return


def variants_of(roots: Iterable[Op]) -> Variants:
    """Those of programs that ask for results of these operations."""
    return _variants.setdefault(frozenset(roots), Variants())


_variants: dict[frozenset[Op], Variants] = {}


def _variant(body: Body, cell: Cell, step: CellStep) -> tuple:
    """Static arguments, then the shapes of the operands."""
    shapes = {
        "uniform": lambda n: body.uniforms[n][0],
        "step": lambda n: cell.steps[n].shape,
        "leaf": lambda n: body.pools[cell.reads[n].pool],
    }
    return (*step.static, *[shapes[what](n) for what, n in step.operands])


def _warn(op: Op, found: list[tuple]) -> None:
    """Say which attribute of an operation varies most."""
    names = [*op.static]
    names += [f"the dims of operand {k + 1}" for k in range(len(found[0]) - len(names))]
    values = [
        list(dict.fromkeys(variant[k] for variant in found)) for k in range(len(names))
    ]
    most = max(range(len(names)), key=lambda k: len(values[k]))
    some = ", ".join(map(str, values[most][:4]))
    warnings.warn(
        explain(
            f"{op.name}: a program keeps compiling",
            got=f"{len(values[most])} values of {names[most]}: {some}, ...",
            expected="few: each is compiled anew",
            fix="pad to a few sizes, or compute row by row: how many is no matter",
        ),
        CompilationWarning,
        stacklevel=2,
    )
