"""What is done where a program fails, and what users are told about memory."""

import re
import warnings
from collections import Counter
from typing import Any

from dynetjax.core.errors import error_text
from dynetjax.core.lazy import is_jax_imported, jax
from dynetjax.core.nodes import frame_of_user
from dynetjax.engine.xla.buffers import forget
from dynetjax.graph import ComputationGraph

MOST_NODES = 1_000_000
MOST_BYTES = 1 << 30
_SHOWN = 3
_FIX = (
    "smaller batches or shorter sentences; dy.renew_cg() between examples; sparse "
    "updates for tables; on a GPU, XLA_PYTHON_CLIENT_MEM_FRACTION"
)


class memory_of:
    """A context in which the error, where memory runs out, tells what takes most.

    Where a program fails for any reason, no array that it had is used again.

    Raises:
        MemoryError: it did.
    """

    __slots__ = ("_graph",)

    def __init__(self, graph: ComputationGraph):
        self._graph = graph

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        if error is None:
            return
        forget()
        if _is_about_memory(error):
            raise _explained(str(error), self._graph) from error


def let_compute(graph: ComputationGraph, executor: Any) -> None:
    """Have an executor compute a graph without Python, until it is very large."""
    graph.use_executor(executor, MOST_NODES, MOST_BYTES)


def warn_of_growth(graph: ComputationGraph, bytes_taken: int) -> None:
    """Say once of a graph that it has become very large, at the user's line.

    A graph grows until `renew_cg`, and each backward goes through all of it.

    Warns:
        RuntimeWarning: it has more than `MOST_NODES`, or takes more than `MOST_BYTES`.
    """
    nodes = len(graph)
    if graph.is_known_large or (nodes <= MOST_NODES and bytes_taken <= MOST_BYTES):
        return
    graph.is_known_large = True
    frame = frame_of_user()
    message = error_text(
        "the computation graph has become very large",
        got=f"{nodes:,} nodes, which take {bytes_taken / 2**20:,.0f} MB",
        expected="a new graph for each example or batch",
        fix="call dy.renew_cg() before each; this is said once of a graph",
    )
    where = frame.f_code.co_filename, frame.f_lineno
    warnings.warn_explicit(message, RuntimeWarning, *where)


def _is_about_memory(error: BaseException) -> bool:
    if is_jax_imported() and isinstance(error, jax.errors.JaxRuntimeError):
        return "RESOURCE_EXHAUSTED" in str(error)
    return isinstance(error, MemoryError)


def _explained(reason: str, graph: ComputationGraph) -> MemoryError:
    sizes: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for node in graph.nodes:
        dim = node.full_dim
        label = f"{node.signature.op.name} {dim}"
        sizes[label] += 4 * dim.size * max(1, node.lanes)
        counts[label] += 1
    largest = [
        f"{counts[label]} {label} take {size / 2**20:,.0f} MB"
        for label, size in sizes.most_common(_SHOWN)
    ]
    asked = re.search(r"allocat\w+ ([\d.,]+ ?\w+)", reason)
    return MemoryError(
        error_text(
            "memory ran out",
            got=f"{asked[1] if asked else 'more memory'} could not be had; of this "
            f"graph, {'; '.join(largest) or 'which is empty, nothing'}",
            expected="room for the values of a graph, and as much for gradients",
            fix=_FIX,
        )
    )
