"""When and where each node is computed: iteration, lane, row.

A node's iteration in a cyclic component is one more than that of the nodes it reads
from pools, and that of the nodes it reads from registers. Nodes linked by registers
share a lane. The lanes of an iteration are cut into chunks of the component's width;
the trips of its loop are the chunks of all iterations. Rows of a macro lie in its
pool trip by trip, lane by lane.
"""

import math
from dataclasses import dataclass

import numpy as np

from dynetjax.engine.body import Body, wiring
from dynetjax.engine.macros import MACROS
from dynetjax.engine.rooms import Sizes
from dynetjax.engine.structure import Component, Scope
from dynetjax.engine.tiling import Tiling
from dynetjax.ops.registry import IMPORT, INPUT, LOOKUP

LOOP_WIDTHS = (2, 4, 16, 64, 256)
WIDTHS = (16, 64, 256)  # of a component that runs once
LARGE_WIDTHS = (1, 4, 16, 64)  # where a lane is as much work as a small program
LARGE = 1 << 14  # numbers in a row
TRIP_COST = 8  # of a trip of a loop, in lanes
CHEAPER = 8  # kept results than rows of pools
PATIENCE = 64  # lanes lost, besides twice the cost, before a settled width changes

_settled: dict[Body, int] = {}


@dataclass(slots=True)
class Block:
    """A component in one graph.

    Attributes:
        component: what runs; macros that have no nodes here run on empty lanes.
        width: lanes in a trip.
        trips: how many trips.
    """

    component: Component
    width: int
    trips: int


@dataclass(slots=True)
class Schedule:
    """The blocks of a graph in order, and where each stored node's rows are.

    Attributes:
        lane: position of the node's first lane in its block, over all trips.
        base: first row of each macro in its pool.
        row: first row of each node in its pool; and 0, that of NOTHING.
        room: rows of each pool, and lanes of each component by `lanes_key`.
    """

    blocks: list[Block]
    lane: np.ndarray
    base: dict[int, int]
    row: np.ndarray
    room: Sizes


def schedule(scope: Scope, tiling: Tiling, reads) -> Schedule | None:
    """Place every node; None if the scope had to be widened to make it possible."""
    iteration, misplaced = _iterations(scope, tiling, reads)
    leader, unaligned = _leaders(scope, tiling)
    slots = sorted(misplaced | unaligned)
    if slots:
        scope.widen(slots)
        return None
    return _place(scope, tiling, iteration, leader)


def _iterations(scope: Scope, tiling: Tiling, reads) -> tuple[np.ndarray, set[int]]:
    """The iteration of each node, and register leaves that would need two."""
    reader, slot, read = reads
    iteration = np.zeros(len(tiling), np.int64)
    of_reader = scope.loop_of[tiling.macro_of[reader]]
    inside = (of_reader >= 0) & (of_reader == scope.loop_of[tiling.macro_of[read]])
    if not inside.any():
        return iteration, set()
    reader, slot, read = reader[inside], slot[inside], read[inside]
    register = scope.in_register[slot]
    order = np.argsort(reader, kind="stable")
    found = [0] * len(iteration)
    for r, s, step in zip(
        reader[order].tolist(),
        read[order].tolist(),
        (~register[order]).tolist(),
        strict=True,
    ):
        at = found[s] + step
        if at > found[r]:
            found[r] = at
    iteration = np.array(found)
    late = register & (iteration[reader] != iteration[read])
    return iteration, set(slot[late].tolist())


def _leaders(scope: Scope, tiling: Tiling) -> tuple[np.ndarray, set[int]]:
    """The node whose lane each node shares, and register leaves that do not align."""
    leader = np.arange(len(tiling))
    unaligned: set[int] = set()
    if not scope.registers:
        return leader, unaligned
    for macro in sorted(tiling.nodes, key=scope.rank):  # producers come first
        nodes = tiling.nodes[macro]
        slot = MACROS[macro].slot
        columns = tiling.columns.get(macro, ())
        linked = [k for k in range(len(columns)) if slot + k in scope.registers]
        if not linked:
            continue
        mine = leader[columns[linked[0]]]
        leader[nodes] = mine
        if len(set(mine.tolist())) < len(nodes):
            unaligned.add(slot + linked[0])
        for k in linked[1:]:
            if (leader[columns[k]] != mine).any():
                unaligned.add(slot + k)
    return leader, unaligned


def _place(
    scope: Scope, tiling: Tiling, iteration: np.ndarray, leader: np.ndarray
) -> Schedule:
    lane, row = np.zeros(len(leader), np.int64), np.zeros(len(leader) + 1, np.int64)
    plan = Schedule([], lane, {}, row, {})
    used: dict[int, int] = {}
    for component in scope.components:
        if not any(m in tiling.nodes for m in component.macros):
            continue
        block = _lanes(scope, tiling, component, iteration, leader, plan.lane)
        plan.blocks.append(block)
        size = block.trips * block.width
        for macro in component.macros:
            pool = scope.pools[macro]
            base = plan.base[macro] = used.get(pool, 1)
            used[pool] = base + size
            nodes = tiling.nodes.get(macro)
            if nodes is not None:
                plan.row[nodes] = base + plan.lane[nodes]
    for block in plan.blocks:
        used[lanes_key(block.component)] = block.trips * block.width
    plan.room = scope.rooms.settle(used, _row_bytes(scope))
    return plan


def lanes_key(component: Component) -> int:
    """What stands for the lanes of a component among the pools."""
    return -1 - component.macros[0]


def _row_bytes(scope: Scope) -> Sizes:
    """Bytes of a row of each pool, and of a component's lanes.

    What is kept of large results lies in scratch buffers, and costs little but memory.
    """
    if not scope.row_bytes:
        for pool in scope.pools.values():
            scope.row_bytes[pool] = 4 * math.prod(MACROS[pool].shape)
        for component in scope.components:
            steps = [s.signature for m in component.macros for s in MACROS[m].steps]
            sizes = [math.prod(s.shape) for s in steps if s.op.contraction]
            columns = sum(1 + len(MACROS[m].leaves) for m in component.macros)
            kept = max(sizes, default=0) // CHEAPER
            given = [math.prod(MACROS[m].shape) for m in component.macros if _given(m)]
            each = 4 * max(columns, kept, *given)
            scope.row_bytes[lanes_key(component)] = each
    return scope.row_bytes


def _given(macro: int) -> bool:
    """Whether all its lanes are one array, outside of the pools.

    Those that come from the host are, and the gradients of rows of a table.
    """
    found = MACROS[macro]
    large = math.prod(found.shape) > LARGE
    return found.form in (INPUT, IMPORT) or (found.form == LOOKUP and large)


def _lanes(
    scope: Scope,
    tiling: Tiling,
    component: Component,
    iteration: np.ndarray,
    leader: np.ndarray,
    lane: np.ndarray,
) -> Block:
    """Give the nodes of one component their lanes."""
    if not component.cyclic:
        return _lanes_once(scope, tiling, component, lane)
    batch = tiling.batch
    groups: dict[int, list[np.ndarray]] = {}
    for macro in component.macros:
        if macro in tiling.nodes:
            group = groups.setdefault(component.group[macro], [])
            group.append(tiling.nodes[macro])
    offsets, counts = [], np.zeros(1, np.int64)
    for members in groups.values():
        nodes = np.concatenate(members)
        heads = nodes[leader[nodes] == nodes]
        when = iteration[heads]
        heads = heads[np.lexsort((heads, when))]
        when = iteration[heads]
        size = batch[heads]
        each = np.bincount(when, weights=size).astype(np.int64)
        before = np.cumsum(each) - each
        offsets.append((nodes, heads, np.cumsum(size) - size - before[when], when))
        counts = _maximum(counts, each)
    width = _width(scope, component, counts.tolist())
    chunks = -(-counts // width)
    first = np.cumsum(chunks) - chunks
    for nodes, heads, offset, when in offsets:
        lane[heads] = first[when] * width + offset
        lane[nodes] = lane[leader[nodes]]
    return Block(component, width, int(chunks.sum()))


def _lanes_once(
    scope: Scope, tiling: Tiling, component: Component, lane: np.ndarray
) -> Block:
    """The same where all nodes run together: one after the other."""
    nodes = tiling.nodes[component.macros[0]]
    if tiling.single:
        lanes = len(nodes)
        lane[nodes] = np.arange(lanes)
    else:
        size = tiling.batch[nodes]
        ends = size.cumsum()
        lane[nodes] = ends - size
        lanes = int(ends[-1])
    width = _width(scope, component, [lanes])
    return Block(component, width, -(-lanes // width))


def _maximum(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Elementwise maximum; the shorter counts as zeros at its end."""
    if len(a) < len(b):
        a, b = b, a
    result = a.copy()
    np.maximum(result[: len(b)], b, out=result[: len(b)])
    return result


def _width(scope: Scope, component: Component, counts: list[int]) -> int:
    """Lanes in a trip: what costs least, or the settled width if that is near.

    `counts` are the lanes of each iteration.
    """
    body = wiring(scope, component).body
    settled = _settled.get(body)
    large = body.largest > LARGE
    trip, patience = (0, 0) if large else (TRIP_COST, PATIENCE)
    if settled is not None:
        trips = sum([-(-n // settled) for n in counts])
        if trips * (trip + settled) <= 2 * sum(counts) + patience:
            return settled  # no width costs less than a lane for each lane
    widths: tuple[int, ...] = LOOP_WIDTHS if component.cyclic else WIDTHS
    if large:
        widths = LARGE_WIDTHS
    cost = {w: sum([-(-n // w) for n in counts]) * (trip + w) for w in widths}
    best = max(w for w in cost if cost[w] == min(cost.values()))
    settled = _settled.get(body, best)
    if settled not in cost or cost[settled] > 2 * cost[best] + patience:
        settled = best
    _settled[body] = settled
    return settled


def settled_width(scope: Scope, component: Component) -> int:
    """The width of a component that has no nodes in a graph."""
    body = wiring(scope, component).body
    return _settled.get(body, (LARGE_WIDTHS if body.largest > LARGE else WIDTHS)[0])
