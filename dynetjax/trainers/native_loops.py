"""Which rules the executor in C++ has a loop for; see ``engine/native/rules.inc``.

A loop is two to three times as fast as byte code, which runs any other rule.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from dynetjax.core.lazy import optax

Make: TypeAlias = "Callable[..., optax.GradientTransformationExtraArgs]"


@dataclass(frozen=True)
class LoopedRule:
    """A rule that a loop runs; optax makes it once something else is to run it.

    Attributes:
        make: makes it of the numbers.
        loop: the name of the loop.
        numbers: of the rule, which the loop takes.
        states: leaves of the state, which begin as zeros.
    """

    make: Make
    loop: str
    numbers: tuple[float, ...]
    states: int

    @functools.cached_property
    def made(self) -> "optax.GradientTransformationExtraArgs":
        """The rule as optax has it."""
        return self.make(*self.numbers)

    def init(self, params: Any) -> Any:
        """The state that `params` begin with."""
        return self.made.init(params)

    def update(self, updates: Any, state: Any, params: Any = None, **named: Any) -> Any:
        """(changes, new state)"""
        return self.made.update(updates, state, params, **named)


Rule: TypeAlias = "optax.GradientTransformationExtraArgs | LoopedRule"


def runs_as(loop: str, states: int) -> Callable[[Make], Callable[..., LoopedRule]]:
    """Have the loop of this name run a rule, made of the numbers that the loop takes.

    The loop knows the leaves of the rule's state, in their order. Of the same numbers
    the rule is made once.
    """

    def decorate(make: Make) -> Callable[..., LoopedRule]:
        @functools.cache
        @functools.wraps(make)
        def rule(*numbers: float) -> LoopedRule:
            return LoopedRule(make, loop, numbers, states)

        return rule

    return decorate
