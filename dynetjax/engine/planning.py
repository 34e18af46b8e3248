"""The planner's program: what `schedule` and `TapeWriter` do, in loops over numbers.

Planning a small graph with NumPy takes as long as there are calls of NumPy. Here XLA
compiles it, to one function of a few thousand integers: one pass over the nodes places
them, a second one writes the tape. It decides nothing: what could be otherwise than in
the graphs before is a *misfit*, and then the result is not used.

On a CPU a function with ``xla_cpu_small_call`` is one kernel, its loops included; and
without the pass ``fusion`` none of the arrays that loops change is ever copied. Where
that is not so, NumPy is quicker.
"""

import re
from collections.abc import Callable
from functools import cache, lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dynetjax.engine.apart import can_be_told
from dynetjax.engine.compiling import known_options, quick_options
from dynetjax.engine.device import host, on_host
from dynetjax.engine.kernels import one_kernel_of_cpu
from dynetjax.engine.schedule import LONE
from dynetjax.engine.slices import cut, put
from dynetjax.engine.stats import note_program
from dynetjax.engine.tiling import READS_ONE

Array = Any

SPAN = 256  # iterations of a loop, at most
UNKNOWN, PLAIN, REGISTER, LOOP = range(4)  # how a leaf reads a macro's rows
SCALE = 30  # of costs, which are whole numbers here; see `_trips`
NOWHERE = 0  # on the tape: what belongs nowhere goes here, until all is written
_UNFUSED = {"xla_disable_hlo_passes": "fusion"}

# What is known of every macro, leaf slot and component; see `Planner`.
OF_MACRO = "first", "step", "group", "part", "bit", "valid", "pool", "head"
OF_SLOT = "twin", "leaf", "apart", "held", "pull", "left", "beside"
OF_PART = "width", "trip", "patience", "turning", "lone", "start", "lanes"


class Caps(NamedTuple):
    """For how much a program is made.

    Attributes:
        nodes: of the largest graph; it may read twice as many rows.
        macros: at most, and as many components, pools and columns of runtime data.
        slots: leaf slots.
        tape: numbers on the tape.
    """

    nodes: int
    macros: int
    slots: int
    tape: int


class Slices(NamedTuple):
    """Where columns are; see `slices_of`."""

    facts: dict[str, slice]
    given: dict[str, slice]
    found: dict[str, slice]


@cache
def slices_of(caps: Caps) -> Slices:
    """Where columns are: among the facts, in what is given of a graph, and found."""
    macros, slots, nodes = caps.macros, caps.slots, caps.nodes
    facts = {"counts": 3, "sorts": 1}
    facts |= dict.fromkeys([*OF_MACRO, *OF_PART, "room", "data"], macros)
    facts |= dict.fromkeys(OF_SLOT, slots) | {"reads": slots * macros}
    given = {"count": 1, "amounts": macros, "nothing": 1, "nodes": nodes}
    given |= {"read": 2 * nodes, "of": nodes, "data": nodes}
    found = {"misfits": 1, "trips": macros, "used": macros}
    found |= {"lane": nodes, "row": nodes + 1, "read": nodes, "awake": 1}
    return Slices(*map(_one_after_the_other, (facts, given, found)))


def _one_after_the_other(sizes: dict[str, int]) -> dict[str, slice]:
    stops = np.cumsum([*sizes.values()]).tolist()
    return {
        name: slice(stop - size, stop)
        for (name, size), stop in zip(sizes.items(), stops, strict=True)
    }


class _Graph(NamedTuple):
    """The arrays that are given, and where what is in them begins."""

    given: Array
    facts: Array
    at: dict[str, int]
    known: dict[str, int]

    def of(self, name: str, k: Array) -> Array:
        """What is given of a node, a read or an entry of runtime data."""
        return _at(self.given, k + self.at[name])

    def macro(self, n: Array) -> Array:
        """A node's macro; the node -1 is NOTHING, which has one, too."""
        return lax.rem(self.of("nodes", n), _READS_ONE)

    def reads(self, n: Array) -> Array:
        """How many rows a node reads."""
        return lax.div(self.of("nodes", n), _READS_ONE)

    def fact(self, name: str, k: Array) -> Array:
        """What is known of a macro, slot, component, pool or column."""
        return _at(self.facts, k + self.known[name])


@lru_cache(maxsize=16)
def planning(caps: Caps) -> Callable[[Any, Any], tuple[Array, ...]] | None:
    """``(given, facts) -> (tape, last, found)``, compiled; None if XLA does it badly.

    It runs on the host, wherever others do. `last` is the row of the last node.
    """
    if not can_be_told() or host() is None:
        return None
    options = quick_options("cpu") | known_options(_UNFUSED)
    made = partial(jax.jit, partial(_in_one_kernel, caps), compiler_options=options)
    there = on_host()
    run = made(in_shardings=there, out_shardings=there) if there else made()
    note_program(f"plans of graphs of up to {caps.nodes} nodes")
    facts, given, _ = (several.values() for several in slices_of(caps))
    sizes = [max(column.stop for column in several) for several in (given, facts)]
    shapes = [jax.ShapeDtypeStruct((size,), np.int32) for size in sizes]
    program = run.lower(*shapes).compile()  # what comes of it is kept with `run`
    return None if copies_in_loops(program.as_text() or "") else run


def copies_in_loops(program: str) -> bool:
    """Whether XLA's text of a program has loops that copy arrays."""
    loops = set(re.findall(r"body=(%[\w.-]+)", program))
    name = ""
    for line in program.splitlines():
        if line[:1] in ("%", "E"):
            name = line.split()[0]
        elif name in loops and re.search(r"\[\d+\]\S* copy\(", line):
            return True
    return False


def _in_one_kernel(caps: Caps, given: Array, facts: Array) -> tuple[Array, ...]:
    tape, last, found = one_kernel_of_cpu(partial(_plan, caps), given, facts)
    # JAX has what is little work done by whoever asks for it, and not beside it.
    awake = jnp.sum(facts * facts, keepdims=True)
    return tape, last, jnp.concatenate([found, awake])


def _plan(caps: Caps, given: Array, facts: Array) -> tuple[Array, ...]:
    known, at, _ = (
        {name: where.start for name, where in several.items()}
        for several in slices_of(caps)
    )
    graph = _Graph(given, facts, at, known)
    placed = _sorted(graph, caps, _place(graph, caps))
    misfits, begin, trips, tape = _trips(graph, caps, placed)
    misfits, base, used, tape = _bases(graph, caps, misfits, trips, tape)
    misfits, lane, row, tape = _write(graph, caps, placed, misfits, begin, base, tape)
    tape = _fill(graph, lane, tape)
    tape = _put(tape, np.int32(NOWHERE), _at(trips, _ZERO))
    found = [lax.reshape(misfits, (1,)), trips, used, lane, row, placed.read]
    last = _at(row, given[0] - _ONE)
    return tape, last, lax.concatenate(found, 0)


class _Placed(NamedTuple):
    """Of nodes: their leader, which iteration of which component they are in, where
    there, and whether they are read. And of components: lanes by iteration, and
    iterations. `reads` is how many rows all nodes read."""

    misfits: Array
    reads: Array
    leader: Array
    when: Array
    place: Array
    read: Array
    lanes: Array
    span: Array


def _place(graph: _Graph, caps: Caps) -> _Placed:
    """Give every node its iteration, and its place among those of its group.

    The first node of those whose lanes are one is their leader. A node's macro is a bit
    of its leader's `taken`: no two nodes of a macro are in one lane.
    """

    def node(n, state):
        k, misfits, iteration, leader, taken, place, when, used, lanes, span, seen = (
            state
        )
        before = leader, iteration
        k, misfits, mine, least, seen = _follow(
            graph, caps, n, before, (k, misfits, seen)
        )
        macro = graph.macro(n)
        leads = mine < 0
        mine = lax.select(leads, n, mine)
        time = lax.select(leads, lax.min(least, _LAST), _at(iteration, mine))
        bit, bits = graph.fact("bit", macro), _at(taken, mine)
        misfits |= _int((least > time) | ((bit & bits) != 0))
        group = graph.fact("group", macro) + time
        number = _at(used, group)
        more = number + _int(leads)
        part = graph.fact("part", macro)
        here = part * SPAN + time
        return (
            k,
            misfits,
            _put(iteration, n, time),
            _put(leader, n, mine),
            _put(taken, mine, bit | bits),
            _put(place, n, lax.select(leads, number, _at(place, mine))),
            _put(when, n, here),
            _put(used, group, more),
            _put(lanes, here, lax.max(_at(lanes, here), more)),
            _put(span, part, lax.max(_at(span, part), time + 1)),
            seen,
        )

    nodes, times = _zeros(caps.nodes), _zeros(caps.macros * SPAN)
    parts = _zeros(caps.macros)
    state = _ZERO, _ZERO, nodes, nodes, nodes, nodes, nodes, times, times, parts, nodes
    state = lax.fori_loop(_ZERO, graph.given[0], node, state)
    reads, misfits, _, leader, _, place, when, _, lanes, span, seen = state
    return _Placed(misfits, reads, leader, when, place, seen, lanes, span)


def _sorted(graph: _Graph, caps: Caps, placed: _Placed) -> _Placed:
    """Where rows are held, lanes that go on for longest come first."""
    leader, sorts = placed.leader, graph.fact("sorts", _ZERO)
    count = graph.given[0] * sorts
    order = _in_order(_heights(graph, caps, placed, count), caps, count, sorts)

    def node(k, state):
        used, place = state
        n = _at(order, k)
        leads = _int(_at(leader, n) == n)
        time = lax.rem(_at(placed.when, n), np.int32(SPAN))
        group = graph.fact("group", graph.macro(n)) + time
        number = _at(used, group)
        found = lax.select(leads == 1, number, _at(place, n))
        return _put(used, group, number + leads), _put(place, n, found)

    def follow(n, place):
        return _put(place, n, _at(place, _at(leader, n)))

    state = _zeros(caps.macros * SPAN), placed.place
    _, place = lax.fori_loop(_ZERO, count, node, state)
    place = lax.fori_loop(_ZERO, count, follow, place)
    return placed._replace(place=place)


def _heights(graph: _Graph, caps: Caps, placed: _Placed, count: Array) -> Array:
    """How many iterations go on from each node that leads; see `schedule._heights`."""
    leader = placed.leader

    def node(back, state):
        k, height = state
        n = count - 1 - back
        macro = graph.macro(n)
        step = graph.fact("step", macro)
        least = k - graph.reads(n)

        def read(state):
            k, height = state
            k -= 1
            x = graph.of("read", k)
            slot = graph.fact("first", macro) + step * (k - least)
            how = graph.fact("reads", slot * caps.macros + graph.macro(x))
            below = lax.select(how == LOOP, _at(leader, x), _at(leader, n))
            more = _at(height, _at(leader, n)) + _int(how == LOOP)
            return k, _put(height, below, lax.max(_at(height, below), more))

        return lax.while_loop(lambda state: state[0] > least, read, (k, height))

    state = placed.reads, _zeros(caps.nodes)
    return lax.fori_loop(_ZERO, count, node, state)[1]


def _in_order(height: Array, caps: Caps, count: Array, sorts: Array) -> Array:
    """The nodes by height, the highest first; they are counted by it."""

    def rank(n):
        return _LAST - lax.min(_at(height, n), _LAST)

    def tally(n, counts):
        at = rank(n) + 1
        return _put(counts, at, _at(counts, at) + 1)

    def add(k, counts):
        return _put(counts, k + 1, _at(counts, k + 1) + _at(counts, k))

    def node(n, state):
        firsts, order = state
        at = _at(firsts, rank(n))
        return _put(firsts, rank(n), at + 1), _put(order, at, n)

    firsts = lax.fori_loop(_ZERO, count, tally, _zeros(SPAN + 1))
    firsts = lax.fori_loop(_ZERO, SPAN * sorts, add, firsts)
    return lax.fori_loop(_ZERO, count, node, (firsts, _zeros(caps.nodes)))[1]


def _follow(
    graph: _Graph,
    caps: Caps,
    node: Array,
    before: tuple[Array, Array],
    state: tuple[Array, ...],
) -> tuple[Array, ...]:
    """What the rows that a node reads say of its leader, and of its iteration at least.

    `before` has the leaders and iterations of earlier nodes. That of a node that leads
    is -1 here.
    """
    leader, iteration = before
    k, misfits, seen = state
    macro = graph.macro(node)
    end = k + graph.reads(node)
    step = graph.fact("step", macro)

    def read(state):
        k, slot, misfits, mine, least, seen = state
        x = graph.of("read", k)
        how = graph.fact("reads", slot * caps.macros + graph.macro(x))
        other = _at(leader, x)
        follows = how == REGISTER
        twin = graph.of("read", k - graph.fact("twin", slot))
        misfit = (how == UNKNOWN) | (x != twin)
        misfit |= follows & (mine >= 0) & (mine != other)
        after = lax.select(how == LOOP, _at(iteration, other) + 1, _ZERO)
        is_read = lax.select(x < 0, _at(seen, _ZERO), _ONE)
        return (
            k + 1,
            slot + step,
            misfits | _int(misfit),
            lax.select(follows, other, mine),
            lax.max(least, after),
            _put(seen, lax.max(x, _ZERO), is_read),
        )

    state = k, graph.fact("first", macro), misfits, np.int32(-1), _ZERO, seen
    k, _, misfits, mine, least, seen = lax.while_loop(
        lambda state: state[0] < end, read, state
    )
    return k, misfits, mine, least, seen


def _trips(graph: _Graph, caps: Caps, placed: _Placed) -> tuple[Array, ...]:
    """The first lane of each iteration, and the trips, which go on the tape.

    A width that is not near to what costs least is a misfit (`schedule._widths`).
    """

    def part(k, state):
        misfits, begin, trips, tape = state
        width, span = graph.fact("width", k), _at(placed.span, k)

        def iteration(t, state):
            begin, chunks, total = state
            at = k * SPAN + t
            lanes = _at(begin, at)
            # None is below zero. But what is written hangs on what is read: XLA would
            # copy the array if it could do both in any order.
            first = lax.select(lanes < 0, lanes, chunks * width)
            more = lax.div(lanes + width - 1, width)
            return _put(begin, at, first), chunks + more, total + lanes

        state = begin, _ZERO, _ZERO
        begin, chunks, total = lax.fori_loop(_ZERO, span, iteration, state)
        trip = graph.fact("trip", k)
        price = lax.select(width == 1, graph.fact("lone", k), np.int32(SCALE))
        cost = chunks * (trip + width) * price
        least = total + trip * span
        alone = round(SCALE * LONE) * (least + graph.fact("turning", k))
        most = lax.select(width == 1, alone, SCALE * 2 * least)
        misfit = cost > most + SCALE * graph.fact("patience", k)
        misfit |= chunks * width > graph.fact("lanes", k)
        tape = _put(tape, graph.fact("start", k), chunks)
        return misfits | _int(misfit), begin, _put(trips, k, chunks), tape

    state = placed.misfits, placed.lanes, _zeros(caps.macros), _zeros(caps.tape)
    return lax.fori_loop(_ZERO, graph.fact("counts", _ZERO), part, state)


def _bases(
    graph: _Graph, caps: Caps, misfits: Array, trips: Array, tape: Array
) -> tuple[Array, ...]:
    """The first row of each macro, which goes on the tape, and the rows of pools."""

    def first_row(macro, state):
        misfits, base, used, tape = state
        part, pool = graph.fact("part", macro), graph.fact("pool", macro)
        size = _at(trips, part) * graph.fact("width", part)
        before = _at(used, pool)
        first = lax.select(size > 0, before + 1, _ZERO)
        misfit = before + size + 1 > graph.fact("room", pool)
        tape = _put(tape, graph.fact("head", macro), first)
        used = _put(used, pool, before + size)
        return misfits | _int(misfit), _put(base, macro, first), used, tape

    nothing = _zeros(caps.macros)
    count = graph.fact("counts", _ONE)
    return lax.fori_loop(_ZERO, count, first_row, (misfits, nothing, nothing, tape))


def _write(
    graph: _Graph,
    caps: Caps,
    placed: _Placed,
    misfits: Array,
    begin: Array,
    base: Array,
    tape: Array,
) -> tuple[Array, ...]:
    """Lanes and rows, and what the tape says of them.

    Row 0 is that of NOTHING, which is the node after the last.
    """
    nowhere, nothing = np.int32(NOWHERE), np.int32(caps.nodes)

    def node(n, state):
        k, misfits, lane, row, tape = state
        macro = graph.macro(n)
        end = k + graph.reads(n)
        mine = _at(begin, _at(placed.when, n)) + _at(placed.place, n)
        tape = _put(tape, graph.fact("valid", macro) + mine, _ONE)
        row = _put(row, n, _at(base, macro) + mine)
        step = graph.fact("step", macro)

        def read(state):
            k, slot, place, misfits, tape = state
            x = graph.of("read", k)
            found = _at(row, lax.select(x < 0, nothing, x))
            leaf, held = graph.fact("leaf", slot), graph.fact("held", slot)
            here = lax.select(held > 0, lax.rem(mine, lax.max(held, _ONE)), mine)
            at = leaf + graph.fact("apart", slot) * place + here
            at = lax.select(leaf < 0, nowhere, at)
            before = _at(tape, at)
            stays = (held > 0) & (before != 0)
            misfits |= _int((held > 0) & (found == 0) | stays & (before != found))
            tape = _put(tape, at, lax.select(stays, before, found))
            pull = graph.fact("pull", slot)
            pulls = (pull >= 0) & (found > 0)
            there = lax.select(pulls, pull + found, nowhere)
            left = graph.fact("left", slot) + graph.fact("beside", slot) * place + mine
            before = _at(tape, there)
            again = pulls & (before != 0)
            tape = _put(tape, there, lax.select(again, before, left))
            return k + 1, slot + step, place + 1, misfits | _int(again), tape

        state = k, graph.fact("first", macro), _ZERO, misfits, tape
        k, _, _, misfits, tape = lax.while_loop(
            lambda state: state[0] < end, read, state
        )
        return k, misfits, _put(lane, n, mine), row, tape

    state = _ZERO, misfits, _zeros(caps.nodes), _zeros(caps.nodes + 1), tape
    return lax.fori_loop(_ZERO, graph.given[0], node, state)[1:]


def _fill(graph: _Graph, lane: Array, tape: Array) -> Array:
    """Runtime data, column by column."""

    def column(j, state):
        start = graph.fact("data", j)

        def entry(k, tape):
            at = start + _at(lane, graph.of("of", k))
            return _put(tape, at, graph.of("data", k))

        first, tape = state
        end = first + graph.of("amounts", j)
        return end, lax.fori_loop(first, end, entry, tape)

    count = graph.fact("counts", np.int32(2))
    return lax.fori_loop(_ZERO, count, column, (_ZERO, tape))[1]


# Functions of `jax.numpy` would be calls here, for nothing is inlined.
_ZERO, _ONE, _LAST = np.int32(0), np.int32(1), np.int32(SPAN - 1)
_READS_ONE = np.int32(READS_ONE)


def _zeros(count: int) -> Array:
    return lax.full((count,), 0, jnp.int32)


def _int(truth: Array) -> Array:
    return lax.convert_element_type(truth, jnp.int32)


def _at(array: Array, k: Array) -> Array:
    return lax.reshape(cut(array, k, 1), ())


def _put(array: Array, k: Array, what: Array) -> Array:
    return put(array, lax.reshape(what, (1,)), k)
