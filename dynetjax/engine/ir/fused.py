"""Fused ops: a stored node's operation with all that has become part of it.

Which nodes are stored, and what is part of what, `core.Nodes` decides. A `FusedOp`
spells it out: the operations, operands first, and what is read from rows.
"""

import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dynetjax.core.dims import Shape
from dynetjax.core.registry import (
    GATHER,
    IMPORT,
    JOIN,
    KINDS,
    MAP,
    REDUCE,
    Kind,
    Op,
    Signature,
    batched_kind,
    intern,
    label_of,
)
from dynetjax.core.tables import Life, Numbered, Shared

IMPORT_OP = Op("import", form=IMPORT, internal=True)
SUM_OP = Op("sum of rows", form=REDUCE, internal=True)
A_WEIGHT = -1  # an operand of a step that is neither a step nor rows; see `fused_op`
Operation = tuple[Op, tuple[Any, ...], tuple[tuple[str, int], ...]]
"""An operation, its static arguments, and its operands: steps, leaves and weights."""
Steps = Sequence[tuple[Signature, tuple[int, ...], int]]


@dataclass(slots=True)
class FusedStep:
    """One operation of a fused op.

    `operands` name earlier steps ``("step", j)``, boundaries ``("leaf", k)`` and
    weights ``("weight", kind)``. `structure` is that of nodes which are only this, and
    what has become part of it; -1 where there are none.
    """

    signature: Signature
    operands: tuple[tuple[str, int], ...]
    structure: int = -1


@dataclass(slots=True)
class Leaf:
    """A boundary operand: its shape, and whether one row serves all lanes."""

    shape: Shape
    broadcast: bool


def operations_of(steps: Sequence[FusedStep]) -> tuple[Operation, ...]:
    """Steps, where weights have no names: the next one is always meant."""
    return tuple(
        [
            (
                step.signature.op,
                step.signature.static,
                tuple([(r, 0 if r == "weight" else n) for r, n in step.operands]),
            )
            for step in steps
        ]
    )


class FusedOp:
    """What stored nodes of one structure have in common.

    Attributes:
        id: order of first appearance in the process.
        form: MAP, or that of its only operation.
        steps: operations, operands first; the last gives the result.
        leaves: the boundaries it reads; REDUCE, GATHER and JOIN have one, which
            stands for all the rows they take.
        data: the letters of its runtime data (`Op.runtime`), step by step.
        fields: where among these each is, by (step, field).
        weighted: it reads a parameter, or rows of a table.
        imported: the fused op that stands for its rows in a later part of a graph.
        work: multiply-adds that a row takes, roughly.
    """

    __slots__ = (
        "data",
        "fields",
        "form",
        "id",
        "imported",
        "leaves",
        "life",
        "shape",
        "steps",
        "weighted",
        "work",
    )

    def __init__(self, signature: Signature, steps: Steps = ()):
        self.steps: list[FusedStep] = []
        self.leaves: list[Leaf] = []
        self.data: str = ""
        self.fields: dict[tuple[int, int], int] = {}
        self.form: str = signature.op.form
        self.shape: Shape = signature.shape
        if self.form == MAP:
            leaves: dict[int, Leaf] = {}
            for step in steps:
                self._add(*step, leaves)
            self.leaves = [leaves[k] for k in range(len(leaves))]
        else:
            self.steps.append(FusedStep(signature, ()))
            if self.form in (REDUCE, GATHER):
                self.leaves.append(Leaf(self.shape, True))
            elif self.form == JOIN:
                self.leaves.append(Leaf(signature.static[0], True))
        self.weighted: bool = bool(self.kinds)
        self.imported: FusedOp | None = None
        self.work: int = math.prod(self.shape) + sum(map(self._work_of, self.steps))
        self.life: Life = Life(self)
        self.id: int = FUSED_OPS.add(self)

    @property
    def label(self) -> str:
        """Its last operation, how many others it has, and the dims of its result."""
        return label_of([step.signature.op.name for step in self.steps], self.shape)

    @property
    def computes(self) -> tuple[Any, ...]:
        """What it computes, whatever parameters it reads."""
        shapes = tuple([step.signature.shape for step in self.steps])
        leaves = tuple([leaf.shape for leaf in self.leaves])
        return self.form, self.shape, leaves, shapes, operations_of(self.steps)

    def _add(
        self,
        signature: Signature,
        roles: tuple[int, ...],
        structure: int,
        leaves: dict[int, Leaf],
    ) -> None:
        """Take in a step; its operands have come before."""
        operands: list[tuple[str, int]] = []
        for k, (kind, role) in enumerate(zip(signature.operands, roles, strict=True)):
            if role == A_WEIGHT:
                operands.append(("weight", kind.id))
            elif role >= 0:
                operands.append(("step", role))
            else:
                leaf, is_instead = divmod(-2 - role, 2)
                shared = bool(is_instead or signature.broadcast >> k & 1)
                operands.append(("leaf", leaf))
                leaves[leaf] = Leaf(kind.shape, shared)
        for field in range(len(signature.op.runtime)):
            self.fields[len(self.steps), field] = len(self.data)
            self.data += signature.op.runtime[field]
        self.steps.append(FusedStep(signature, tuple(operands), structure))

    def _work_of(self, step: FusedStep) -> int:
        """Of a contraction, the numbers of its operands times the columns it makes."""
        if not step.signature.op.contraction:
            return 0
        numbers = sum([math.prod(self._shape_of(*o)) for o in step.operands])
        return numbers * math.prod(step.signature.shape[1:])

    def _shape_of(self, role: str, number: int) -> Shape:
        """Of an operand."""
        if role == "weight":
            return KINDS[number].shape
        if role == "step":
            return self.steps[number].signature.shape
        return self.leaves[number].shape

    @property
    def kinds(self) -> list[Kind]:
        """The weights among its operands, in order of use; of a LOOKUP its table."""
        if self.form != MAP:
            return [k for s in self.steps for k in s.signature.operands if k.is_weight]
        operands = [operand for step in self.steps for operand in step.operands]
        return [KINDS[kind] for role, kind in operands if role == "weight"]

    def is_outdated(self, inner: set[int], whole: set[int]) -> bool:
        """Whether it has one of these structures in it, or one of the others at all."""
        numbers = [step.structure for step in self.steps]
        return not (inner.isdisjoint(numbers[:-1]) and whole.isdisjoint(numbers))


FUSED_OPS: Numbered[FusedOp] = Numbered()
_lock = threading.RLock()


def fused_op(kind: int, steps: Steps) -> FusedOp:
    """The fused op of nodes with such steps, operands first; without steps, of sums.

    A step is its signature, what each operand is, and a number for it: an operand is
    the number of a step; -1 for a weight; -2, -4, ... for rows, in the order in which
    nodes read them, and one less for rows of what is a weight elsewhere.
    """
    if not steps or steps[-1][0].op.form == REDUCE:
        return _sums[KINDS[kind]]
    return FusedOp(steps[-1][0], steps)


def _sum_of(kind: Kind) -> FusedOp:
    """All sums of rows of one shape are one fused op."""
    return FusedOp(intern(SUM_OP, (kind.shape, 0), kind.shape, kind=kind))


_sums: Shared[Kind, FusedOp] = Shared(_sum_of)


def import_of(origin: int) -> int:
    """The number of the fused op that stands for rows of `origin`, computed earlier."""
    with _lock:
        fused = FUSED_OPS[origin]
        if fused.imported is None:
            shape = fused.shape
            key = ((origin, *shape), 0)
            signature = intern(IMPORT_OP, key, shape, kind=batched_kind(shape))
            fused.imported = FusedOp(signature)
        return fused.imported.id
