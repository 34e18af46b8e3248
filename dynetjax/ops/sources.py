"""Nodes that read a parameter or a table."""

from typing import Any

from dynetjax.dims import Shape
from dynetjax.graph import ComputationGraph, Storage
from dynetjax.ops.registry import LOOKUP, PARAMETER, Op, lane_kind, parameter_kind


def _same_number_of_rows(dim, data, value):
    rows = list(value) if isinstance(data, list) else value
    if isinstance(data, list) and len(rows) != len(data):
        raise ValueError(f"lookup: set() with {len(rows)} rows, expected {len(data)}")
    return rows


PARAMETER_OP = Op("parameter", form=PARAMETER)
LOOKUP_OP = Op("lookup", runtime="i", form=LOOKUP, reset=_same_number_of_rows)


def parameter_node(
    graph: ComputationGraph, storage: Storage, shape: Shape, constant: bool
) -> int:
    """The node of a parameter in `graph`; no gradient reaches a constant one."""
    kind = parameter_kind(storage.ident, shape, constant)
    return graph.parameter(PARAMETER_OP, storage, kind)


def lookup_node(
    graph: ComputationGraph,
    storage: Storage,
    shape: Shape,
    rows: int | list[int],
    constant: bool,
) -> int:
    """A node for one row of a table, or for a batch of them; `shape` is the table's.

    The rows are in range: the caller has checked.
    """
    table = parameter_kind(storage.ident, shape, constant)
    batch = len(rows) if isinstance(rows, list) else 1
    data: Any = rows
    return graph.add_source(
        LOOKUP_OP, storage, table, lane_kind(shape[1:]), data, batch
    )
