"""The planner, in Python and in C++: lanes, rows and what stands in index buffers."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pytest

from dynetjax.engine.plan.facts import Addresses, Facts, ints, offsets
from dynetjax.engine.plan.flat import COPIES, ONE_BY_ONE, SUMS
from dynetjax.native import core

from .planner import FlatGraph

KINDS = {"Python": FlatGraph, "C++": core.FlatGraph}
FAN_IN = 3
NOTHING = -1  # zeros, which are no node
planners = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


@dataclass
class Ops:
    """Fused ops of a made-up family: how nodes read, components, leaves.

    A fused op has the number of its op and 100.
    """

    component: list[int]
    cyclic: list[bool]
    leaves: list[int]
    forms: dict[int, int] = field(default_factory=dict)
    aligned: set[tuple[int, int]] = field(default_factory=set)

    def read_by(self, number):
        return self.forms.get(number - 100, ONE_BY_ONE)

    def facts(self):
        first = offsets([[0] * count for count in self.leaves])
        aligned = [
            int((op, k) in self.aligned)
            for op, count in enumerate(self.leaves)
            for k in range(count)
        ]
        groups = range(len(aligned))
        known = np.zeros((len(aligned), len(self.component)), np.uint8)
        return Facts(
            ints(self.component), ints(self.cyclic), first, ints(groups), ints(aligned),
            known,
        )  # fmt: skip

    def addresses(self, lanes):
        """Columns of so many lanes: of each op which are real, then of its leaves."""
        valid, leaves, at = [], [], 0
        for op, count in enumerate(self.leaves):
            several = FAN_IN if self.forms.get(op) == SUMS else count
            valid.append(at)
            columns = range(1, several + 1)
            leaves.append(
                [-1 if (op, k - 1) in self.aligned else at + lanes * k for k in columns]
            )
            at += lanes * (1 + several)
        flat = [column for columns in leaves for column in columns]
        return Addresses(ints(valid), offsets(leaves), ints(flat)), at


class Node(NamedTuple):
    """The arguments of `StoredNodes.add`."""

    fused: int
    lanes: int
    reads: tuple[int, ...]
    data: tuple[int, ...] = ()
    index: int = 0


def node(op, *reads, lanes=1, data=()):
    """A stored node."""
    return Node(100 + op, lanes, reads, data)


def stored(nodes):
    """The `StoredNodes` of these."""
    made = core.StoredNodes()
    for about in nodes:
        made.add(*about)
    return made


def planner(kind, ops, nodes, start=0, imports=()):
    """The flat graph of some nodes; `imports` has the op that stands for another."""
    found = kind(
        nodes if isinstance(nodes, core.StoredNodes) else stored(nodes),
        start,
        ops.read_by,
        lambda number: 100 + dict(imports)[number - 100],
    )
    found.bind([number - 100 for number in found.fused])
    return found


def numbers(buffer: Any) -> list[int]:
    """What the planner returns as a buffer."""
    return np.frombuffer(buffer, np.int32).tolist()


def positions(flat, op):
    return numbers(flat.nodes(op)[1])


CHAIN = Ops([0, 1], [False, True], [0, 1])


@planners
def test_a_chain(kind):
    """A loop of a trip for each step; its first lanes are rows from its base on."""
    flat = planner(kind, CHAIN, [node(0), node(1, 0), node(1, 1), node(1, 2)])
    facts = CHAIN.facts()
    assert (flat.count, flat.older, flat.fused) == (4, [], [100, 101])
    assert sorted(flat.edges(facts)) == [(0, 0), (0, 1)]
    assert flat.edges(facts) == []  # they are known now
    assert flat.levels(facts) == [[1], [1, 1, 1]]
    assert flat.place(facts, [16, 1]) == [1, 3]
    addresses, size = CHAIN.addresses(4)
    buffer = np.full(size, 9, np.int32)
    flat.write(addresses, [1, 17], buffer)
    assert buffer.tolist() == [1, 9, 9, 9, 1, 1, 1, 9, 1, 17, 18, 9]
    assert [flat.row(n) for n in range(4)] == [1, 17, 18, 19]
    assert flat.rows(2) == [1, 3]


@planners
def test_ops_of_a_trip_run_in_order(kind):
    """What reads an earlier op of its loop runs in the same trip, else in the next."""
    ops = Ops([0, 0], [True], [1, 1])
    several = [node(0, NOTHING), node(1, 0), node(0, 1), node(1, 2)]
    flat = planner(kind, ops, several)
    assert flat.levels(ops.facts()) == [[1, 1]]
    assert flat.place(ops.facts(), [1]) == [2]
    backwards = [node(1, NOTHING), node(0, 0), node(1, 1), node(0, 2)]
    assert planner(kind, ops, backwards).place(ops.facts(), [1]) == [3]


@planners
def test_lanes_of_a_trip_are_limited(kind):
    """Five chains of two steps, two lanes a trip: first steps fill three trips."""
    several = [node(0), *[node(1, 0) for _ in range(5)]]
    several += [node(1, 1 + k) for k in range(5)]
    flat = planner(kind, CHAIN, several)
    assert flat.levels(CHAIN.facts()) == [[1], [5, 5]]
    assert flat.place(CHAIN.facts(), [16, 2]) == [1, 5]
    assert positions(flat, 1) == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]


@planners
def test_what_is_ready_early_fills_empty_lanes(kind):
    """A second chain runs beside the first, although it was made after it."""
    several = [node(0), node(1, 0), node(1, 1), node(1, 2), node(1, 0), node(1, 4)]
    flat = planner(kind, CHAIN, several)
    assert flat.place(CHAIN.facts(), [16, 2]) == [1, 3]
    assert positions(flat, 1) == [0, 2, 4, 1, 3]


@planners
def test_a_batch_that_is_wider_than_a_trip(kind):
    """It takes trips of its own; what reads it waits for the last."""
    several = [node(0), node(1, 0), node(1, 0, lanes=5), node(1, 2, lanes=5)]
    several += [node(1, 0)]
    flat = planner(kind, CHAIN, several)
    assert flat.levels(CHAIN.facts()) == [[1], [7, 5]]
    assert flat.place(CHAIN.facts(), [16, 2]) == [1, 7]
    assert positions(flat, 1) == [0, 2, 8, 1]


@planners
def test_lanes_outside_of_loops_follow_one_another(kind):
    several = [node(0, lanes=3), node(0), node(0, lanes=14)]
    flat = planner(kind, CHAIN, several)
    assert flat.place(CHAIN.facts(), [16, 1]) == [2, 0]
    assert positions(flat, 0) == [0, 3, 4]
    assert numbers(flat.nodes(0)[2]) == [3, 1, 14]


@planners
def test_batches_and_elements(kind):
    """Of a batch each lane reads its element; one row serves all lanes."""
    ops = Ops([0, 1, 2, 3], [False] * 4, [0, 2, 1, 1], {2: SUMS, 3: COPIES})
    several = [
        node(0, lanes=3),
        node(0),
        node(1, 0, 1, lanes=3),
        node(2, 0, 0, data=(2, 0)),
        node(2, 0, 1, lanes=3),
        node(3, 0, 1, lanes=4),
        node(3, 0, lanes=2, data=[1, 1]),
    ]
    flat = planner(kind, ops, several)
    flat.place(ops.facts(), [16] * 4)
    addresses, size = ops.addresses(8)
    buffer = np.zeros(size, np.int32)
    flat.write(addresses, [1, 20, 30, 40], buffer)
    columns = buffer.reshape(-1, 8).tolist()
    assert columns[0] == [1, 1, 1, 1, 0, 0, 0, 0]
    assert columns[1:4] == [
        [1, 1, 1, 0, 0, 0, 0, 0],
        [1, 2, 3, 0, 0, 0, 0, 0],
        [4, 4, 4, 0, 0, 0, 0, 0],
    ]
    assert columns[4:8] == [
        [1, 1, 1, 1, 0, 0, 0, 0],
        [3, 1, 2, 3, 0, 0, 0, 0],
        [1, 4, 4, 4, 0, 0, 0, 0],
        [0] * 8,
    ]
    assert columns[8:] == [[1] * 6 + [0, 0], [1, 2, 3, 4, 2, 2, 0, 0]]


@planners
def test_runtime_data_that_picks_nothing(kind):
    """That of an op which computes is not taken for batch elements."""
    ops = Ops([0, 1], [False, False], [0, 1])
    flat = planner(kind, ops, [node(0, lanes=2), node(1, 0, lanes=2, data=(77, 1))])
    assert sorted(flat.edges(ops.facts())) == [(0, 0)]
    flat.place(ops.facts(), [4, 4])
    addresses, size = ops.addresses(2)
    buffer = np.zeros(size, np.int32)
    flat.write(addresses, [1, 10], buffer)
    assert buffer.tolist() == [1, 1, 1, 1, 1, 2]


@planners
def test_a_later_part_imports_what_it_reads(kind):
    """Op 2 stands for rows of op 1; what nothing reads is no part of it."""
    ops = Ops([0, 1, 2], [False, True, False], [0, 1, 0])
    several = [node(0), node(1, 0), node(1, 1), node(1, 2), node(1, 1)]
    flat = planner(kind, ops, several, start=3, imports={1: 2})
    assert (flat.count, flat.older, flat.fused) == (2, [1, 2], [101, 102])
    assert sorted(flat.edges(ops.facts())) == [(0, 2)]
    flat.place(ops.facts(), [4, 4, 4])
    addresses, size = ops.addresses(4)
    buffer = np.zeros(size, np.int32)
    flat.write(addresses, [0, 1, 10], buffer)
    assert buffer.reshape(-1, 4).tolist() == [
        [0] * 4, [1, 1, 0, 0], [11, 10, 0, 0], [1, 1, 0, 0],
    ]  # fmt: skip


PAIR = Ops([0, 1, 1], [False, True], [0, 1, 1], aligned={(2, 0)})


@planners
def test_aligned_leaves(kind):
    """Op 2 reads op 1 in the same lane of the same trip, as long as that is so."""
    steps = [node(0), node(1, 0), node(2, 1), node(1, 2), node(2, 3)]
    flat = planner(kind, PAIR, steps)
    flat.place(PAIR.facts(), [16, 1])
    assert flat.unaligned(PAIR.facts()) == []
    addresses, size = PAIR.addresses(4)
    buffer = np.zeros(size, np.int32)
    flat.write(addresses, [1, 2, 6], buffer)
    assert (buffer[addresses.leaves[0] :][:2]).tolist() == [1, 6]
    for wrong in [node(2, 1)], [node(2, NOTHING)], [node(2, 1, lanes=2)]:
        flat = planner(kind, PAIR, steps + wrong)
        flat.place(PAIR.facts(), [16, 2])
        assert flat.unaligned(PAIR.facts()) == [(2, 0)]


@planners
def test_lanes_of_what_a_root_is_not_made_of(kind):
    several = [node(0), node(1, 0), node(1, 1), node(1, 1), node(0)]
    flat = planner(kind, CHAIN, several)
    flat.place(CHAIN.facts(), [16, 1])
    assert flat.unused(2) == [3, 4]
    addresses, size = CHAIN.addresses(4)
    buffer = np.zeros(size, np.int32)
    flat.write(addresses, [1, 17], buffer)
    flat.clear(flat.unused(2), addresses, buffer)
    assert buffer.tolist() == [1, 0, 0, 0, 1, 1, 0, 0, 1, 17, 0, 0]
    assert flat.unused(4) == [0, 1, 2, 3]


def drawn(rng):
    """A family with two loops, and a graph of it."""
    ops = Ops(
        component=[0, 1, 1, 2, 3, 3, 3, 4],
        cyclic=[False, True, False, True, False],
        leaves=[0, 2, 1, 2, 2, 1, 3, 1],
        forms={7: COPIES},
    )
    nodes, of = [], []
    for number in range(int(rng.integers(2, 60))):
        lanes = int(rng.choice([1, 1, 1, 2, 5, 9]))
        op = int(rng.integers(8)) if number else 0
        readable = [
            n
            for n in range(number)
            if ops.component[of[n]] < ops.component[op]
            or (
                ops.component[of[n]] == ops.component[op]
                and ops.cyclic[ops.component[op]]
            )
        ]
        fitting = [n for n in readable if nodes[n].lanes in (1, lanes)] + [NOTHING]
        read = [int(rng.choice(fitting)) for _ in range(ops.leaves[op])]
        if op == 7:
            read = [int(rng.choice(readable))] if readable else []
            lanes = nodes[read[0]].lanes if read else 1
            if not read:
                op = 0
        nodes.append(node(op, *read, lanes=lanes))
        of.append(op)
    return ops, nodes, of


def check_order(ops, nodes, of, flat, trips, widths):
    """Run the trips: whatever a lane reads was computed before, and by one node."""
    at = {
        n: p
        for op in range(8)
        for n, p in zip(*map(numbers, flat.nodes(op)[:2]), strict=True)
    }
    done, lanes_used = set(), set()
    for component, count in enumerate(trips):
        members = [op for op in range(8) if ops.component[op] == component]
        for trip in range(count):
            for op in members:
                for n in [n for n in at if of[n] == op]:
                    lanes = range(at[n], at[n] + nodes[n].lanes)
                    here = [k for k in lanes if k // widths[component] == trip]
                    for k in here:
                        assert (op, k) not in lanes_used
                        lanes_used.add((op, k))
                        for r in nodes[n].reads:
                            assert r == NOTHING or r in done
                    if here and here[-1] == lanes[-1]:
                        done.add(n)
    assert len(done) == len(nodes)


@pytest.mark.parametrize("seed", range(40))
def test_random_graphs(seed):
    """Each trip finds what it reads; both planners say the same."""
    rng = np.random.default_rng(seed)
    ops, nodes, of = drawn(rng)
    widths = [int(w) for w in rng.choice([1, 2, 4, 16], size=5)]
    several, told = stored(nodes), []
    for kind in KINDS.values():
        flat = planner(kind, ops, several)
        facts = ops.facts()
        levels, edges = flat.levels(facts), sorted(flat.edges(facts))
        trips = flat.place(facts, widths)
        check_order(ops, nodes, of, flat, trips, widths)
        lanes = max(t * w for t, w in zip(trips, widths, strict=True))
        addresses, size = ops.addresses(lanes)
        buffer = np.zeros(size, np.int32)
        flat.write(addresses, [1 + lanes * op for op in range(8)], buffer)
        root = int(rng.integers(len(nodes))) if not told else told[0][-1]
        cleared = buffer.copy()
        flat.clear(flat.unused(root), addresses, cleared)
        told.append((levels, edges, trips, buffer.tolist(), cleared.tolist(), root))
    assert all(one == told[0] for one in told)


class TestChecks:
    """What could make C++ read or write outside of its arrays is refused."""

    def made(self, *nodes, ops=CHAIN, **about):
        return planner(core.FlatGraph, ops, [*nodes], **about)

    def test_nodes(self):
        with pytest.raises(ValueError, match="a node reads a later one"):
            self.made(node(0), node(1, 1))
        with pytest.raises(ValueError, match="a node reads a later one"):
            self.made(node(0), node(1, -2))
        with pytest.raises(ValueError, match="a node without rows"):
            self.made(node(0, lanes=0))
        with pytest.raises(ValueError, match="a node reads another batch"):
            self.made(node(0, lanes=2), node(1, 0, lanes=3))
        for start in -1, 2:
            with pytest.raises(ValueError, match="no such node"):
                self.made(node(0), start=start)

    @pytest.mark.parametrize("nodes", [None, [], (), [node(0)]], ids=str)
    def test_what_is_no_stored_nodes(self, nodes):
        with pytest.raises(TypeError, match="no StoredNodes"):
            core.FlatGraph(nodes, 0, CHAIN.read_by, None)

    def test_answers(self):
        several = stored([node(0), node(1, 0)])
        for wrong in -1, 3:
            with pytest.raises(ValueError, match="no such way to read"):
                core.FlatGraph(several, 0, lambda number, x=wrong: x, None)
        with pytest.raises(TypeError, match="integer"):
            core.FlatGraph(several, 0, lambda number: None, None)
        with pytest.raises(TypeError, match="not callable"):
            core.FlatGraph(several, 1, CHAIN.read_by, None)
        with pytest.raises(OverflowError, match="more than 32 bits"):
            core.FlatGraph(several, 1, CHAIN.read_by, lambda number: 1 << 32)

    def test_nodes_that_become_fewer(self):
        """While they are read: what tells how they read others cuts them."""

        def read_by(number):
            several.cut(0)
            return SUMS

        for wrong in node(0, NOTHING), node(0, data=(1,)):
            several = stored([wrong])
            with pytest.raises(IndexError, match="no such node"):
                core.FlatGraph(several, 0, read_by, None)

    def test_elements(self):
        ops = Ops([0, 1, 2], [False] * 3, [0, 1, 1], {1: SUMS, 2: COPIES})
        first = node(0, lanes=3)
        with pytest.raises(ValueError, match="elements for another batch"):
            self.made(first, node(1, 0, data=(0, 1)), ops=ops)
        with pytest.raises(ValueError, match="no such batch element"):
            self.made(first, node(1, 0, data=(3,)), ops=ops)
        with pytest.raises(ValueError, match="elements of several nodes"):
            self.made(first, node(2, 0, 0, data=(0,)), ops=ops)
        with pytest.raises(ValueError, match="rows for another batch"):
            self.made(first, node(2, 0, lanes=2), ops=ops)
        with pytest.raises(ValueError, match="a batch of nothing"):
            self.made(first, node(2, NOTHING), ops=ops)

    def test_facts(self):
        flat = self.made(node(0), node(1, 0))
        with pytest.raises(ValueError, match="bound twice"):
            flat.bind([0, 1])
        with pytest.raises(ValueError, match="a node of an unknown op"):
            flat.levels(Ops([0], [False], [0]).facts())
        with pytest.raises(ValueError, match="an op is in no component"):
            flat.levels(Ops([0, 2], [False, True], [0, 1]).facts())
        with pytest.raises(ValueError, match="a node reads more than its op"):
            flat.levels(Ops([0, 1], [False, True], [0, 0]).facts())
        with pytest.raises(ValueError, match="widths of other components"):
            flat.place(CHAIN.facts(), [1])
        with pytest.raises(ValueError, match="widths of other components"):
            flat.place(CHAIN.facts(), [1, 0])
        wrong = CHAIN.facts()
        wrong.first = ints([0, 3, 1])
        with pytest.raises(ValueError, match="offsets do not fit"):
            flat.levels(wrong)
        wrong.first, wrong.known = CHAIN.facts().first, np.zeros((0, 2), np.uint8)
        with pytest.raises(ValueError, match="no such group"):
            flat.edges(wrong)
        wrong.cyclic = np.zeros(2)
        with pytest.raises(TypeError, match="not of int32"):
            flat.levels(wrong)

    def test_buffers(self):
        flat = self.made(node(0), node(1, 0))
        flat.place(CHAIN.facts(), [1, 1])
        addresses, size = CHAIN.addresses(4)
        small = np.zeros(size - 4, np.int32)
        with pytest.raises(ValueError, match="the index buffer is too small"):
            flat.write(addresses, [0, 0], small)
        with pytest.raises(ValueError, match="the index buffer is too small"):
            flat.clear([1], addresses, small)
        with pytest.raises(ValueError, match="rows of another number of ops"):
            flat.write(addresses, [0], small)
        with pytest.raises(IndexError, match="no such node"):
            flat.clear([2], addresses, small)
        with pytest.raises(IndexError, match="no such node"):
            flat.row(2)
        with pytest.raises(IndexError, match="no such node"):
            flat.unused(-1)
