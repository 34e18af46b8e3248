"""Widths: how many lanes of each op a component runs in a trip.

Few widths are in use, for each is a program of its own. What a component has settled on
is kept as long as it is near to what costs least.
"""

import math
from collections import Counter
from typing import Any

from dynetjax.engine.device import host_sees_device
from dynetjax.engine.ir.fused import FusedOp
from dynetjax.engine.plan.family import Family
from dynetjax.engine.runtime import RUNTIME

LOOP_WIDTHS = (1, 2, 4, 16, 64, 256)
WIDTHS = (16, 32, 256)  # of a component that runs once
FAR_LOOP_WIDTHS = 16, 64, 256, 1024  # on a device beside the host
FAR_WIDTHS = 256, 512, 1024, 2048
LARGE_WIDTHS = (1, 4, 16, 64)  # where a lane is as much work as a small program
MANY, LARGE = 1 << 11, 1 << 14  # numbers in a row
TRIP_COST = 8  # of a trip of a loop, in lanes
FAR_TRIP_COST = 2048  # on a device beside the host, unless that many lanes have more
FAR_NUMBERS = 1 << 20  # numbers than these
PATIENCE = 64  # lanes lost, besides twice the cost, before a settled width changes


class WidthChoice:
    """Settles on the width of a component, whatever its parameters.

    Args:
        cyclic: whether it is a loop.
        largest: how many numbers the largest of its results has.

    Attributes:
        widths: those that there are for it.
        trip_cost: what a trip costs besides its lanes.
        patience: lanes lost before a settled width changes.
        settled: the width that it has settled on; 0 before.
    """

    __slots__ = ("patience", "settled", "trip_cost", "widths")

    def __init__(self, cyclic: bool, largest: int):
        self.settled: int = 0
        self.trip_cost: int = TRIP_COST
        self.patience: int = PATIENCE
        self.widths: tuple[int, ...] = LOOP_WIDTHS if cyclic else WIDTHS
        if not host_sees_device():
            self.widths = FAR_LOOP_WIDTHS if cyclic else FAR_WIDTHS
            self.trip_cost = min(FAR_TRIP_COST, FAR_NUMBERS // largest)
            if not cyclic and largest > MANY:
                self.widths = FAR_WIDTHS[:2]
        elif largest > LARGE:
            self.trip_cost = self.patience = 0
        if largest > LARGE:
            self.widths = LARGE_WIDTHS

    def width_for(self, levels: list[int]) -> int:
        """The width for so many lanes in each level: what is settled, or costs least.

        It is the least one where there are none.
        """
        if not levels:
            return self.settled or self.widths[0]
        least = sum(levels) + self.trip_cost * len(levels)  # of all widths
        limit = 2 * least + self.patience
        if not self.settled or self._cost(self.settled, levels) > limit:
            cost = {width: self._cost(width, levels) for width in self.widths}
            best = max(w for w in cost if cost[w] == min(cost.values()))
            if cost.get(self.settled, math.inf) > 2 * cost[best] + self.patience:
                self.settled = best
        return self.settled

    def _cost(self, width: int, levels: list[int]) -> int:
        trips = sum([(n + width - 1) // width for n in levels])
        return trips * (self.trip_cost + width)


def width_choices(family: Family) -> list[WidthChoice]:
    """The choice of each component."""
    if not family.width_choices:
        cyclic = family.cyclic
        older: Counter[tuple[Any, ...]] = Counter()
        places: dict[int, WidthChoice] = {}
        for k in sorted(range(len(cyclic)), key=lambda k: family.components[k]):
            fused_ops = [family.ops[op] for op in family.components[k]]
            ops = tuple([op.computes for op in fused_ops])
            largest = max(math.prod(s) for op in fused_ops for s in _shapes(op))
            key = ops, older[ops], cyclic[k], largest
            places[k] = RUNTIME.width_choices.setdefault(
                key, WidthChoice(cyclic[k], largest)
            )
            older[ops] += 1
        family.width_choices = [places[k] for k in range(len(cyclic))]
    return family.width_choices


def _shapes(op: FusedOp) -> list[tuple[int, ...]]:
    return [op.shape, *[step.signature.shape for step in op.steps]]
