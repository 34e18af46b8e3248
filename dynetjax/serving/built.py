"""A function as it was built for certain lengths, and what arguments decide."""

from typing import Any, NamedTuple

import numpy as np

from dynetjax.core.dims import Shape
from dynetjax.core.functions import Description


class Column(NamedTuple):
    """Runtime data of a node.

    Attributes:
        numbers: those of an example.
        places: where each stands in the arguments, one after the other and flat; -1
            for what is part of the program. None where all are.
    """

    numbers: np.ndarray
    places: np.ndarray | None


class Built(NamedTuple):
    """A function as it was built for certain lengths.

    Attributes:
        nodes: operands first; their `source` is a key of the parameters.
        operands: of each node, by their places in `nodes`.
        columns: of each node, its runtime data.
        shapes: of each node, of one batch element.
        result: the node that is the result, by its place; in lists, tuples and dicts as
            the function returned them.
    """

    nodes: list[Description]
    operands: list[list[int]]
    columns: list[list[Column]]
    shapes: list[Shape]
    result: Any
