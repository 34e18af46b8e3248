"""Long chains of additions, `loss = loss + err`, become sums of fan-in FAN_IN.

As a chain they would be a loop with one trip per addition. The nodes in between that
nobody else reads are dropped, or serve as partial sums, whose numbers then no longer
stand for what the user built.
"""

from dataclasses import replace

import numpy as np

from dynetjax.engine.section import SIGNATURE_TABLE, Section
from dynetjax.ops.registry import FAN_IN, SIGNATURES, intern, lane_kind
from dynetjax.ops.rows import REDUCE_OP

SHORTEST = 4  # additions; cells add up a few products, and that is no chain


def shorten(section: Section, asked: np.ndarray) -> Section:
    """`section` with its long chains of additions as sums."""
    root = _roots(section, asked)
    size = np.bincount(root, minlength=len(section))
    long = np.flatnonzero(size >= SHORTEST)
    if not len(long):
        return section
    members: dict[int, list[int]] = {r: [] for r in long.tolist()}
    for node in np.flatnonzero(size[root] >= SHORTEST).tolist():
        members[int(root[node])].append(node)
    sums: dict[int, list[int]] = {}
    for chain in members.values():
        _partial_sums(section, chain, sums)
    dropped = {n for chain in members.values() for n in chain} - sums.keys()
    return _rewrite(section, sums, dropped, set(members))


def _roots(section: Section, asked: np.ndarray) -> np.ndarray:
    """For an addition used only by another, the last of the chain; else the node."""
    sig = section.sig
    node = np.arange(len(section))
    readers = np.repeat(node, section.counts())
    uses = np.bincount(section.operands, minlength=len(section))
    uses[asked] += 2
    consumer = node.copy()
    consumer[section.operands] = readers
    linked = SIGNATURE_TABLE.summing[sig] & ~SIGNATURE_TABLE.stored[sig]
    linked &= (uses == 1) & (sig[consumer] == sig)
    root = np.where(linked, consumer, node)
    while not np.array_equal(root, root[root]):
        root = root[root]
    return root


def _partial_sums(
    section: Section, chain: list[int], sums: dict[int, list[int]]
) -> None:
    """Decide which additions of a chain stay, as sums of which nodes.

    Each addition brings in its operands from outside, and may close one sum of what is
    pending. Levels keep the sums balanced; the last few additions collect the rest.
    """
    inside = set(chain)
    levels: list[list[int]] = [[]]
    for k, node in enumerate(chain):
        operands = section.operands[section.first[node] : section.first[node + 1]]
        levels[0] += [x for x in operands.tolist() if x not in inside]
        left = len(chain) - 1 - k
        if left == 0:
            sums[node] = [x for level in levels for x in level]
            return
        pending = sum(map(len, levels))
        full = next((i for i, level in enumerate(levels) if len(level) >= FAN_IN), None)
        if full is None and left <= FAN_IN and pending >= FAN_IN - 1:
            full = len(levels) - 1
            levels[full] = [x for level in levels for x in level]
            levels[:full] = [[] for _ in range(full)]
        if full is not None:
            sums[node] = levels[full][:FAN_IN]
            levels[full] = levels[full][FAN_IN:]
            if full + 1 == len(levels):
                levels.append([])
            levels[full + 1].append(node)


def _rewrite(
    section: Section, sums: dict[int, list[int]], dropped: set[int], roots: set[int]
) -> Section:
    """The section without `dropped`, and with `sums` as REDUCE nodes."""
    kept = np.ones(len(section), bool)
    kept[list(dropped)] = False
    number = np.cumsum(kept) - 1
    sig, flat, ends = section.sig.copy(), [], [0]
    first, operands = section.first.tolist(), section.operands.tolist()
    for node in np.flatnonzero(kept).tolist():
        summed = sums.get(node)
        if summed is None:
            flat += operands[first[node] : first[node + 1]]
        else:
            flat += summed
            sig[node] = _reduce_signature(SIGNATURES[sig[node]].shape)
        ends.append(len(flat))
    SIGNATURE_TABLE.refresh()
    return replace(
        section,
        ids=section.ids[kept],
        sig=sig[kept],
        batch=section.batch[kept],
        first=np.array(ends),
        operands=number[np.array(flat, np.int64)],
        elements={int(number[n]): e for n, e in section.elements.items()},
        hidden={int(number[n]) for n in sums.keys() - roots},
        positions=np.flatnonzero(kept),
    )


def _reduce_signature(shape: tuple[int, ...]) -> int:
    known = REDUCE_OP.signatures.get((shape, 0))
    if known is not None:
        return known
    return intern(REDUCE_OP, (shape, 0), shape, kind=lane_kind(shape))
