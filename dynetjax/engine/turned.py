"""Weights that were turned over for one run, for those that follow."""

import weakref
from typing import Any

from dynetjax.engine.program import turn_over
from dynetjax.lazy import at_first_call, jax

Array = Any

_known: dict[int, tuple[weakref.ref, Array]] = {}  # by the weight's id, while it lives


def turned_over(weights: list[Array]) -> list[Array]:
    """Each of them laid out as `turn_over` does; those that are new in one call."""
    found = [_known.get(id(weight)) for weight in weights]
    if None in found:
        new = [w for w, known in zip(weights, found, strict=True) if known is None]
        for weight, turned in zip(new, _turn_over(new), strict=True):
            _remember(weight, turned)
        found = [_known[id(weight)] for weight in weights]
    return [known[1] for known in found if known is not None]


def _remember(weight: Array, turned: Array) -> None:
    number = id(weight)
    gone = weakref.ref(weight, lambda _: _known.pop(number, None))
    _known[number] = gone, turned


@at_first_call(lambda f: jax.jit(f))
def _turn_over(weights: list[Array]) -> list[Array]:
    return [turn_over(weight) for weight in weights]
