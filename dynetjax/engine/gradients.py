"""Gradients of parameters: whose they are, and how they are added to them."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from dynetjax.core.expression import Expression
from dynetjax.core.registry import KINDS, LOOKUP, OWNERS, Kind
from dynetjax.core.tables import remembers
from dynetjax.engine.ir.fused import FUSED_OPS
from dynetjax.engine.xla.weights import add_up


def accumulate(
    weights: dict[int, list[Any]],
    tables: Iterable[tuple[int, np.ndarray, Any]],
    reached: Iterable[Kind],
) -> None:
    """Add gradients to their parameters, and note which parameters were reached."""
    pending = []
    for number, gradients in weights.items():
        kind = KINDS[number]
        storage = OWNERS.get(kind.source) if kind.is_parameter else None
        if storage is None or kind.constant:
            continue
        earlier = storage.gradient
        if earlier is None and len(gradients) == 1:
            storage.gradient = gradients[0]
            continue
        terms = gradients if earlier is None else [earlier, *gradients]
        pending.append((storage, terms))
    sums = sums_of([gradients for _, gradients in pending])
    for (storage, _), total in zip(pending, sums, strict=True):
        storage.gradient = total
    for number, rows, values in tables:
        OWNERS[KINDS[number].source].add_row_gradients(rows, values)
    for kind in reached:
        OWNERS[kind.source].has_gradient = True


def sums_of(groups: list[list[Any]]) -> list[Any]:
    """The sum of each group of arrays, which NumPy adds up if they are its own."""
    if all(isinstance(array, np.ndarray) for group in groups for array in group):
        return [sum(group[1:], group[0]) for group in groups]
    return add_up(groups)


def reached_by(root: Expression, fused_ops: Iterable[int]) -> frozenset[Kind]:
    """The parameters that nodes up to this one read, but for constant ones.

    `fused_ops` are those of these nodes.
    """
    signatures = {*root.graph.weights_up_to(root.index)}
    kinds = frozenset([kind for signature in signatures for kind in signature.operands])
    return _read_by(kinds, tuple(fused_ops))


@remembers
def _read_by(weights: frozenset[Kind], fused_ops: tuple[int, ...]) -> frozenset[Kind]:
    """The parameters that weights are made of, and those of fused ops."""
    every = weights.union(*map(_weights_of, fused_ops))
    return frozenset(kind for weight in every for kind in parameters_of(weight))


@remembers
def _weights_of(fused: int) -> tuple[Kind, ...]:
    """The weights that a fused op reads; a table of which rows are read is none."""
    op = FUSED_OPS[fused]
    return () if op.form == LOOKUP else tuple(op.kinds)


@remembers
def parameters_of(weight: Kind) -> tuple[Kind, ...]:
    """The parameters that a weight is made of, but for constant ones."""
    if weight.is_parameter:
        return () if weight.constant else (weight,)
    assert weight.maker is not None
    operands = weight.maker.operands
    return tuple(kind for k in operands for kind in parameters_of(k))
