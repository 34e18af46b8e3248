"""How many lanes a trip has: what costs least, until something else is much cheaper."""

import numpy as np
import pytest

from dynetjax.engine.plan import widths
from dynetjax.engine.plan.widths import WidthChoice

from ...backends import on_cpu

pytestmark = on_cpu


def cost(choice, width, levels):
    """Trips of so many lanes, each with its own cost, level by level."""
    return sum(int(np.ceil(n / width)) for n in levels) * (choice.trip_cost + width)


@pytest.mark.parametrize("cyclic", [False, True])
@pytest.mark.parametrize("levels", [[1] * 9, [5, 5, 2], [300], [70] * 4, [1, 200, 3]])
def test_the_first_width_costs_least(cyclic, levels):
    choice = WidthChoice(cyclic, 100)
    found = choice.width_for(levels)
    assert found in choice.widths
    every = [cost(choice, width, levels) for width in choice.widths]
    assert cost(choice, found, levels) == min(every)


def test_a_settled_width_is_kept_while_it_is_near():
    choice = WidthChoice(True, 100)
    assert choice.width_for([1] * 20) == 1
    assert choice.width_for([2] * 5) == 1  # 10 trips of 9 for 5 of 10
    wide = choice.width_for([64] * 20)
    assert wide == 64
    assert choice.width_for([1]) == 64  # a trip of 72 for 9, within its patience
    assert choice.width_for([1] * 40) == 1


def test_without_lanes_it_is_what_was_settled_or_the_least():
    choice = WidthChoice(True, 100)
    assert choice.width_for([]) == min(choice.widths)
    choice.width_for([16] * 30)
    assert choice.width_for([]) == choice.settled == 16


def test_large_rows_waste_no_lanes():
    choice = WidthChoice(True, widths.LARGE + 1)
    assert choice.widths == widths.LARGE_WIDTHS
    assert choice.width_for([3] * 9) == 1
