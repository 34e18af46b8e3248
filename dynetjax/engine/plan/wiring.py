"""Wiring: the code of a program family, and what its names stand for there."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from dynetjax.core.dims import Shape, pad
from dynetjax.core.lazy import jnp
from dynetjax.core.registry import (
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
from dynetjax.engine.plan.code import CODES, BodyOp, BodyStep, Code, Read, Weight
from dynetjax.engine.plan.family import Family


@dataclass(slots=True)
class Column:
    """A column of runtime data: of which op, what, and where it is.

    Attributes:
        content: "rows" of a table; "i", "f", "k" and "k2" of a step: an int, a float,
            and the halves of a random key.
        field: of the op's runtime data: step, and number of the field.
        number: among the component's columns.
    """

    op: int
    content: str
    field: tuple[int, int]
    number: int


@dataclass(slots=True)
class Wiring:
    """Code, and what its names stand for in one family.

    Attributes:
        weights: kind ids.
        pool_of: of each op.
        data: the columns of runtime data.
    """

    code: Code
    weights: tuple[int, ...]
    pool_of: list[int]
    data: list[Column]


def wire(family: Family, full: bool) -> Wiring:
    """The code of a family; with `full`, gradients flow to constants, too."""
    wiring = _Wiring(family, full)
    return wiring.wired()


class _Wiring:
    """Makes code: pools, weights and columns get numbers in order of first use."""

    def __init__(self, family: Family, full: bool):
        self.family, self.full = family, full
        self.pools: dict[Shape, int] = {}
        self.weights: dict[int, int] = {}
        self.data: list[Column] = []
        self.columns = 0  # of the component at hand
        reads = [*self._reads_of_pools()]
        self.pooled = {source for _, source in reads}
        self.late = {
            source
            for op, source in reads
            if source < op and family.component[source] == family.component[op]
        }

    def wired(self) -> Wiring:
        components, columns, twins = [], [], []
        pool_of = [0] * len(self.family.ops)
        for ops in self.family.components:
            self.columns = 0
            body = tuple([self._body_op(op) for op in ops])
            for op, made in zip(ops, body, strict=True):
                pool_of[op] = made.pool
            components.append(body)
            twins.append(self._twins(ops, body))
            columns.append(self.columns)
        shapes = tuple(KINDS[kind].shape for kind in self.weights)
        loops = tuple(self.family.cyclic)
        pools = tuple(self.pools)
        parts = tuple(components), loops, tuple(twins), tuple(columns), pools, shapes
        code = CODES[parts]
        return Wiring(code, tuple(self.weights), pool_of, self.data)

    def _twins(
        self, ops: tuple[int, ...], body: tuple[BodyOp, ...]
    ) -> tuple[tuple[int, ...], ...]:
        """The ops of a component by number there, those that are twins together."""
        twin = {op: self.family.twins.get(op, op) for op in ops}
        groups = {
            op: tuple([c for c, o in enumerate(ops) if twin[o] == op]) for op in ops
        }
        together = tuple([group for group in groups.values() if group])
        place = {c: k for k, group in enumerate(together) for c in group}
        for first, *others in together:
            if any(not _are_twins(body[first], body[c], place) for c in others):
                return tuple([(c,) for c in range(len(ops))])
        return together

    def _reads_of_pools(self) -> Iterator[tuple[int, int]]:
        """Pairs of an op and one whose rows it reads from a pool."""
        family = self.family
        for op, fused in enumerate(family.ops):
            for leaf in range(len(fused.leaves)):
                if (op, leaf) not in family.aligned:
                    yield from ((op, source) for source in family.sources(op, leaf))

    def _column(self) -> int:
        self.columns += 1
        return self.columns - 1

    def _pool(self, shape: Shape) -> int:
        return self.pools.setdefault(shape, len(self.pools))

    def _weight(self, kind: int) -> Weight:
        number = self.weights.setdefault(kind, len(self.weights))
        return Weight(number, KINDS[kind].shape, KINDS[kind].constant)

    def _body_op(self, op: int) -> BodyOp:
        fused = self.family.ops[op]
        valid = self._column()
        kinds = dict.fromkeys([kind.id for kind in fused.kinds])
        weights = tuple(map(self._weight, kinds))
        reads, steps, rows = [], [], None
        if fused.form == MAP:
            reads = [self._read(op, k) for k in range(len(fused.leaves))]
            numbers = {kind: number for number, kind in enumerate(kinds)}
            steps = [self._step(op, j, numbers) for j in range(len(fused.steps))]
        elif fused.form in _OF_ROWS:
            count = 1 if fused.form == GATHER else FAN_IN
            reads = [self._read(op, 0) for _ in range(count)]
            leaves = tuple(("leaf", k) for k in range(count))
            static = ()
            if fused.form == JOIN:
                static = fused.steps[0].signature.static[1:]
            steps = [BodyStep(_OF_ROWS[fused.form], static, leaves, fused.shape, ())]
        elif fused.form == LOOKUP:
            rows = self._column()
            self.data.append(Column(op, "rows", (0, 0), rows))
        return BodyOp(
            _FORMS.get(fused.form, MAP),
            tuple(steps),
            tuple(reads),
            weights,
            valid,
            rows,
            fused.shape,
            self._pool(fused.shape),
            op in self.pooled,
            op in self.late,
            (self.full and fused.form != INPUT) or op in self.family.differentiable,
        )

    def _read(self, op: int, leaf: int) -> Read:
        shape = self.family.ops[op].leaves[leaf].shape
        differentiable = self.full or self.family.differs(op, leaf)
        source = self.family.aligned.get((op, leaf))
        if source is None:
            return Read(self._pool(shape), shape, self._column(), None, differentiable)
        ops = self.family.components[self.family.component[op]]
        at = ops.index(source)
        return Read(self._pool(shape), shape, None, at, differentiable)

    def _step(self, op: int, j: int, numbers: dict[int, int]) -> BodyStep:
        step = self.family.ops[op].steps[j]
        operands = tuple(
            (role, numbers[number] if role == "weight" else number)
            for role, number in step.operands
        )
        columns = []
        for field, letter in enumerate(step.signature.op.runtime):
            for content in (letter, "k2") if letter == "k" else (letter,):
                columns.append(self._column())
                self.data.append(Column(op, content, (j, field), columns[-1]))
        of = step.signature
        return BodyStep(of.op, of.static, operands, of.shape, tuple(columns))


def _are_twins(one: BodyOp, other: BodyOp, place: dict[int, int]) -> bool:
    """Whether two ops have different names for the same, by the places of ops."""

    def plain(op: BodyOp) -> BodyOp:
        reads = [
            replace(
                read,
                column=None if read.column is None else 0,
                op=None if read.op is None else place[read.op],
            )
            for read in op.reads
        ]
        steps = [replace(s, columns=(0,) * len(s.columns)) for s in op.steps]
        weights = [replace(weight, number=0) for weight in op.weights]
        return replace(
            op,
            reads=tuple(reads),
            steps=tuple(steps),
            weights=tuple(weights),
            valid=0,
        )

    return plain(one) == plain(other)


_FORMS = {LOOKUP: LOOKUP, INPUT: INPUT, IMPORT: INPUT}


def _side_by_side(*rows: Any, d: int) -> Any:
    """Rows side by side along axis `d`."""
    shape = pad(rows[0].shape, d + 1)
    return jnp.concatenate([row.reshape(shape) for row in rows], axis=d)


_OF_ROWS = {
    REDUCE: Op("sum of rows", lambda *rows: sum(rows[1:], rows[0])),
    GATHER: Op("copy of rows", lambda row: row),
    JOIN: Op("columns of rows", _side_by_side, static=("d",)),
}
