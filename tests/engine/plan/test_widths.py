"""How many lanes a trip has: what costs least, until something else is much cheaper."""

import numpy as np
import pytest

from dynetjax.engine.plan import widths
from dynetjax.engine.plan.widths import Place

from ...backends import on_cpu

pytestmark = on_cpu


def cost(place, width, levels):
    """Trips of so many lanes, each with its own cost, level by level."""
    return sum(int(np.ceil(n / width)) for n in levels) * (place.trip_cost + width)


@pytest.mark.parametrize("cyclic", [False, True])
@pytest.mark.parametrize("levels", [[1] * 9, [5, 5, 2], [300], [70] * 4, [1, 200, 3]])
def test_the_first_width_costs_least(cyclic, levels):
    place = Place(cyclic, 100)
    found = place.width_for(levels)
    assert found in place.widths
    every = [cost(place, width, levels) for width in place.widths]
    assert cost(place, found, levels) == min(every)


def test_a_settled_width_is_kept_while_it_is_near():
    place = Place(True, 100)
    assert place.width_for([1] * 20) == 1
    assert place.width_for([2] * 5) == 1  # 10 trips of 9 for 5 of 10
    wide = place.width_for([64] * 20)
    assert wide == 64
    assert place.width_for([1]) == 64  # a trip of 72 for 9, within its patience
    assert place.width_for([1] * 40) == 1


def test_without_lanes_it_is_what_was_settled_or_the_least():
    place = Place(True, 100)
    assert place.width_for([]) == min(place.widths)
    place.width_for([16] * 30)
    assert place.width_for([]) == place.settled == 16


def test_large_rows_waste_no_lanes():
    place = Place(True, widths.LARGE + 1)
    assert place.widths == widths.LARGE_WIDTHS
    assert place.width_for([3] * 9) == 1
