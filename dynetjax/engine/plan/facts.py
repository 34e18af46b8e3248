"""What the planner is told: facts of a program family, and addresses in a program.

Arrays are int32 unless said otherwise.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


def ints(numbers: Sequence[int]) -> np.ndarray:
    """Numbers as the planner takes them."""
    return np.array(numbers, np.int32)


def offsets(lists: Sequence[Sequence[int]]) -> np.ndarray:
    """Where each list begins if all are put one after the other, and where they end."""
    bounds = np.zeros(len(lists) + 1, np.int32)
    np.cumsum([len(one) for one in lists], out=bounds[1:])
    return bounds


@dataclass(slots=True)
class Facts:
    """What a program family knows of its ops, which it numbers from 0.

    Attributes:
        component: of each op.
        cyclic: of each component, whether it is a loop.
        first, groups: where an op's leaves begin, and of each leaf the group of leaves
            that read alike; what takes any number of rows has one leaf.
        aligned: of each leaf, whether it is taken to read the same lane of the same
            trip, so that it needs no column.
        known: ``[groups, ops]``, uint8: whether a group reads rows of an op.
    """

    component: np.ndarray
    cyclic: np.ndarray
    first: np.ndarray
    groups: np.ndarray
    aligned: np.ndarray
    known: np.ndarray


@dataclass(slots=True)
class Addresses:
    """Where an index buffer has the columns of each op, of one number per lane.

    Attributes:
        valid: of each op, which lanes are real.
        first, leaves: where an op's leaves begin, and of each leaf the rows that are
            read, -1 where it is aligned; what takes any number of rows has as many as
            it takes at most.
    """

    valid: np.ndarray
    first: np.ndarray
    leaves: np.ndarray
