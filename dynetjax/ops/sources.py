"""Nodes that read a parameter or a table."""

from dynetjax.dims import Shape
from dynetjax.ops.registry import (
    LOOKUP,
    PARAMETER,
    SIGNATURES,
    Kind,
    Op,
    intern,
    lane_kind,
    parameter_kind,
)
from dynetjax.ops.rules import Rule


def _same_number_of_rows(dim, data, value):
    rows = list(value) if isinstance(data, list) else value
    if isinstance(data, list) and len(rows) != len(data):
        raise ValueError(f"lookup: set() with {len(rows)} rows, expected {len(data)}")
    return rows


PARAMETER_OP = Op("parameter", form=PARAMETER)
LOOKUP_OP = Op("lookup", runtime="i", form=LOOKUP, reset=_same_number_of_rows)


def parameter_rule(ident: int, shape: Shape, constant: bool) -> Rule:
    """What stands for a parameter; no gradient reaches a constant one."""
    kind = parameter_kind(ident, shape, constant)
    return _rule(PARAMETER_OP, kind, kind)


def lookup_rule(ident: int, shape: Shape, constant: bool) -> Rule:
    """The rule of nodes that read rows of a table; `shape` is the table's."""
    table = parameter_kind(ident, shape, constant)
    return _rule(LOOKUP_OP, table, lane_kind(shape[1:]))


def _rule(op: Op, source: Kind, result: Kind) -> Rule:
    rule = op.rules.get(source)
    if rule is None:
        signature = intern(op, ((), 0, source.id), result.shape, kind=result)
        rule = op.rules[source] = Rule(SIGNATURES[signature], ())
    return rule
