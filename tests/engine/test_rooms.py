"""Sizes of the arrays in a program: few of them, and none much too large."""

import numpy as np
import pytest

from dynetjax.engine.rooms import LEAST, Rooms, rounded


@pytest.mark.parametrize("row_bytes", [4, 512, 40_000])
def test_a_size_fits_and_is_not_much_too_large(row_bytes):
    for rows in [1, LEAST, LEAST + 1, 300, 5000, 70_000]:
        room = rounded(rows, row_bytes)
        assert room >= rows
        large = rows * row_bytes > 4 << 20
        least = rounded(1, row_bytes)
        assert room <= (2 if large else 4) * rows or room == least


def test_widths_divide_every_size():
    assert all(rounded(n, 4) % LEAST == 0 for n in range(1, 5000, 7))


def test_known_sizes_are_taken_again():
    rooms, row_bytes = Rooms(), {0: 400, 1: 4}
    large = rooms.settle({0: 200, 1: 70}, row_bytes)
    assert large == {0: 256, 1: 1024}
    assert rooms.settle({0: 90, 1: 20}, row_bytes) is large
    assert rooms.settle({0: 20}, row_bytes) is large


def test_a_small_graph_does_not_pay_for_one_that_was_large():
    rooms, row_bytes = Rooms(), {0: 40_000}
    assert rooms.settle({0: 5000}, row_bytes) == {0: 8192}
    assert rooms.settle({0: 100}, row_bytes)[0] <= 256


def test_any_graphs_settle_on_few_sizes():
    rooms, rng = Rooms(), np.random.default_rng(1)
    row_bytes = {0: 512, 1: 512, 2: 4, -1: 800}
    seen = set()
    for _ in range(2000):
        needed = {k: int(rng.integers(1, 400)) for k in row_bytes}
        found = rooms.settle(needed, row_bytes)
        assert all(found[k] >= n for k, n in needed.items())
        seen.add(tuple(found.values()))
    assert len(seen) <= 8
