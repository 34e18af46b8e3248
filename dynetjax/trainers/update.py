"""The compiled update: a whole collection in one call.

Learning rate, clip threshold and step count are arguments, and the row gradients of
tables come in a few sizes, so that a training run compiles little after its first
updates. Tables and all state are donated: they change in place. Dense parameters
are not, for a graph may still hold them.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from dynetjax.trainers.sparse import (
    Gradient,
    Step,
    apply_rows,
    apply_whole,
    densify,
    squared_norm,
)


class Gradients(NamedTuple):
    """All that an update reads and does not change.

    Attributes:
        parameters: arrays, one per updated parameter.
        tables: one `Gradient` per updated table.
        frozen: arrays of parameters not updated, that count in the norm only.
        frozen_tables: likewise.
    """

    parameters: list[Any]
    tables: list[Gradient]
    frozen: list[Any]
    frozen_tables: list[Gradient]


class Targets(NamedTuple):
    """All that an update changes, but the values of dense parameters.

    Attributes:
        states: the rule's state for each updated parameter.
        tables: values of each updated table.
        table_states: the rule's state for each updated table.
    """

    states: list[Any]
    tables: list[Any]
    table_states: list[Any]


def knobs(learning_rate: float, threshold: float, step: int) -> np.ndarray:
    """The runtime numbers of an update, in one array; a threshold of 0 is none."""
    return np.array([learning_rate, threshold, step], np.float32)


@functools.lru_cache(maxsize=32)
def compiled_update(rule: optax.GradientTransformationExtraArgs) -> Any:
    """``(knobs, values, targets, gradients, dense, frozen_sizes)``, compiled.

    Args of the result:
        knobs: see `knobs`.
        values: arrays of the updated parameters.
        targets: `Targets`, donated.
        gradients: `Gradients`.
        dense: per updated table, whether the rule goes to all rows. Static.
        frozen_sizes: rows of each table in ``gradients.frozen_tables``. Static.
    Returns:
        new values, new targets, and the norm of all gradients together.
    """

    def update(numbers, values, targets, gradients, dense, frozen_sizes):
        norm = _norm(targets, gradients, frozen_sizes)
        step = _step(numbers, norm)
        changed = [
            apply_whole(rule, step, *of_one)
            for of_one in zip(values, targets.states, gradients.parameters, strict=True)
        ]
        changed_tables = [
            _apply_table(rule, step, *of_one)
            for of_one in zip(
                targets.tables,
                targets.table_states,
                gradients.tables,
                dense,
                strict=True,
            )
        ]
        new_targets = Targets(
            states=[state for _, state in changed],
            tables=[table for table, _ in changed_tables],
            table_states=[state for _, state in changed_tables],
        )
        return [value for value, _ in changed], new_targets, norm

    return jax.jit(
        update, donate_argnames="targets", static_argnames=("dense", "frozen_sizes")
    )


def _apply_table(rule, step, table, state, gradient, dense):
    if dense:
        whole = densify(gradient, len(table))
        return apply_whole(rule, step, table, state, whole)
    return apply_rows(rule, step, table, state, gradient)


def _norm(targets: Targets, gradients: Gradients, frozen_sizes) -> jax.Array:
    dense = [*gradients.parameters, *gradients.frozen]
    sizes = [*(len(table) for table in targets.tables), *frozen_sizes]
    rows = [*gradients.tables, *gradients.frozen_tables]
    squares = [jnp.sum(jnp.square(g)) for g in dense]
    squares += [squared_norm(g, n) for g, n in zip(rows, sizes, strict=True)]
    return jnp.sqrt(sum(squares, jnp.float32(0)))


def _step(numbers: Any, norm: Any) -> Step:
    learning_rate, threshold, step = numbers
    clipping = threshold > 0
    too_long = clipping & (norm > threshold)
    factor = jnp.where(too_long, threshold / norm, 1.0)
    return Step(learning_rate, factor, step, ~clipping | jnp.isfinite(norm))
