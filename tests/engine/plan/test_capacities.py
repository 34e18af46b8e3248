"""Sizes of the arrays in a program: few of them, and none much too large."""

import numpy as np
import pytest

import dynetjax as dy
from dynetjax.engine.plan.capacities import (
    LEAST,
    LEAST_OF_LOOP,
    SMALL_BYTES,
    Capacities,
    Row,
    rounded,
)
from dynetjax.graph import current_graph

from ...backends import on_cpu


@pytest.mark.parametrize("row_bytes", [4, 512, 40_000])
def test_a_size_fits_and_is_not_much_too_large(row_bytes):
    row = Row(row_bytes)
    least = rounded(1, row)
    for rows in [1, LEAST, LEAST + 1, 300, 5000, 70_000]:
        room = rounded(rows, row)
        large = rows * row_bytes > SMALL_BYTES
        assert rows <= room
        assert room <= (2 if large else 4) * rows or room == least


def test_chunks_of_lanes_divide_every_size():
    assert all(rounded(n, Row(4)) % LEAST == 0 for n in range(1, 5000, 7))


def test_known_sizes_are_taken_again():
    capacities, rows = Capacities(), {0: Row(400), 1: Row(4)}
    large = capacities.settle({0: 400, 1: 70}, rows)
    assert large == {0: 1024, 1: 2048}
    assert capacities.settle({0: 190, 1: 20}, rows) is large
    assert capacities.settle({0: 20}, rows) is large


def test_what_is_small_has_room_to_spare():
    capacities, rows = Capacities(), {0: Row(40_000), 1: Row(8)}
    capacities.settle({0: 5000, 1: 100}, rows)
    sizes = capacities.settle({0: 5000, 1: 100}, rows)
    assert sizes[0] == 8192
    assert capacities.settle({0: 5000, 1: 4000}, rows) == sizes


def test_a_small_graph_does_not_pay_for_one_that_was_large():
    capacities, rows = Capacities(), {0: Row(40_000)}
    assert capacities.settle({0: 5000}, rows) == {0: 8192}
    assert capacities.settle({0: 100}, rows)[0] <= 256


def test_arrays_grow_together():
    capacities, rows = Capacities(), {0: Row(40_000), 1: Row(30_000)}
    assert capacities.settle({0: 1000, 1: 1010}, rows) == {0: 1024, 1: 1024}
    assert capacities.settle({0: 1000, 1: 1030}, rows) == {0: 2048, 1: 2048}
    assert capacities.settle({0: 1030, 1: 1000}, rows) == {0: 2048, 1: 2048}


def test_only_what_is_filling_up_grows_with_another():
    capacities, rows = Capacities(), dict.fromkeys(range(3), Row(400))
    assert capacities.settle({0: 240, 1: 160, 2: 80}, rows) == {0: 256, 1: 256, 2: 256}
    grown = {0: 1024, 1: 1024, 2: 256}
    assert capacities.settle({0: 280, 1: 160, 2: 80}, rows) == grown


def test_loops_have_more_room_at_first():
    capacities, rows = Capacities(), {0: Row(400, LEAST_OF_LOOP), 1: Row(400)}
    assert capacities.settle({0: 240, 1: 120}, rows) == {0: 512, 1: 256}


@pytest.mark.parametrize("row_bytes", [512, 40_000])
def test_graphs_of_all_lengths_settle_on_few_sizes(row_bytes):
    capacities, rng = Capacities(), np.random.default_rng(1)
    each = {0: Row(row_bytes), 1: Row(row_bytes), 2: Row(4), -1: Row(800)}
    seen = set()
    for _ in range(2000):
        length = int(rng.integers(1, 3000))
        needed = {0: length, 1: length + 64, 2: length // 8 + 1, -1: length}
        found = capacities.settle(needed, each)
        assert all(found[k] >= n for k, n in needed.items())
        seen.add(tuple(found.values()))
    assert len(seen) <= 7


def loops_of(run):
    """The label and the width of each loop that runs."""
    layout = run.layout
    return [
        (layout.program.code.labels[k], layout.program.widths[k])
        for k, trips in enumerate(layout.trips)
        if trips and layout.family.cyclic[k]
    ]


def test_components_that_compute_the_same_on_as_many_lanes_have_one_width():
    """From their first graph on: another width would be another program."""
    pc = dy.ParameterCollection()
    lstms = [dy.VanillaLSTMBuilder(1, 13, 13, pc) for _ in range(2)]
    dy.renew_cg()
    xs = [dy.inputVector([0.1] * 13) for _ in range(9)]
    last = [lstm.initial_state().transduce(xs)[-1] for lstm in lstms]
    dy.dot_product(*last).value()
    (run,) = current_graph().state.parts
    (one, width), (other, other_width) = loops_of(run)
    assert one == other
    assert width == other_width


@on_cpu
def test_components_that_compute_the_same_in_other_places_have_their_own_widths():
    """A chain has trips of one lane, whatever branches beside it; in all models."""
    widths, compiled = [], []
    for _ in range(2):
        pc = dy.ParameterCollection()
        chain, branches = (dy.VanillaLSTMBuilder(1, 14, 14, pc) for _ in range(2))
        before = dy.stats().programs
        for length in (9, 10):  # another structure, so that it is planned anew
            dy.renew_cg()
            xs = [dy.inputVector([0.1] * 14) for _ in range(length)]
            ends = [chain.initial_state().transduce(xs)[-1]]
            ends += [branches.initial_state().transduce(xs)[-1] for _ in range(16)]
            dy.squared_norm(dy.esum(ends)).value()
        (run,) = current_graph().state.parts
        compiled.append(dy.stats().programs - before)
        loops = [loop for loop in loops_of(run) if "lstm" in loop[0]]
        assert loops[0][0] == loops[1][0]
        widths.append([width for _, width in loops])
    assert sorted(widths[0]) == [1, 16]
    assert widths[1] == widths[0]
    assert compiled[1] == 0 < compiled[0]


@pytest.mark.parametrize("length", [1, 9, 200])
def test_no_component_has_more_lanes_than_rows(length):
    """Gradients of lookups, and what updates make of them, are as long as the lanes."""
    pc = dy.ParameterCollection()
    table = pc.add_lookup_parameters((10, 64))
    lstm = dy.VanillaLSTMBuilder(1, 64, 4, pc)
    dy.renew_cg()
    states = lstm.initial_state().transduce([table[k % 10] for k in range(length)])
    dy.squared_norm(states[-1]).backward()
    (run,) = current_graph().state.parts
    program = run.layout.program
    for body, lanes in zip(program.code.components, program.lanes, strict=True):
        assert lanes <= min(program.rows[op.pool] for op in body)
