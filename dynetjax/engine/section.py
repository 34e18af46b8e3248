"""A part of a graph as arrays: the nodes that one run computes.

Nodes get local numbers, in the graph's order. A node that an earlier run stored
stands in a section as an *import*: a source with rows to copy.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dynetjax.graph import ComputationGraph
from dynetjax.ops.registry import (
    GATHER,
    IMPORT,
    MAP,
    REDUCE,
    SIGNATURES,
    Op,
    intern,
    lane_kind,
)

IMPORT_OP = Op("import", form=IMPORT, internal=True)

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
MIX_2 = np.uint64(0x94D049BB133111EB)


def scramble(x: np.ndarray) -> np.ndarray:
    """64 well mixed bits of each number (the finaliser of SplitMix64)."""
    x = (x ^ (x >> np.uint64(30))) * MIX_1
    x = (x ^ (x >> np.uint64(27))) * MIX_2
    return x ^ (x >> np.uint64(31))


class SignatureTable:
    """What planning must know of every signature, as arrays indexed by its id.

    Attributes:
        code: 64 random bits.
        uniform: the result has no rows.
        stored: never inlined into a consumer.
        pins: its operands are never inlined into it.
        contraction: see `Op`.
        rows: REDUCE or GATHER.
        telling: it has weights, which tell its readers' roles apart.
        summing: an addition of two rows of one shape, which long chains turn into sums.
    """

    def __init__(self) -> None:
        self._known = 0
        self._flags = np.zeros((7, 0), bool)
        self.refresh()

    def refresh(self) -> None:
        """Take in the signatures interned since."""
        fresh = SIGNATURES[self._known :]
        if fresh:
            flags = [self._describe(s) for s in fresh]
            self._flags = np.hstack([self._flags, np.array(flags, bool).T])
            self._known += len(fresh)
            self.uniform, self.stored, self.pins = self._flags[:3]
            self.contraction, self.rows, self.telling, self.summing = self._flags[3:]
            self.code = scramble(
                np.arange(1, self._known + 1, dtype=np.uint64) * GOLDEN
            )

    def cut(self, sig: int) -> None:
        """Store results of this signature from now on."""
        self._flags[1, sig] = True

    @staticmethod
    def _describe(signature) -> tuple[bool, ...]:
        op = signature.op
        uniform = signature.kind.uniform
        contraction = op.contraction and not uniform
        rows = op.form in (REDUCE, GATHER)
        summing = (
            op.name == "add"
            and not signature.stretched
            and all(
                not k.uniform and k.shape == signature.shape for k in signature.operands
            )
        )
        pins = contraction or rows
        weighted = op.form == MAP and any(k.uniform for k in signature.operands)
        telling = (contraction or weighted) and not uniform
        return uniform, op.form != MAP, pins, contraction, rows, telling, summing


SIGNATURE_TABLE = SignatureTable()


def import_signature(origin: int, shape: tuple[int, ...]) -> int:
    """The signature of rows that macro node `origin` computed in an earlier run."""
    key = ((origin, *shape), 0)
    known = IMPORT_OP.signatures.get(key)
    return (
        intern(IMPORT_OP, key, shape, kind=lane_kind(shape)) if known is None else known
    )


@dataclass(slots=True)
class Section:
    """Nodes of a graph, in order.

    Attributes:
        ids: their numbers in the graph.
        sig, batch: per node.
        first, operands: node k reads the nodes ``operands[first[k]:first[k + 1]]``.
        elements: for REDUCE and GATHER nodes that read certain batch elements: which.
        hidden: nodes that hold something else than in the graph.
        positions: which nodes of a longer section these are, if it was shortened.
    """

    ids: np.ndarray
    sig: np.ndarray
    batch: np.ndarray
    first: np.ndarray
    operands: np.ndarray
    elements: dict[int, list[int]]
    hidden: set[int]
    positions: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def counts(self) -> np.ndarray:
        """How many operands each node has."""
        return self.first[1:] - self.first[:-1]


def whole(graph: ComputationGraph) -> Section:
    """All of `graph`."""
    n = len(graph)
    SIGNATURE_TABLE.refresh()
    section = Section(
        np.arange(n),
        np.array(graph.sig, np.int64),
        np.array(graph.batch, np.int64),
        np.array(graph.first, np.int64),
        np.array(graph.operands, np.int64),
        {},
        set(),
    )
    section.elements = _elements(graph, section)
    return section


def increment(
    graph: ComputationGraph,
    start: int,
    asked: list[int],
    origin: Callable[[int], int | None],
) -> Section:
    """The nodes from `start` on, and what they and `asked` need of those before.

    `origin(node)` tells which macro node stored an earlier node; None if nothing
    did, and then it is computed again from its operands.
    """
    SIGNATURE_TABLE.refresh()
    first, operands = graph.first, graph.operands
    found = _needed(graph, start, asked, origin)
    old = sorted(found)
    members = old + list(range(start, len(graph)))
    local = {node: k for k, node in enumerate(members)}
    sig, flat, ends = [], [], [0]
    for node in members:
        known = found.get(node)
        if known is None:
            sig.append(graph.sig[node])
            flat += [local[x] for x in operands[first[node] : first[node + 1]]]
        else:
            sig.append(import_signature(known, graph.dim(node).shape))
        ends.append(len(flat))
    SIGNATURE_TABLE.refresh()
    section = Section(
        np.array(members, np.int64),
        np.array(sig, np.int64),
        np.array([graph.batch[node] for node in members], np.int64),
        np.array(ends, np.int64),
        np.array(flat, np.int64),
        {},
        set(),
    )
    section.elements = _elements(graph, section)
    return section


def _needed(
    graph: ComputationGraph,
    start: int,
    asked: list[int],
    origin: Callable[[int], int | None],
) -> dict[int, int | None]:
    """Nodes before `start` that are needed, and the macros that stored them."""
    first, operands = graph.first, graph.operands
    uniform = SIGNATURE_TABLE.uniform
    found: dict[int, int | None] = {}
    stack = [node for node in asked if node < start]
    stack += [node for node in operands[first[start] :] if node < start]
    while stack:
        node = stack.pop()
        if node in found:
            continue
        found[node] = known = None if uniform[graph.sig[node]] else origin(node)
        if known is None:
            stack += operands[first[node] : first[node + 1]]
    return found


def _elements(graph: ComputationGraph, section: Section) -> dict[int, list[int]]:
    """Which batch elements REDUCE and GATHER nodes read, where that is not all."""
    rows = np.flatnonzero(SIGNATURE_TABLE.rows[section.sig]).tolist()
    found = {k: graph.data.get(int(section.ids[k])) for k in rows}
    return {k: data for k, data in found.items() if data is not None}
