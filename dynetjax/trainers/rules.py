"""Rules that go number by number: how gradients and state become changes and state.

They are functions of arrays of JAX, traced when something is first to run them. The
executor in C++ runs their byte code, which later processes read from a file: these do
without JAX.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from dynetjax.core.lazy import jnp, optax

State: TypeAlias = tuple[Any, ...]
Update: TypeAlias = Callable[..., tuple[Any, State]]
Make: TypeAlias = Callable[..., Update]


@dataclass(frozen=True)
class RuleOfNumbers:
    """A rule of this package; it looks to others like a transformation of optax.

    Attributes:
        make: makes of the numbers ``(gradients, state, values, *, step, learning_rate)
            -> (changes, state)``.
        numbers: what tells it from others of its kind.
        states: arrays of state, which begin as zeros.
    """

    make: Make
    numbers: tuple[float, ...]
    states: int

    def init(self, values: Any) -> State:
        """The state that some values begin with."""
        return tuple([jnp.zeros_like(values) for _ in range(self.states)])

    @functools.cached_property
    def update(self) -> Update:
        """The rule as a function."""
        return self.make(*self.numbers)


Rule: TypeAlias = "optax.GradientTransformationExtraArgs | RuleOfNumbers"


def rule_of_numbers(states: int) -> Callable[[Make], Callable[..., RuleOfNumbers]]:
    """Declare a rule with so many arrays of state; of the same numbers it is one."""

    def decorate(make: Make) -> Callable[..., RuleOfNumbers]:
        @functools.cache
        @functools.wraps(make)
        def rule(*numbers: float) -> RuleOfNumbers:
            return RuleOfNumbers(make, numbers, states)

        return rule

    return decorate
