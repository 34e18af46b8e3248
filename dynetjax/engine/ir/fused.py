"""Fused ops: a stored node's operation with all that is inlined into it.

What is stored, and what is part of what, was settled while the graph was built (see
`dynetjax.core.rules`). A `FusedOp` spells it out: the operations, operands first, and
what is read from rows.
"""

import math
import threading
from dataclasses import dataclass

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
from dynetjax.core.rules import Rule
from dynetjax.core.tables import Life, Numbered, Shared

IMPORT_OP = Op("import", form=IMPORT, internal=True)
SUM_OP = Op("sum of rows", form=REDUCE, internal=True)


@dataclass(slots=True)
class FusedStep:
    """One operation of a fused op.

    `operands` name earlier steps ``("step", j)``, boundaries ``("leaf", k)`` and
    weights ``("weight", kind)``. `rule` is that of the node, if there is one.
    """

    signature: Signature
    operands: tuple[tuple[str, int], ...]
    rule: Rule | None


@dataclass(slots=True)
class Leaf:
    """A boundary operand: its shape, and whether one row serves all lanes."""

    shape: Shape
    broadcast: bool


class FusedOp:
    """What stored nodes of one structure have in common.

    Attributes:
        id: order of first appearance in the process.
        form: MAP, or that of its only operation.
        steps: operations, operands first; the last gives the result.
        leaves: the boundaries it reads; REDUCE, GATHER and JOIN have one, which
            stands for all the rows they take.
        places: where a node's args name what each leaf reads.
        fields: where they have runtime data, by (step, field).
        weighted: it reads a parameter, or rows of a table.
        imported: the fused op that stands for its rows in a later part of a graph.
        work: multiply-adds that a row takes, roughly.
    """

    __slots__ = (
        "fields",
        "form",
        "id",
        "imported",
        "leaves",
        "life",
        "places",
        "shape",
        "steps",
        "weighted",
        "work",
    )

    def __init__(self, signature: Signature, rule: Rule | None = None):
        self.steps: list[FusedStep] = []
        self.leaves: list[Leaf] = []
        self.places: list[int] = []
        self.fields: dict[tuple[int, int], int] = {}
        self.form: str = signature.op.form
        self.shape: Shape = signature.shape
        if self.form == MAP:
            assert rule is not None
            self._walk(rule, 0)
        else:
            self.steps.append(FusedStep(signature, (), rule))
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

    def _walk(self, rule: Rule, at: int) -> int:
        """Take in the steps of `rule`, whose args begin at `at`; where they end."""
        operands: list[tuple[str, int]] = []
        broadcast = rule.signature.broadcast
        for k, spec in enumerate(rule.operands):
            if spec.kind.is_weight:
                operands.append(("weight", spec.kind.id))
            elif spec.rule is not None:
                at = self._walk(spec.rule, at)
                operands.append(("step", len(self.steps) - 1))
            else:
                operands.append(("leaf", len(self.leaves)))
                self.leaves.append(Leaf(spec.kind.shape, bool(broadcast >> k & 1)))
                self.places.append(at)
                at += 1
        for field in range(len(rule.signature.op.runtime)):
            self.fields[len(self.steps), field] = at
            at += 1
        self.steps.append(FusedStep(rule.signature, tuple(operands), rule))
        return at

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
        """The weights among its operands, in order of use."""
        return [k for s in self.steps for k in s.signature.operands if k.is_weight]

    def follows(self, rule: Rule) -> bool:
        """Whether its nodes, or what is part of them, follow this rule."""
        return any(step.rule is rule for step in self.steps)


FUSED_OPS: Numbered[FusedOp] = Numbered()
_lock = threading.RLock()


def fused_op_of(rule: Rule) -> int:
    """The number of the fused op whose nodes follow this rule."""
    with _lock:
        if rule.fused < 0:
            if rule.sums or rule.signature.op.form == REDUCE:
                rule.whole = _sums[rule.kind]
            else:
                rule.whole = FusedOp(rule.signature, rule)
            rule.fused = rule.whole.id
    return rule.fused


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
