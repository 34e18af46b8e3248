"""Code: what the components of a program compute, with every name made canonical.

A `Code` knows shapes, operations and roles, but no parameter, no graph and no size.
Families with equal code share compiled programs, whatever model they belong to.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dynetjax.core.dims import Shape
from dynetjax.core.registry import Op, label_of
from dynetjax.core.tables import Life, Shared


@dataclass(frozen=True)
class Read:
    """A leaf of an op: rows of a pool.

    Attributes:
        pool: by number in the code.
        column: of the component's columns, the one that has the rows; None if they are
            those of the same lanes of another op, in the same trip.
        op: the number of that op in the component.
        differentiable: a gradient flows back.
    """

    pool: int
    shape: Shape
    column: int | None
    op: int | None
    differentiable: bool


@dataclass(frozen=True)
class Weight:
    """An operand that all lanes share: a parameter, or what is made of parameters.

    Attributes:
        number: in the code.
        constant: it takes no gradient.
    """

    number: int
    shape: Shape
    constant: bool


@dataclass(frozen=True)
class BodyStep:
    """One operation of a body op.

    Attributes:
        operands: ``("step", j)``, ``("leaf", k)`` and ``("weight", n)``, all of the
            op.
        columns: those that have its runtime data.
    """

    op: Op
    static: tuple[Any, ...]
    operands: tuple[tuple[str, int], ...]
    shape: Shape
    columns: tuple[int, ...]


@dataclass(frozen=True)
class BodyOp:
    """A fused op in the body of a component, with names that no family has of its own.

    Attributes:
        form: MAP; LOOKUP; or INPUT, for rows that are given, imports among them.
        steps: its operations, for MAP.
        reads: one per leaf.
        weights: of a LOOKUP, the table.
        valid: the column that marks real lanes.
        rows: of a LOOKUP, the column that has the rows to copy.
        pool: where its rows go.
        pooled: whether another op may read its rows from there.
        late: whether one further on in the same trip may.
        differentiable: whether a gradient comes back through it.
    """

    form: str
    steps: tuple[BodyStep, ...]
    reads: tuple[Read, ...]
    weights: tuple[Weight, ...]
    valid: int
    rows: int | None
    shape: Shape
    pool: int
    pooled: bool
    late: bool
    differentiable: bool

    @property
    def columns(self) -> list[int]:
        """The columns of its component that it has."""
        reads = [read.column for read in self.reads if read.column is not None]
        given = [column for step in self.steps for column in step.columns]
        return [self.valid, *reads, *given]

    @property
    def label(self) -> str:
        """Its last operation, how many others it has, and the dims of its result."""
        names = [step.op.name for step in self.steps] or [self.form]
        return label_of(names, self.shape)


Component = tuple[BodyOp, ...]


@dataclass(frozen=True, eq=False)
class Code:
    """The components of a program in order. Equal code is one object.

    Attributes:
        loops: which components are recurrences.
        twins: of each component its ops in order; those that differ by their weights
            alone, and do not read each other, are in one tuple.
        columns: how many each component has.
        pools: the shape of their rows; all rows of one shape are in one pool.
        weights: the shape of each.
    """

    components: tuple[Component, ...]
    loops: tuple[bool, ...]
    twins: tuple[tuple[tuple[int, ...], ...], ...]
    columns: tuple[int, ...]
    pools: tuple[Shape, ...]
    weights: tuple[Shape, ...]

    @cached_property
    def life(self) -> Life:
        """Ends with it."""
        return Life(self)

    @cached_property
    def labels(self) -> list[str]:
        """Each component in a few words."""
        return [", ".join([op.label for op in body]) for body in self.components]


CODES: Shared[tuple[Any, ...], Code] = Shared(lambda parts: Code(*parts))
