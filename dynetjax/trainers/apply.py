"""Applying a rule: to a block of parameters, to all rows of a table, or to some.

A rule is an optax transformation that works number by number: what becomes of an
entry depends on that entry's gradient, value and state alone, and state has the shape
of what it belongs to. So parameters may lie end to end in one array, and touched rows
may be cut out of a table. A rule without state goes nowhere where the gradient is 0.
Its `update` gets ``step`` and ``learning_rate`` by name, and returns what is to be
added to the values.

Weight decay takes its share of what the rule made. A table that decays is stored with
a factor, so that rows nobody touched need not be written: what a user sees is their
product.

XLA decides what changes in place by how the arrays are read; see `if_accepted` and
tests/trainers/test_update.py, which looks at the memory a compiled update needs.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from dynetjax.core.lazy import jax, jnp, lax, optax
from dynetjax.core.registry import Scaled
from dynetjax.engine.device import platform
from dynetjax.engine.xla.slices import cut, take_if_there
from dynetjax.trainers.flattening import join, split
from dynetjax.trainers.rules import Rule
from dynetjax.trainers.sparse import Rows, densify

Table: TypeAlias = Any  # an array, or one with a factor

LEAST_CHUNK, MOST_TIMES = 32, 8  # rows are changed together, and in so many parts


class UpdateTerms(NamedTuple):
    """What one update is about, as traced numbers.

    Attributes:
        learning_rate: the trainer's.
        factor: factor on every gradient, from clipping.
        step: counts updates, from 1.
        kept: factor on every new value, from weight decay.
        accepted: False leaves every parameter and state as it was.
    """

    learning_rate: Any
    factor: Any
    step: Any
    kept: Any
    accepted: Any


def apply_block(
    rule: Rule,
    terms: UpdateTerms,
    gradients: list[Any],
    state: Any,
    values: list[Any],
) -> tuple[list[Any], Any]:
    """The values and the state after the rule was applied to joined parameters."""

    def changed():
        change, new_state = _change(rule, terms, join(gradients), state, join(values))
        parts = split(change, [value.shape for value in values])
        pairs = zip(values, parts, strict=True)
        return [(value + part) * terms.kept for value, part in pairs], new_state

    def unchanged():  # values that came out as they are would be copied in any case
        return [jnp.where(terms.accepted, 0.0, value) for value in values], state

    return if_accepted(terms, changed, unchanged)


def apply_everywhere(
    rule: Rule,
    terms: UpdateTerms,
    gradient: "Rows | jax.Array",
    state: Any,
    table: Table,
) -> tuple[Table, Any]:
    """The table and the state after the rule was applied to all rows.

    Rows without a gradient get one of zeros, an array like any other: from a
    constant zero XLA would compute the new state twice, and copy the old.
    """

    array, factor = split_table(table)

    def changed():
        dense = densify(gradient, len(array))
        values = array if factor is None else array * factor
        change, new_state = _change(rule, terms, dense, state, values)
        new = (values + change) * terms.kept
        return like_table(table, new, jnp.float32(1)), new_state

    return if_accepted(terms, changed, lambda: (table, state))


def apply_rows(
    rule: Rule, terms: UpdateTerms, gradient: Rows, state: Any, table: Table
) -> tuple[Table, Any]:
    """The table and the state after the rule was applied to the touched rows.

    Some at a time, as far as there are any: most gradients have room for many more.
    On other devices than a CPU all at once, as `if_accepted` says.
    """
    array, factor = split_table(table)
    room = len(gradient.ids)
    chunk = max(LEAST_CHUNK, room // MOST_TIMES)

    def next_ones(k, stored):
        ids, values = [cut(x, k * chunk, chunk) for x in gradient]
        if room % chunk:  # the last ones were cut out with some before them
            first = jnp.minimum(k * chunk, room - chunk)
            ids = jnp.where(first + jnp.arange(chunk) < k * chunk, len(array), ids)
        return of_these(ids, values, stored)

    def of_these(ids, values, stored):
        old, old_state = jax.tree.map(lambda x: take_if_there(x, ids), stored)
        shown = old if factor is None else old * factor
        change, new_state = _change(rule, terms, values, old_state, shown)
        new = old + (change if factor is None else change / factor)
        written = jnp.where(terms.accepted, ids, len(array))
        return jax.tree.map(
            lambda x, changed: x.at[written].set(changed, mode="drop"),
            stored,
            (new, new_state),
        )

    if room <= chunk or platform() != "cpu":
        new_array, new_state = of_these(*gradient, (array, state))
    else:
        real = gradient.ids < len(array)
        end = jnp.max(jnp.where(real, jnp.arange(1, room + 1), 0))
        times = (end + chunk - 1) // chunk
        new_array, new_state = lax.fori_loop(0, times, next_ones, (array, state))
    left = factor
    if factor is not None:
        left = jnp.where(terms.accepted, factor * terms.kept, factor)
    return like_table(table, new_array, left), new_state


def split_table(table: Table) -> tuple[Any, Any]:
    """The array of a table, and the factor on it or None."""
    return table if isinstance(table, Scaled) else (table, None)


def like_table(table: Table, array: Any, factor: Any) -> Table:
    """A table stored as `table` is."""
    return Scaled(array, factor) if isinstance(table, Scaled) else array


def if_accepted(
    terms: UpdateTerms, changed: Callable[[], Any], unchanged: Callable[[], Any]
) -> Any:
    """What `changed` returns, or if the update is refused what `unchanged` does.

    On a CPU it is a branch. A choice between two numbers everywhere needs the old
    ones after the new ones: XLA then copies all of a table and its state. On other
    devices a branch would stop the host until the norm is known.
    """
    if platform() == "cpu":
        return lax.cond(terms.accepted, changed, unchanged)
    return jax.tree.map(
        lambda a, b: jnp.where(terms.accepted, a, b), changed(), unchanged()
    )


def by_row(rule: Rule) -> Rule:
    """A rule of tensors for tables, whose rows are the tensors."""

    def update(gradients, state, values, **numbers):
        def one(gradient, state, value):
            return rule.update(gradient, state, value, **numbers)

        return jax.vmap(one)(gradients, state, values)

    return optax.GradientTransformationExtraArgs(rule.init, update)


def _change(
    rule: Rule, terms: UpdateTerms, gradient: Any, state: Any, values: Any
) -> Any:
    return rule.update(
        gradient * terms.factor,
        state,
        values,
        step=terms.step,
        learning_rate=terms.learning_rate,
    )
