"""Bodies: what a component computes in one trip, with every name made canonical.

A `Body` knows shapes, operations and roles, but no parameter, no
graph and no size. Two components with equal bodies share compiled functions, whatever
model they belong to.
"""

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from dynetjax.dims import Shape, pad
from dynetjax.engine.macros import MACROS, Macro
from dynetjax.engine.rooms import Sizes
from dynetjax.engine.structure import Component, Scope
from dynetjax.lazy import jnp
from dynetjax.ops.registry import (
    FAN_IN,
    GATHER,
    IMPORT,
    INPUT,
    JOIN,
    KINDS,
    LOOKUP,
    MAP,
    REDUCE,
    Op,
)
from dynetjax.tables import Life, Shared


@dataclass(frozen=True)
class Read:
    """Where a cell finds a leaf: another cell's register, or rows of a pool.

    Attributes:
        register: index of the cell, or None.
        pool: the pool the rows are in; for a register, that of the cell's own rows.
        column: of the tape, with the rows; None for a register.
        differentiable: a gradient flows back.
    """

    register: int | None
    pool: int
    column: int | None
    differentiable: bool


@dataclass(frozen=True)
class CellStep:
    """One operation of a cell; operands as in `Step`, uniforms numbered in the body."""

    op: Op
    static: tuple
    operands: tuple[tuple[str, int], ...]
    shape: Shape
    columns: tuple[int, ...]


@dataclass(frozen=True)
class Cell:
    """A macro in a body.

    Attributes:
        form: MAP; LOOKUP; or INPUT, for rows that are given, imports among them.
        steps: its operations, for MAP.
        reads: one per leaf.
        valid: the column that marks real lanes.
        column: of a LOOKUP, the rows to copy.
        uniform: of a LOOKUP, the table.
        pool: where its rows go.
        differentiable: whether a gradient comes back through it.
    """

    form: str
    steps: tuple[CellStep, ...]
    reads: tuple[Read, ...]
    valid: int
    column: int | None
    uniform: int | None
    shape: Shape
    pool: int
    differentiable: bool


@dataclass(frozen=True, eq=False)
class Body:
    """The cells of a component in order. Equal bodies are one object.

    Attributes:
        uniforms: shape of each, and whether it is constant.
        pools: shape of each pool it reads or writes.
        columns: columns of its tape, of one number per lane.
        largest: how many numbers the largest of its results has.
    """

    cells: tuple[Cell, ...]
    uniforms: tuple[tuple[Shape, bool], ...]
    pools: tuple[Shape, ...]
    columns: int
    largest: int

    @cached_property
    def life(self) -> Life:
        """Ends with it."""
        return Life(self)


@dataclass(slots=True)
class Wiring:
    """A body, and what its names stand for in one scope.

    Attributes:
        uniforms: kind ids.
        pools: representatives of the scope's pools.
        columns: per macro, what each of its columns holds, as ``(what, detail)``:
            ``("valid", 0)``, ``("leaf", k)``, ``("operand", k)`` of a REDUCE or
            GATHER, ``("rows", 0)``, and ``(letter, step, field)`` of runtime data.
        mentioned: the macros, and those that pools are named after.
        programs: that run it, by the id of sizes of arrays, and width; with the sizes.
    """

    body: Body
    macros: tuple[int, ...]
    uniforms: list[int]
    pools: list[int]
    columns: list[list[tuple]]
    mentioned: list[Macro]
    programs: dict[tuple[int, int], tuple[Sizes, Any]] = field(default_factory=dict)


class _Names:
    """Numbers things in order of first use."""

    def __init__(self) -> None:
        self.order: dict[int, int] = {}

    def number(self, thing: int) -> int:
        return self.order.setdefault(thing, len(self.order))


def wiring(scope: Scope, component: Component, full: bool = False) -> Wiring:
    """The body of a component; with `full`, gradients flow to constants too."""
    key = component.macros, full
    found = scope.wirings.get(key)
    if found is None:
        found = scope.wirings[key] = _wire(scope, component, full)
    return found


def _wire(scope: Scope, component: Component, full: bool) -> Wiring:
    uniforms, pools = _Names(), _Names()
    columns: list[list[tuple]] = []
    cells, taken = [], 0
    for macro in component.macros:
        own: list[tuple] = [("valid", 0)]
        cells.append(
            _cell(scope, MACROS[macro], component, uniforms, pools, own, taken, full)
        )
        taken += len(own)
        columns.append(own)
    body = _bodies[
        tuple(cells),
        tuple((KINDS[k].shape, KINDS[k].constant) for k in uniforms.order),
        tuple(MACROS[p].shape for p in pools.order),
        taken,
    ]
    macros = component.macros
    numbers = list(uniforms.order), list(pools.order)
    mentioned = [MACROS[m] for m in (*macros, *pools.order)]
    return Wiring(body, macros, *numbers, columns, mentioned)


def _body(key: tuple) -> Body:
    cells, uniforms, pools, columns = key
    largest = max(math.prod(s.shape) for cell in cells for s in (cell, *cell.steps))
    return Body(cells, uniforms, pools, columns, largest)


_bodies: Shared[tuple, Body] = Shared(_body)


def _cell(
    scope: Scope, macro: Macro, component, uniforms, pools, own: list, start: int, full
) -> Cell:
    def column(*what) -> int:
        own.append(what)
        return start + len(own) - 1

    reads: list[Read] = []
    steps: tuple[CellStep, ...] = ()
    rows = table = None
    if macro.form == MAP:
        for k in range(len(macro.leaves)):
            reads.append(_read(scope, macro, k, component, pools, column, full))
        steps = tuple(
            _step(macro, j, uniforms, column) for j in range(len(macro.steps))
        )
    elif macro.form in (REDUCE, GATHER, JOIN):
        pool = _row_pool(scope, macro.slot, pools)
        differentiable = full or macro.id in scope.differentiable
        count = 1 if macro.form == GATHER else FAN_IN
        reads = [
            Read(None, pool, column("operand", k), differentiable) for k in range(count)
        ]
        leaves = tuple(("leaf", k) for k in range(count))
        op, static = _OF_ROWS[macro.form], ()
        if macro.form == JOIN:
            static = macro.steps[0].signature.static[1:]
        steps = (CellStep(op, static, leaves, macro.shape, ()),)
    elif macro.form == LOOKUP:
        table = uniforms.number(macro.kinds[0].id)
        rows = column("rows", 0)
    return Cell(
        _FORMS.get(macro.form, MAP),
        steps,
        tuple(reads),
        start,
        rows,
        table,
        macro.shape,
        pools.number(scope.pools[macro.id]),
        (full and macro.form != INPUT) or macro.id in scope.differentiable,
    )


def _row_pool(scope: Scope, slot: int, pools: _Names) -> int:
    """The body's number of the pool that a leaf reads."""
    return pools.number(scope.pool(slot))


def _read(scope: Scope, macro, k: int, component, pools, column, full) -> Read:
    slot = macro.slot + k
    pool = pools.number(scope.pool(slot))
    differentiable = full or scope.differs(slot)
    if slot in scope.registers:
        register = component.macros.index(scope.registers[slot])
        return Read(register, pool, None, differentiable)
    return Read(None, pool, column("leaf", k), differentiable)


def _step(macro: Macro, j: int, uniforms: _Names, column) -> CellStep:
    step = macro.steps[j]
    op = step.signature.op
    operands = tuple(
        (what, uniforms.number(number) if what == "uniform" else number)
        for what, number in step.operands
    )
    columns = []
    for number, letter in enumerate(op.runtime):
        columns.append(column(letter, j, number))
        if letter == "k":
            columns.append(column("k2", j, number))
    return CellStep(
        op, step.signature.static, operands, step.signature.shape, tuple(columns)
    )


_FORMS = {LOOKUP: LOOKUP, INPUT: INPUT, IMPORT: INPUT}


def _columns(*rows, d: int):
    """Rows side by side along axis `d`."""
    shape = pad(rows[0].shape, d + 1)
    return jnp.concatenate([row.reshape(shape) for row in rows], axis=d)


_OF_ROWS = {
    REDUCE: Op("sum of rows", lambda *rows: sum(rows[1:], rows[0])),
    GATHER: Op("copy of rows", lambda row: row),
    JOIN: Op("columns of rows", _columns, static=("d",)),
}
