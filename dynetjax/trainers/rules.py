"""Rules that go number by number: how gradients and state become changes and state.

They are functions of arrays of JAX, traced when something is first to run them. The
executor in C++ runs their byte code, which later processes read from a file: these do
without JAX.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

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
        common: types of the numbers in common, as `RuleOfOne` has them: there are none.
    """

    make: Make
    numbers: tuple[float, ...]
    states: int

    common: ClassVar[tuple[str, ...]] = ()

    def init(self, values: Any) -> State:
        """The state that some values begin with."""
        return tuple([jnp.zeros_like(values) for _ in range(self.states)])

    @functools.cached_property
    def update(self) -> Update:
        """The rule as a function."""
        return self.make(*self.numbers)

    def run(self, step: Any, rate: Any, gradient: Any, values: Any, *state: Any) -> Any:
        """``(change, *state)``, as `RuleOfOne` tells."""
        numbers = {"step": step, "learning_rate": rate}
        change, new = self.update(gradient, state, values, **numbers)
        return change, *new


@dataclass(frozen=True)
class RuleOfOne:
    """What becomes of a parameter's numbers; equal to others that do the same.

    Attributes:
        steps: what it does, in words.
        states: how many arrays of state a parameter has.
        common: the types of the numbers in common that it reads and makes; the first
            is the sum of the squares of all gradients, which it only reads.
        run: ``(step, rate, *common, gradient, values, *states)`` to ``(change,
            *states, *common[1:])``, of vectors of one length, and of numbers.
    """

    steps: tuple[Any, ...]
    states: int
    common: tuple[str, ...]
    run: Callable[..., Any] = field(compare=False, repr=False)


Rule: TypeAlias = "optax.GradientTransformationExtraArgs | RuleOfNumbers"
NativeRule: TypeAlias = RuleOfNumbers | RuleOfOne


def rule_of_numbers(states: int) -> Callable[[Make], Callable[..., RuleOfNumbers]]:
    """Declare a rule with so many arrays of state; of the same numbers it is one."""

    def decorate(make: Make) -> Callable[..., RuleOfNumbers]:
        @functools.cache
        @functools.wraps(make)
        def rule(*numbers: float) -> RuleOfNumbers:
            return RuleOfNumbers(make, numbers, states)

        return rule

    return decorate
