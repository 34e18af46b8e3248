"""What a node follows from: the rule for its operands, and its runtime data."""

import os
import sys
from collections.abc import Sequence
from typing import Any

from dynetjax.core.dims import Dim, DimError, Shape
from dynetjax.core.errors import error_text
from dynetjax.core.expression import Expression
from dynetjax.core.registry import INPUT, MAP, Op, Signature, batched_kind, intern
from dynetjax.core.rules import Rule, rule_for


def same(x: Any) -> Any:
    """What is given: a function with a name, by which programs are described."""
    return x


def same_dim(name: str, x: Dim) -> Shape:
    return x.shape


NOTHING = -1  # among the stored nodes that a node reads: zeros
ZEROS = Op("zeros", form=INPUT, internal=True)
ROWS = Op("rows", same, same_dim, form=MAP, batched=True, internal=True)


def zeros_rule(shape: Shape) -> Rule:
    """The rule of what `ComputationGraph.zeros` returns."""
    return rule_of_rows(ZEROS, shape)


def rule_of_rows(op: Op, shape: Shape, sums: bool = False) -> Rule:
    """The rule of nodes of `op` with rows of `shape`, whatever they are made of.

    Where the operation `sums`, more may be added to its nodes.
    """
    rule = op.rules.get(shape)
    if rule is None:
        signature = intern(op, (shape, 0), shape, kind=batched_kind(shape))
        rule = op.rules[shape] = Rule(signature, (), sums)
    return rule


def rule_with_rows(rule: Rule) -> Rule:
    """That of a node of parameters alone, for one that is to have rows of its own."""
    signature = rule.signature
    op, key = signature.op, ("rows", rule)
    known: Rule | None = op.rules.get(key)
    if known is None:
        own = Signature(op, signature.static, signature.operands, signature.broadcast)
        own.kind = batched_kind(rule.kind.shape)
        known = op.rules[key] = Rule(own, rule.operands)
    return known


def checked_rule(
    op: Op, operands: tuple[Expression, ...], static: tuple[Any, ...], broadcast: int
) -> Rule:
    """The rule for operands whose dims fit.

    Raises:
        DimError: they do not.
    """
    key = (static, broadcast, *[x.rule.kind.id for x in operands])
    signature: Signature | None = op.signatures.get(key)
    if op.padded is not None:
        dims = [Dim(x.rule.kind.shape, max(1, x.lanes)) for x in operands]
        shape, axes = op.padded(op.name, *dims, *static)
        signature = intern(op, key, shape, kind=batched_kind(shape, axes))
    else:
        assert op.dim is not None
        shape = op.dim(op.name, *[x.full_dim for x in operands], *static)
        if signature is None:
            signature = intern(op, key, shape)
    specs: Any = tuple([x.spec for x in operands])
    return rule_for(op, signature, specs)


def is_for(rule: Rule, operands: Any) -> bool:
    """Whether a rule is for these operands themselves, and not for parts of them."""
    if len(rule.operands) != len(operands):
        return False
    for spec, x in zip(rule.operands, operands, strict=True):
        own = x.spec  # none of what is part of the node by now
        if spec.kind is not x.rule.kind or (own and own.inlined is not spec.inlined):
            return False
    return True


def follows_from_batches(rule: Rule, op: Op, operands: Any) -> bool:
    """Whether another node over operands of the same specs and batches has this rule.

    That is not so where lengths matter, or where the node is made of parts.
    """
    return rule.signature.op is op and is_for(rule, operands)


def follows_from_specs(rule: Rule, op: Op, operands: Any) -> bool:
    """Whether it has, whatever the batch size, where that is the same for all."""
    batches = rule.signature.broadcast or op.batch_matters
    return not batches and follows_from_batches(rule, op, operands)


class Decided:
    """How a node is made of operands some of which are ragged.

    Attributes:
        rule: of the variant of its operation.
        more: lengths that the variant takes as runtime data, behind what it is given.
        lengths: those of the node.
    """

    lengths: tuple[int, ...]
    more: tuple[int, ...]
    rule: Rule

    def __init__(self, rule: Rule, more: tuple[int, ...], lengths: tuple[int, ...]):
        self.rule, self.more, self.lengths = rule, more, lengths


def circumstances(
    operands: tuple[Expression, ...], static: tuple[Any, ...], batch: int
) -> tuple[Any, ...] | None:
    """What decides how a node of an operation is made; None where that is not all."""
    key: list[Any] = [static]
    for x in operands:
        if x.spec is None or (x.lanes and x.lanes != batch):
            return None
        key.append(x.spec)
        if x.rule.kind.ragged:
            key.append(x.lengths)
    return tuple(key)


def given_data(op: Op, data: Any) -> tuple[Any, ...]:
    """Runtime data given for an operation, but for keys."""
    if not op.given:
        return ()
    return data if isinstance(data, tuple) else (data,)


def repeated(rule: Rule, operands: Sequence[Expression]) -> tuple[int, ...]:
    """Operands that would become part of the node twice."""
    seen: set[int] = set()
    repeats = []
    for k in rule.fuses:
        if id(operands[k]) in seen:
            repeats.append(k)
        seen.add(id(operands[k]))
    return tuple(repeats)


def own_data(node: Expression, runtime: str) -> tuple[Any, ...]:
    """The runtime data of a node, field by field; its number for a random key."""
    given = node.data if isinstance(node.data, tuple) else (node.data,)
    if "k" not in runtime:
        return given
    return (*given, node.index) if runtime != "k" else (node.index,)


def batch_mismatch(op: Op, operands: Any, batch: int) -> DimError:
    """The error for operands, or runtime data, of different batch sizes."""
    dims = ", ".join(str(x.full_dim) for x in operands)
    return DimError(
        error_text(
            f"{op.name}: the operands have different batch sizes",
            got=dims + (f", and a batch of {batch}" if batch != 1 else ""),
            expected="one batch size, or 1",
            fix="bring the batches to one size",
        )
    )


def frame_of_user() -> Any:
    """The innermost frame outside this package."""
    frame = sys._getframe()  # compiled, this function has none of its own
    while frame.f_back and frame.f_globals.get("__name__", "").startswith("dynetjax"):
        frame = frame.f_back
    return frame


def line_of_user() -> str:
    """The innermost line outside this package, ``tagger.py:31 (loss)``."""
    frame = frame_of_user()
    code = frame.f_code
    return f"{os.path.basename(code.co_filename)}:{frame.f_lineno} ({code.co_name})"
