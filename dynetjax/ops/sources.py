"""Nodes that read a parameter or a table."""

from collections.abc import Iterable
from typing import Any

from dynetjax.core.dims import Dim, Shape
from dynetjax.core.errors import error_text
from dynetjax.core.registry import (
    LOOKUP,
    PARAMETER,
    Kind,
    Op,
    Signature,
    batched_kind,
    intern,
    parameter_kind,
)
from dynetjax.ops.arguments import MAX_UNSIGNED
from dynetjax.ops.arrays import index_in, listed


def _other_rows(dim: Dim, data: Any, value: Any, table: Dim) -> Any:
    """Another row of a table, or as many others, for `Expression.set`."""
    del dim
    if not isinstance(data, list):
        return row_id("set", value, table.shape[0])
    rows = row_ids("set", value, table.shape[0])
    if len(rows) != len(data):
        raise ValueError(f"lookup: set() with {len(rows)} rows, expected {len(data)}")
    return rows


PARAMETER_OP = Op("parameter", form=PARAMETER)
LOOKUP_OP = Op("lookup", runtime="i", form=LOOKUP, reset=_other_rows)


def parameter_signature(ident: int, shape: Shape, constant: bool) -> Signature:
    """What stands for a parameter; no gradient reaches a constant one."""
    kind = parameter_kind(ident, shape, constant)
    return _signature(PARAMETER_OP, kind, kind)


def lookup_signature(ident: int, shape: Shape, constant: bool) -> Signature:
    """The signature of nodes that read rows of a table; `shape` is the table's."""
    table = parameter_kind(ident, shape, constant)
    return _signature(LOOKUP_OP, table, batched_kind(shape[1:]))


def _signature(op: Op, source: Kind, result: Kind) -> Signature:
    return intern(op, ((), 0, source.id), result.shape, kind=result)


def row_ids(name: str, indices: Iterable[Any], size: int) -> list[int]:
    """The indices as a list of ints, checked."""
    ids = list(listed(indices))
    if not ids:
        raise ValueError(
            error_text(
                f"{name}: there is no index",
                got=ids,
                expected="at least one index",
                fix="check for an empty list before",
            )
        )
    if {*map(type, ids)} == {int} and min(ids) >= 0 and max(ids) < size:
        return ids
    return [row_id(name, i, size) for i in ids]


def row_id(name: str, index: Any, size: int) -> int:
    """The index as an int, checked."""
    row = index_in(index)
    if row is None:
        raise TypeError(
            error_text(
                f"{name}: the index is not an int",
                got=f"{index!r} ({type(index).__name__})",
                expected=f"an int from 0 to {size - 1}",
                fix="pass one index; batch(ids) takes several",
            )
        )
    if 0 <= row < size:
        return row
    wrong = OverflowError if row < 0 or row > MAX_UNSIGNED else ValueError
    raise wrong(
        error_text(
            f"{name}: the index is out of range",
            got=row,
            expected=f"an int from 0 to {size - 1}",
            fix="count from 0; a table does not grow",
        )
    )
