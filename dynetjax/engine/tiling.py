"""Macro nodes: a node and the nodes inlined into it, down to stored rows.

A node used once is inlined into its consumer. What stays outside is stored: sources,
nodes used twice or never, operands of contractions and of sums. Macro nodes that look
alike down to their boundaries share a `Macro`, found for all nodes at once by a hash
of their structure.
"""

from dataclasses import dataclass

import numpy as np

from dynetjax.dims import Shape
from dynetjax.engine.section import GOLDEN, SIGNATURE_TABLE, Section, scramble
from dynetjax.ops.registry import (
    GATHER,
    MAP,
    REDUCE,
    SIGNATURES,
    Kind,
    Signature,
)

MAX_LEVELS = 8
_SLOTS = scramble(np.arange(1, 4097, dtype=np.uint64) * GOLDEN) | np.uint64(1)
_BOUNDARY = np.uint64(0x165667B19E3779F9)
_CONTRACTION = np.uint64(0x27D4EB2F165667C5)

Path = tuple[int, ...]


@dataclass(slots=True)
class Step:
    """One operation of a macro node.

    `operands` name earlier steps ``("step", j)``, boundaries ``("leaf", k)`` and
    uniforms ``("uniform", kind)``; `path` leads to the node from the root.
    """

    signature: Signature
    operands: tuple[tuple[str, int], ...]
    path: Path


@dataclass(slots=True)
class Leaf:
    """A boundary operand: where it is, its shape, whether one row serves all lanes."""

    path: Path
    shape: Shape
    stretched: bool


class Macro:
    """What macro nodes of one structure have in common.

    Attributes:
        id: order of first appearance in the process.
        form: MAP, or that of its only operation.
        steps: operations, operands first; the last gives the result.
        leaves: the boundaries it reads; REDUCE and GATHER have one, which stands
            for all the rows they sum or copy.
        slot: number of its first leaf among the leaves of all macros.
    """

    __slots__ = ("form", "id", "leaves", "shape", "slot", "steps")

    def __init__(self, steps: list[Step], leaves: list[Leaf]):
        root = steps[-1].signature
        self.steps, self.leaves = steps, leaves
        self.form, self.shape = root.op.form, root.shape
        self.id = len(MACROS)
        self.slot = len(SLOT_OWNERS)
        MACROS.append(self)
        SLOT_OWNERS.extend([self.id] * len(leaves))

    @property
    def kinds(self) -> list[Kind]:
        """The uniforms among its operands, in order of use."""
        return [k for s in self.steps for k in s.signature.operands if k.uniform]


MACROS: list[Macro] = []
SLOT_OWNERS: list[int] = []
_by_hash: dict[int, int] = {}
_composed: list[int] = []  # hashes of macros of more than one operation


@dataclass(slots=True)
class Tiling:
    """A section as macro nodes.

    Attributes:
        macro_of: the macro of each stored node, -1 for inlined nodes and uniforms.
        nodes: stored nodes of each macro present, by macro id in ascending order.
        columns: for each macro, per leaf, the node that each of its nodes reads; for
            REDUCE and GATHER see `rows`.
        rows: for each REDUCE or GATHER macro, the arrays (reader, operand position,
            node read), one entry per operand.
    """

    section: Section
    macro_of: np.ndarray
    nodes: dict[int, np.ndarray]
    columns: dict[int, list[np.ndarray]]
    rows: dict[int, tuple[np.ndarray, np.ndarray, np.ndarray]]

    def reads(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Every stored row that is read: (reader, slot, node read)."""
        parts = [
            (self.nodes[m], np.full(len(column), MACROS[m].slot + k), column)
            for m, columns in self.columns.items()
            for k, column in enumerate(columns)
        ]
        parts += [
            (reader, np.full(len(reader), MACROS[m].slot), read)
            for m, (reader, _, read) in self.rows.items()
        ]
        if not parts:
            nothing = np.zeros(0, np.int64)
            return nothing, nothing, nothing
        reader, slot, read = (np.concatenate(a) for a in zip(*parts, strict=True))
        return reader, slot, read


def tile(section: Section, asked: np.ndarray) -> Tiling:
    """Cut `section` into macro nodes; the nodes `asked` are stored in any case."""
    table = SIGNATURE_TABLE
    readers = np.repeat(np.arange(len(section)), section.counts())
    once, consumer = _used_once(section, asked, readers)
    hashes = _hashes(section, once, readers)
    once[_stored_elsewhere(section, once, hashes, readers)] = False
    inlined = once & ~_recurs(section.sig, once, consumer)
    hashes = _hashes(section, inlined, readers)
    stored = np.flatnonzero(~inlined & ~table.uniform[section.sig])
    _, first, inverse = np.unique(
        hashes[stored], return_index=True, return_inverse=True
    )
    ids = np.empty(len(first), np.int64)
    for group in np.argsort(first).tolist():
        node = int(stored[first[group]])
        ids[group] = _macro(section, inlined, node, int(hashes[node]), not once[node])
    macro_of = np.full(len(section), -1)
    macro_of[stored] = ids[inverse]
    return _columns(section, macro_of, stored)


def _used_once(
    section: Section, asked: np.ndarray, readers: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Which nodes may be computed inside their only consumer, and which that is."""
    table, sig = SIGNATURE_TABLE, section.sig
    uses = np.bincount(section.operands, minlength=len(section))
    uses[asked] += 2
    once = (uses == 1) & ~table.stored[sig] & ~table.uniform[sig]
    once[section.operands[table.pins[sig[readers]]]] = False
    differs = section.batch[section.operands] != section.batch[readers]
    once[section.operands[differs]] = False
    consumer = np.zeros(len(section), np.int64)
    consumer[section.operands] = readers
    return once, consumer


def _recurs(sig: np.ndarray, inlined: np.ndarray, consumer: np.ndarray) -> np.ndarray:
    """Inlined nodes whose signature occurs above them, or that lie too deep.

    A short run of additions is no recurrence: cells add up a few products.
    """
    node = np.flatnonzero(inlined)
    own = sig[node]
    adds = SIGNATURE_TABLE.summing[own]
    clash = np.zeros(len(node), bool)
    active = np.ones(len(node), bool)
    above = node
    for level in range(1, MAX_LEVELS + 1):
        above = np.where(active, consumer[above], above)
        same = active & (sig[above] == own)
        clash |= same & ~(adds & (level <= 2))
        active &= inlined[above]
        if not active.any():
            break
    clash |= active
    result = np.zeros(len(sig), bool)
    result[node[clash]] = True
    return result


def _stored_elsewhere(
    section: Section, inlined: np.ndarray, hashes: np.ndarray, readers: np.ndarray
) -> np.ndarray:
    """Inlined nodes that look like macro nodes of more than one operation.

    The cell of a tree's root differs from all others in that its state is used once;
    it is computed as they are, or it would be a program of its own.
    """
    composed = np.zeros(len(section), bool)
    composed[readers[inlined[section.operands]]] = True
    inner = np.flatnonzero(inlined & composed)
    outer = ~inlined & composed
    known = np.isin(hashes[inner], hashes[outer])
    known |= np.isin(hashes[inner], np.array(_composed, np.uint64))
    return inner[known]


def _hashes(section: Section, inlined: np.ndarray, readers: np.ndarray) -> np.ndarray:
    """64 bits per node for the structure below it, down to its boundaries.

    A boundary counts as nothing in particular, but one that is a contraction, or has
    a bias, counts as what it is: its weights tell, say, an input gate from an output
    gate, and one LSTM from another.
    """
    table, sig, operands = SIGNATURE_TABLE, section.sig, section.operands
    code = table.code[sig]
    boundary = np.where(table.telling[sig], code ^ _CONTRACTION, _BOUNDARY)
    boundary[table.uniform[sig]] = 0
    position = np.arange(len(operands)) - section.first[readers]
    slot = _SLOTS[position % len(_SLOTS)]
    inner = inlined[operands]
    inner_edges = np.flatnonzero(inner)
    outer = np.where(inner | table.rows[sig][readers], 0, boundary[operands] * slot)
    total = np.concatenate([np.zeros(1, np.uint64), np.cumsum(outer)])
    base = code + (total[section.first[1:]] - total[section.first[:-1]])
    hashes = scramble(base)
    if not len(inner_edges):
        return hashes
    source, slot, reader = (
        operands[inner_edges],
        slot[inner_edges],
        readers[inner_edges],
    )
    starts = np.flatnonzero(np.append(True, reader[1:] != reader[:-1]))
    composed = reader[starts]
    base = base[composed]
    for _ in range(MAX_LEVELS + 1):
        below = np.add.reduceat(hashes[source] * slot, starts)
        new = scramble(base + below)
        if np.array_equal(new, hashes[composed]):
            break
        hashes[composed] = new
    return hashes


def _macro(
    section: Section, inlined: np.ndarray, root: int, key: int, shared: bool
) -> int:
    """The macro with this hash, made from the example at `root` when it is new.

    One that is `shared`, and not only cut off where it grew too deep, is looked for
    in all graphs from now on.
    """
    known = _by_hash.get(key)
    if known is not None:
        return known
    steps: list[Step] = []
    leaves: list[Leaf] = []
    signature = SIGNATURES[section.sig[root]]
    if signature.op.form == MAP:
        _walk(section, inlined, root, (), steps, leaves)
    else:
        steps.append(Step(signature, (), ()))
        if signature.op.form in (REDUCE, GATHER):
            leaves.append(Leaf((), signature.shape, True))
    macro = Macro(steps, leaves)
    _by_hash[key] = macro.id
    if shared and len(steps) > 1:
        _composed.append(key)
    return macro.id


def _walk(section, inlined, node: int, path: Path, steps, leaves) -> int:
    """Append the steps for `node` and what is inlined below; the number of its own."""
    signature = SIGNATURES[section.sig[node]]
    first, operands = int(section.first[node]), section.operands
    found: list[tuple[str, int]] = []
    for k, kind in enumerate(signature.operands):
        operand, way = int(operands[first + k]), (*path, k)
        if kind.uniform:
            found.append(("uniform", kind.id))
        elif inlined[operand]:
            found.append(("step", _walk(section, inlined, operand, way, steps, leaves)))
        else:
            found.append(("leaf", len(leaves)))
            stretched = bool(signature.stretched >> k & 1)
            leaves.append(Leaf(way, kind.shape, stretched))
    steps.append(Step(signature, tuple(found), path))
    return len(steps) - 1


def follow(section: Section, nodes: np.ndarray, path: Path) -> np.ndarray:
    """The node at `path` below each of `nodes`."""
    for k in path:
        nodes = section.operands[section.first[nodes] + k]
    return nodes


def _columns(section: Section, macro_of: np.ndarray, stored: np.ndarray) -> Tiling:
    """Group the stored nodes by macro, and find what they read."""
    order = stored[np.argsort(macro_of[stored], kind="stable")]
    present, starts = np.unique(macro_of[order], return_index=True)
    groups = np.split(order, starts[1:])
    tiling = Tiling(section, macro_of, {}, {}, {})
    for macro, nodes in zip(present.tolist(), groups, strict=True):
        tiling.nodes[macro] = nodes
        kind = MACROS[macro]
        if kind.form in (REDUCE, GATHER):
            counts = section.first[nodes + 1] - section.first[nodes]
            ends = np.cumsum(counts)
            position = np.arange(ends[-1]) - np.repeat(ends - counts, counts)
            reader = np.repeat(nodes, counts)
            read = section.operands[section.first[reader] + position]
            tiling.rows[macro] = reader, position, read
        else:
            tiling.columns[macro] = [
                follow(section, nodes, leaf.path) for leaf in kind.leaves
            ]
    return tiling
