"""The flat graph: stored nodes and what they read, placed on lanes and rows.

`core.FlatGraph` does it, in C++; see `flat.h`.
"""

from typing import Any

from dynetjax.core.registry import GATHER, REDUCE
from dynetjax.core.tables import Found
from dynetjax.engine.ir.fused import FUSED_OPS, import_of
from dynetjax.native import core

ONE_BY_ONE, SUMS, COPIES = range(3)
_FORMS = {REDUCE: SUMS, GATHER: COPIES}


def _read_by(number: int) -> int:
    return _FORMS.get(FUSED_OPS[number].form, ONE_BY_ONE)


READ_BY: Found[int, int] = Found(_read_by)  # how the nodes of a fused op read others


def flat_graph(stored: Any, start: int) -> Any:
    """The nodes of a `StoredNodes` from `start` on, as a `FlatGraph`."""
    return core.FlatGraph(stored, start, READ_BY.__getitem__, import_of)
