"""Rules of trainers: an optax transformation that is made when something is to run it.

The executor in C++ runs the byte code of a rule, which later processes read from a
file: these need neither JAX nor optax.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from dynetjax.core.lazy import optax

Make: TypeAlias = "Callable[..., optax.GradientTransformationExtraArgs]"


@dataclass(frozen=True)
class RuleOfNumbers:
    """A rule of this package, whose state begins as zeros.

    Attributes:
        make: makes it of the numbers.
        numbers: what tells it from others of its kind.
    """

    make: Make
    numbers: tuple[float, ...]

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


Rule: TypeAlias = "optax.GradientTransformationExtraArgs | RuleOfNumbers"


def rule_of_numbers(make: Make) -> Callable[..., RuleOfNumbers]:
    """Have a rule made of its numbers when it is needed; of the same numbers once."""

    @functools.cache
    @functools.wraps(make)
    def rule(*numbers: float) -> RuleOfNumbers:
        return RuleOfNumbers(make, numbers)

    return rule
