"""Applying a rule to whole arrays, and to the touched rows of tables only.

Rows are read from the table and from the rule's state, changed by the same rule as
whole arrays, and written back. Row ids past the end of the table are padding: they
read zeros and write nothing.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax


class Gradient(NamedTuple):
    """The gradient of a table inside a compiled update.

    Attributes:
        rows: int32 ids ``[K]``, each once, then padding.
        values: ``[K, *row]``, the gradients of those rows.
        whole: ``[N, *row]``, to be added, or None.
    """

    rows: Any
    values: Any
    whole: Any


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


def squared_norm(gradient: Gradient, size: int) -> jax.Array:
    """Sum of squares of the gradient of a table of `size` rows."""
    if gradient.whole is not None:
        return jnp.sum(jnp.square(densify(gradient, size)))
    return jnp.sum(jnp.square(_without_padding(gradient, size)))


def densify(gradient: Gradient, size: int) -> jax.Array:
    """The gradient as ``[N, *row]``."""
    rows, values, whole = gradient
    if whole is None:
        whole = jnp.zeros((size, *values.shape[1:]), values.dtype)
    return whole.at[rows].add(values, mode="drop")


def _without_padding(gradient: Gradient, size: int) -> jax.Array:
    values = gradient.values
    real = (gradient.rows < size).reshape(-1, *(1,) * (values.ndim - 1))
    return jnp.where(real, values, 0)


def apply_whole(
    rule: optax.GradientTransformationExtraArgs,
    step: Step,
    values: Any,
    state: Any,
    gradient: Any,
) -> tuple[Any, Any]:
    """The values and the state after the rule was applied to all of them."""
    clipped = gradient * step.factor
    direction, new_state = rule.update(clipped, state, values, step=step.step)
    new_values = values - step.learning_rate * direction
    return _choose(step.accepted, (new_values, new_state), (values, state))


def apply_rows(
    rule: optax.GradientTransformationExtraArgs,
    step: Step,
    table: Any,
    state: Any,
    gradient: Gradient,
) -> tuple[Any, Any]:
    """The table and the state after the rule was applied to the touched rows."""
    rows = gradient.rows
    old, old_state = jax.tree.map(
        lambda x: x.at[rows].get(mode="fill", fill_value=0), (table, state)
    )
    values = _without_padding(gradient, len(table))
    new = apply_whole(rule, step, old, old_state, values)
    return jax.tree.map(
        lambda x, changed: x.at[rows].set(changed, mode="drop"), (table, state), new
    )


def _choose(condition: Any, new: Any, old: Any) -> Any:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), new, old)
