"""Which rules the executor in C++ has a loop for; see ``engine/native/rules.inc``.

A loop is two to three times as fast as byte code, which runs any other rule.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from dynetjax.lazy import optax

Make: TypeAlias = "Callable[..., optax.GradientTransformationExtraArgs]"


class Loop(NamedTuple):
    """A loop, by name, and the numbers of the rule that it runs."""

    name: str
    numbers: tuple[float, ...]


_loops: dict[Any, Loop] = {}


def runs_as(name: str) -> Callable[[Make], Make]:
    """Have the loop of this name run a rule, made of the numbers that the loop takes.

    The loop knows the leaves of the rule's state, in their order. Of the same numbers
    the rule is made once.
    """

    def decorate(make: Make) -> Make:
        @functools.cache
        @functools.wraps(make)
        def made(*numbers: float) -> "optax.GradientTransformationExtraArgs":
            rule = make(*numbers)
            _loops[rule] = Loop(name, numbers)
            return rule

        return made

    return decorate


def loop_of(rule: Any) -> Loop | None:
    """What runs a rule; None if nobody said."""
    return _loops.get(rule)
