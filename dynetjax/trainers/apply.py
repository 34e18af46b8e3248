"""Applying a rule: to a block of parameters, to all rows of a table, or to some.

A rule is an optax transformation that works number by number: what becomes of an
entry depends on that entry's gradient, value and state alone, and state has the shape
of what it belongs to. So parameters may lie end to end in one array, and touched rows
may be cut out of a table. A rule without state goes nowhere where the gradient is 0.

XLA decides what changes in place by how the arrays are read; see `if_accepted` and
tests/trainers/test_update.py, which looks at the memory a compiled update needs.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import optax
from jax import lax

from dynetjax.trainers.blocks import join, split
from dynetjax.trainers.sparse import Rows, densify

Rule: TypeAlias = optax.GradientTransformationExtraArgs


class Step(NamedTuple):
    """What one update is about, as traced numbers.

    Attributes:
        learning_rate: factor on the rule's direction.
        factor: factor on every gradient, from clipping.
        step: counts updates, from 1.
        accepted: False leaves every parameter and state as it was.
    """

    learning_rate: Any
    factor: Any
    step: Any
    accepted: Any


def apply_block(
    rule: Rule, step: Step, gradients: list[Any], state: Any, values: list[Any]
) -> tuple[list[Any], Any]:
    """The values and the state after the rule was applied to joined parameters.

    Values stay out of the branch. They are not donated, and XLA copies them, and the
    state as well, when a branch would return one of its own operands.
    """

    def changed():
        return _direction(rule, step, join(gradients), state, join(values))

    def unchanged():
        return jnp.zeros(sum(value.size for value in values)), state

    direction, new_state = if_accepted(step, changed, unchanged)
    parts = split(direction, [value.shape for value in values])
    new = [
        jnp.where(step.accepted, value - step.learning_rate * part, value)
        for value, part in zip(values, parts, strict=True)
    ]
    return new, new_state


def apply_everywhere(
    rule: Rule, step: Step, gradient: Rows | jax.Array, state: Any, table: Any
) -> tuple[Any, Any]:
    """The table and the state after the rule was applied to all rows.

    Rows without a gradient get one of zeros, an array like any other: from a
    constant zero XLA would compute the new state twice, and copy the old.
    """

    def changed():
        dense = densify(gradient, len(table))
        return _apply(rule, step, dense, state, table)

    return if_accepted(step, changed, lambda: (table, state))


def apply_rows(
    rule: Rule, step: Step, gradient: Rows, state: Any, table: Any
) -> tuple[Any, Any]:
    """The table and the state after the rule was applied to the touched rows.

    Padding reads zeros and writes nothing.
    """
    ids, values = gradient
    old, old_state = jax.tree.map(
        lambda x: x.at[ids].get(mode="fill", fill_value=0), (table, state)
    )
    new = _apply(rule, step, values, old_state, old)
    written = jnp.where(step.accepted, ids, len(table))
    return jax.tree.map(
        lambda x, changed: x.at[written].set(changed, mode="drop"), (table, state), new
    )


def if_accepted(
    step: Step, changed: Callable[[], Any], unchanged: Callable[[], Any]
) -> Any:
    """What `changed` returns, or if the update is refused what `unchanged` does.

    On a CPU it is a branch. A choice between two numbers everywhere needs the old
    ones after the new ones: XLA then copies all of a table and its state. On other
    devices a branch would stop the host until the norm is known.
    """
    if jax.default_backend() == "cpu":
        return lax.cond(step.accepted, changed, unchanged)
    return jax.tree.map(
        lambda a, b: jnp.where(step.accepted, a, b), changed(), unchanged()
    )


def _direction(rule: Rule, step: Step, gradient: Any, state: Any, values: Any) -> Any:
    return rule.update(gradient * step.factor, state, values, step=step.step)


def _apply(rule: Rule, step: Step, gradient: Any, state: Any, values: Any) -> Any:
    direction, new_state = _direction(rule, step, gradient, state, values)
    return values - step.learning_rate * direction, new_state
