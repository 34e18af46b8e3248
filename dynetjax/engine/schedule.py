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
from dynetjax.engine.tiling import Tiling, first_of_each
from dynetjax.ops.registry import IMPORT, INPUT, LOOKUP

LOOP_WIDTHS = (2, 4, 16, 64, 256)
WIDTHS = (16, 64, 256)  # of a component that runs once
LARGE_WIDTHS = (1, 4, 16, 64)  # where a lane is as much work as a small program
LARGE = 1 << 14  # numbers in a row
TRIP_COST = 8  # of a trip of a loop, in lanes
CHEAPER = 8  # kept results than rows of pools
PATIENCE = 64  # lanes lost, besides twice the cost, before a settled width changes

_settled: dict[Body, int] = {}
_NO_ROWS = np.zeros(0, np.int64)


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
    leader, unaligned = _leaders(scope, tiling, reads)
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
    found = [0] * len(iteration)
    steps = (~register).tolist()
    for r, s, step in zip(reader.tolist(), read.tolist(), steps, strict=True):
        at = found[s] + step
        if at > found[r]:
            found[r] = at
    iteration = np.array(found)
    late = register & (iteration[reader] != iteration[read])
    return iteration, set(slot[late].tolist())


def _leaders(scope: Scope, tiling: Tiling, reads) -> tuple[np.ndarray, set[int]]:
    """The node whose lane each node shares, and register leaves that do not align."""
    leader = np.arange(len(tiling))
    if not scope.registers:
        return leader, set()
    reader, slot, read = reads
    linked = scope.in_register[slot]
    reader, slot, read = reader[linked], slot[linked], read[linked]
    leader[reader[::-1]] = read[::-1]  # what its first such leaf reads
    following = leader[leader]
    while (following != leader).any():
        leader, following = following, following[following]
    crooked = leader[reader] != leader[read]
    lanes = leader[reader] * len(MACROS) + tiling.macro_of[reader]
    lanes = np.sort(lanes[first_of_each(reader)])
    if not crooked.any() and (lanes[1:] != lanes[:-1]).all():
        return leader, set()
    return leader, set(slot[crooked].tolist()) | _shared(tiling, leader, reader, slot)


def _shared(tiling: Tiling, leader: np.ndarray, reader, slot) -> set[int]:
    """The first register leaves of macros of which two nodes would share a lane."""
    first: dict[int, int] = {}
    for r, s in zip(reader.tolist(), slot.tolist(), strict=True):
        first.setdefault(r, s)
    of_macro: dict[int, list[int]] = {}
    for r in first:
        of_macro.setdefault(int(tiling.macro_of[r]), []).append(r)
    return {
        first[nodes[0]]
        for nodes in of_macro.values()
        if len(set(leader[nodes].tolist())) < len(nodes)
    }


def _place(
    scope: Scope, tiling: Tiling, iteration: np.ndarray, leader: np.ndarray
) -> Schedule:
    """Give every node its lane and its row."""
    heads = np.flatnonzero(leader == np.arange(len(leader)))
    component, group = scope.place_of[:, tiling.macro_of[heads]]
    when, size = iteration[heads], tiling.batch[heads]
    span = int(when.max(initial=0)) + 1
    order = np.lexsort((when, group, component))
    heads, group, size = heads[order], group[order], size[order]
    cell = component[order] * span + when[order]  # iterations of all components
    begins = first_of_each(cell) | first_of_each(group)
    first = np.flatnonzero(begins)
    before = size.cumsum() - size
    offset = before - before[first][begins.cumsum() - 1]
    counts = np.zeros((len(scope.components), span), np.int64)
    np.maximum.at(counts.ravel(), cell[first], np.add.reduceat(size, first))
    present = np.flatnonzero(counts.any(axis=1)).tolist()
    width = _widths(scope, counts, present)
    chunks = -(-counts // width[:, None])
    starts = (chunks.cumsum(axis=1) - chunks) * width[:, None]
    lane = np.zeros(len(leader), np.int64)
    lane[heads] = starts.ravel()[cell] + offset
    lane = lane[leader]
    trips = chunks.sum(axis=1).tolist()
    blocks = [Block(scope.components[k], int(width[k]), trips[k]) for k in present]
    return _with_rows(scope, tiling, Schedule(blocks, lane, {}, _NO_ROWS, {}))


def _with_rows(scope: Scope, tiling: Tiling, plan: Schedule) -> Schedule:
    """Say where in its pool each node's rows are, as its lane has it."""
    used: dict[int, int] = {}
    base = np.zeros(len(scope.loop_of), np.int64)
    for block in plan.blocks:
        size = block.trips * block.width
        for macro in block.component.macros:
            pool = scope.pools[macro]
            base[macro] = plan.base[macro] = used.get(pool, 1)
            used[pool] = plan.base[macro] + size
        used[lanes_key(block.component)] = size
    plan.row = np.append(base[tiling.macro_of] + plan.lane, 0)
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


def _widths(scope: Scope, counts: np.ndarray, present: list[int]) -> np.ndarray:
    """Lanes in a trip of each component that is present; 1 for others.

    `counts` are the lanes of each iteration, ``[component, iteration]``. A settled
    width is kept if it is near to what costs least.
    """
    bodies = [wiring(scope, scope.components[k]).body for k in present]
    width = np.ones(len(counts), np.int64)
    trip, patience = np.zeros((2, len(counts)), np.int64)
    fresh = {body for body in bodies if body not in _settled}
    for k, body in zip(present, bodies, strict=True):
        width[k] = _settled.get(body, 1)
        if body.largest <= LARGE:
            trip[k], patience[k] = TRIP_COST, PATIENCE
    cost = (-(-counts // width[:, None])).sum(axis=1) * (trip + width)
    least = counts.sum(axis=1) + trip * (counts > 0).sum(axis=1)  # of all widths
    dear = cost > 2 * least + patience
    for k, body in zip(present, bodies, strict=True):
        if dear[k] or body in fresh:
            lanes = counts[k][counts[k] > 0].tolist()
            width[k] = _width(body, scope.components[k].cyclic, lanes)
    return width


def _width(body: Body, cyclic: bool, counts: list[int]) -> int:
    """The width that costs least, or the settled one if that is near."""
    large = body.largest > LARGE
    trip, patience = (0, 0) if large else (TRIP_COST, PATIENCE)
    widths: tuple[int, ...] = LOOP_WIDTHS if cyclic else WIDTHS
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
