"""When and where each node is computed: iteration, lane, row.

A node's iteration in a cyclic component is one more than that of the nodes it reads
from pools, and that of the nodes it reads from registers. Nodes linked by registers
share a lane. The lanes of an iteration are cut into chunks of the component's width;
the trips of its loop are the chunks of all iterations. Rows of a macro lie in its
pool trip by trip, lane by lane.
"""

import math
from collections import Counter
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dynetjax.engine.body import Body, wiring
from dynetjax.engine.device import host_sees_device
from dynetjax.engine.facts import Facts
from dynetjax.engine.macros import MACROS
from dynetjax.engine.rooms import LEAST, LEAST_OF_LOOP, Row, Sizes
from dynetjax.engine.structure import Component, Scope
from dynetjax.engine.tiling import Tiling, first_of_each
from dynetjax.ops.registry import IMPORT, INPUT, LOOKUP
from dynetjax.tables import forgets

LOOP_WIDTHS = (1, 2, 4, 16, 64, 256)
WIDTHS = (16, 32, 256)  # of a component that runs once
FAR_LOOP_WIDTHS, FAR_WIDTHS = (16, 256), (256,)  # on a device beside the host
LARGE_WIDTHS = (1, 4, 16, 64)  # where a lane is as much work as a small program
LARGE = 1 << 14  # numbers in a row
TRIP_COST = 8  # of a trip of a loop, in lanes
FAR_TRIP_COST = 256  # on a device beside the host, unless that many lanes have more
FAR_NUMBERS = 1 << 20  # numbers than these
CHEAPER = 8  # kept results than rows of pools
PATIENCE = 64  # lanes lost, besides twice the cost, before a settled width changes

_settled: dict["Place", int] = {}
_NO_ROWS = np.zeros(0, np.int64)
forgets(_settled.clear)


class Place(NamedTuple):
    """A component of a scope, whatever its parameters: who settles on a width.

    Attributes:
        body: what it computes.
        rank: how many others of the scope with this body are older.
    """

    body: Body
    rank: int


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
    leader, unaligned = _leaders(scope, tiling, reads)
    iteration = None if unaligned else _iterations(scope, tiling, reads, leader)
    if iteration is None:
        iteration, misplaced = _iterations_one_by_one(scope, tiling, reads)
        slots = sorted(misplaced | unaligned)
        if slots:
            scope.widen(slots)
            return None
    return _place(scope, tiling, iteration, leader)


def _iterations(
    scope: Scope, tiling: Tiling, reads, leader: np.ndarray
) -> np.ndarray | None:
    """The iteration of each node, if it is its leader's; else None."""
    reader, read = _from_iteration_to_iteration(scope, tiling, reads, leader)
    heads = leader[reader]
    found = [0] * len(tiling)
    own = heads == reader
    for r, s in zip(reader[own].tolist(), read[own].tolist(), strict=True):
        if found[s] >= found[r]:
            found[r] = found[s] + 1
    iteration = np.array(found)
    if np.count_nonzero(iteration[heads] <= iteration[read]):
        return None
    return iteration[leader]


def _iterations_one_by_one(
    scope: Scope, tiling: Tiling, reads
) -> tuple[np.ndarray, set[int]]:
    """The iteration of each node, and register leaves that would need two."""
    reader, slot, read = reads
    inside = _in_one_loop(scope, tiling, reads)
    reader, slot, read = reader[inside], slot[inside], read[inside]
    register = scope.in_register[slot]
    found = [0] * len(tiling)
    steps = (~register).tolist()
    for r, s, step in zip(reader.tolist(), read.tolist(), steps, strict=True):
        found[r] = max(found[r], found[s] + step)
    iteration = np.array(found)
    late = register & (iteration[reader] != iteration[read])
    return iteration, set(slot[late].tolist())


def _from_iteration_to_iteration(
    scope: Scope, tiling: Tiling, reads, leader: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Who reads what of earlier iterations of its loop; of that, its leader."""
    reader, slot, read = reads
    inside = _in_one_loop(scope, tiling, reads) & ~scope.in_register[slot]
    return reader[inside], leader[read[inside]]


def _in_one_loop(scope: Scope, tiling: Tiling, reads) -> np.ndarray:
    """Which reads are of nodes of the reader's own loop."""
    reader, _, read = reads
    loop = scope.loop_of[tiling.macro_of]
    return (loop[reader] >= 0) & (loop[reader] == loop[read])


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
    while np.count_nonzero(following != leader):
        leader, following = following, following[following]
    crooked = leader[reader] != leader[read]
    macro = tiling.macro_of[reader]
    lanes = leader[reader] * (1 + macro.max(initial=0)) + macro
    lanes = lanes[first_of_each(reader)]
    lanes.sort()
    if not np.count_nonzero(crooked) and not np.count_nonzero(lanes[1:] == lanes[:-1]):
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
    (heads,) = (leader == np.arange(len(leader))).nonzero()
    when, size = iteration[heads], tiling.batch[heads]
    span = int(np.maximum.reduce(when, initial=0)) + 1
    key = scope.group_of[tiling.macro_of[heads]] * span + when
    order = key.argsort(kind="stable")
    heads, key, size = heads[order], key[order], size[order]
    begins = first_of_each(key)
    (first,) = begins.nonzero()
    before = size.cumsum() - size
    group, when = np.divmod(key[first], span)
    cell = scope.component_of_group[group] * span + when  # iterations of components
    counts = np.zeros((len(scope.components), span), np.int64)
    np.maximum.at(counts.ravel(), cell, np.add.reduceat(size, first))
    present = np.logical_or.reduce(counts, axis=1).nonzero()[0].tolist()
    width = _widths(scope, counts, present)
    chunks = -(-counts // width[:, None])
    starts = (chunks.cumsum(axis=1) - chunks) * width[:, None]
    lane = np.empty(len(leader), np.int64)  # those of others are their leader's
    lane[heads] = (starts.ravel()[cell] - before[first])[begins.cumsum() - 1] + before
    lane = lane[leader]
    trips = np.add.reduce(chunks, axis=1).tolist()
    blocks = [Block(scope.components[k], int(width[k]), trips[k]) for k in present]
    return _withrows_of(scope, tiling, Schedule(blocks, lane, {}, _NO_ROWS, {}))


def _withrows_of(scope: Scope, tiling: Tiling, plan: Schedule) -> Schedule:
    """Say where in its pool each node's rows are, as its lane has it."""
    used: dict[int, int] = {}
    base = Facts(scope.component_of, 0)
    for block in plan.blocks:
        size = block.trips * block.width
        for macro in block.component.macros:
            pool = scope.pools[macro]
            base[macro] = plan.base[macro] = used.get(pool, 1)
            used[pool] = plan.base[macro] + size
        used[lanes_key(block.component)] = size
    plan.row = np.zeros(len(plan.lane) + 1, np.int64)
    np.add(base[tiling.macro_of], plan.lane, out=plan.row[:-1])
    plan.room = scope.rooms.settle(used, rows_of(scope))
    return plan


def lanes_key(component: Component) -> int:
    """What stands for the lanes of a component among the pools."""
    return -1 - component.macros[0]


def rows_of(scope: Scope) -> dict[int, Row]:
    """What a row of each pool takes, and of a component's lanes.

    What is kept of large results lies in scratch buffers, and costs little but memory.
    """
    if not scope.rows:
        looped = {p for macro, p in scope.pools.items() if scope.loop_of[macro] >= 0}
        for pool in scope.pools.values():
            least = LEAST_OF_LOOP if pool in looped else LEAST
            scope.rows[pool] = Row(4 * math.prod(MACROS[pool].shape), least)
        for component in scope.components:
            steps = [s.signature for m in component.macros for s in MACROS[m].steps]
            sizes = [math.prod(s.shape) for s in steps if s.op.contraction]
            columns = sum(1 + len(MACROS[m].leaves) for m in component.macros)
            kept = max(sizes, default=0) // CHEAPER
            given = [math.prod(MACROS[m].shape) for m in component.macros if _given(m)]
            each = 4 * max(columns, kept, *given)
            least = LEAST_OF_LOOP if component.cyclic else LEAST
            scope.rows[lanes_key(component)] = Row(each, least)
    return scope.rows


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
    places, trip, patience = costs_of(scope)
    settled = [1] * len(counts)
    for k in present:
        settled[k] = _settled.get(places[k], 0)
    width = np.array(settled)
    chunks = -(-counts // np.maximum(width, 1)[:, None])
    add = np.add.reduce
    cost = add(chunks, axis=1) * (trip + width)
    least = add(counts, axis=1) + trip * add(counts > 0, axis=1)  # of all widths
    unsettled = (cost > 2 * least + patience) | (width == 0)
    for k in unsettled.nonzero()[0].tolist():
        lanes = counts[k][counts[k] > 0].tolist()
        width[k] = _width(places[k], scope.components[k].cyclic, lanes)
    return width


def costs_of(scope: Scope) -> tuple[Any, ...]:
    """Of each component, its place and its `_prices`, each as an array."""
    if not scope.costs:
        places = _places(scope)
        prices = np.array([_prices(place.body) for place in places]).T
        scope.costs = places, *prices
    return scope.costs


def _places(scope: Scope) -> list[Place]:
    """The place of each component."""
    several = scope.components
    bodies = [wiring(scope, component).body for component in several]
    found: dict[int, Place] = {}
    older: Counter[Body] = Counter()
    for k in sorted(range(len(several)), key=lambda k: min(several[k].macros)):
        found[k] = Place(bodies[k], older[bodies[k]])
        older[bodies[k]] += 1
    return [found[k] for k in range(len(several))]


def _prices(body: Body) -> tuple[int, int]:
    """Of a component: the cost of a trip, and how long a settled width is kept."""
    if not host_sees_device():
        return min(FAR_TRIP_COST, FAR_NUMBERS // body.largest), PATIENCE
    return (0, 0) if body.largest > LARGE else (TRIP_COST, PATIENCE)


def _width(place: Place, cyclic: bool, counts: list[int]) -> int:
    """The width that costs least, or the settled one if that is near."""
    body = place.body
    trip, patience = _prices(body)
    widths = _choice(body, cyclic)
    cost = {w: sum([-(-n // w) for n in counts]) * (trip + w) for w in widths}
    best = max(w for w in cost if cost[w] == min(cost.values()))
    settled = _settled.get(place, best)
    if cost.get(settled, math.inf) > 2 * cost[best] + patience:
        settled = best
    _settled[place] = settled
    return settled


def _choice(body: Body, cyclic: bool) -> tuple[int, ...]:
    """The widths that there are for a component."""
    if body.largest > LARGE:
        return LARGE_WIDTHS
    if host_sees_device():
        return LOOP_WIDTHS if cyclic else WIDTHS
    return FAR_LOOP_WIDTHS if cyclic else FAR_WIDTHS


def settled_width(scope: Scope, number: int) -> int:
    """The width of a component that has no nodes in a graph, by its number."""
    place = costs_of(scope)[0][number]
    return _settled.get(place, _choice(place.body, cyclic=False)[0])
