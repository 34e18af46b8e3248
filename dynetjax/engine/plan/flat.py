"""The flat graph: stored nodes and what they read, placed on lanes and rows.

`core.FlatGraph` does it, in C++; see `flat.h`.
"""

from typing import Any

from dynetjax.core.expression import Expression
from dynetjax.core.registry import GATHER, REDUCE
from dynetjax.core.tables import Found
from dynetjax.engine.ir.fused import FUSED_OPS, fused_op_of, import_of
from dynetjax.engine.native import core

ONE_BY_ONE, SUMS, COPIES = range(3)
_FORMS = {REDUCE: SUMS, GATHER: COPIES}
ReadBy = tuple[tuple[int, ...] | None, int]


def _read_by(number: int) -> ReadBy:
    fused = FUSED_OPS[number]
    form = _FORMS.get(fused.form, ONE_BY_ONE)
    return (None if form or not fused.fields else tuple(fused.places)), form


# Of a fused op: which of a node's args are rows, None if all, and how it reads them.
READ_BY: Found[int, ReadBy] = Found(_read_by)


def flat_graph(stored_nodes: list[Expression], start: int) -> Any:
    """The stored nodes of a graph from `start` on, as a `FlatGraph`."""
    gives = fused_op_of, READ_BY.__getitem__, import_of
    return core.FlatGraph(stored_nodes, start, *gives)
