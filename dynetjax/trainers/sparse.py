"""Gradients of tables inside a compiled update: a few rows, seldom a whole array."""

from typing import Any, NamedTuple

from dynetjax.core.lazy import jax, jnp


class Gradient(NamedTuple):
    """The gradient of a table as an update gets it.

    Attributes:
        rows: int32 ids ``[L]``, in any order, also repeatedly; those past the last
            row of the table are padding.
        values: ``[L, *row]``; what stands at the padding has no meaning.
        whole: ``[N, *row]``, to be added, or None.
    """

    rows: Any
    values: Any
    whole: Any


class Rows(NamedTuple):
    """Gradients of some rows, each row once.

    Attributes:
        ids: int32 ``[K]``, padding in between.
        values: ``[K, *row]``, zeros at the padding.
    """

    ids: Any
    values: Any


def add_up(gradient: Gradient, size: int) -> "Rows | jax.Array":
    """What a table of `size` rows gets: rows, or an array as large as the table."""
    rows, values, whole = gradient
    few = len(rows) <= size
    ids, slots = _sorted_slots(rows, size) if few else _own_slots(rows, size)
    zeros = jnp.zeros((len(ids), *values.shape[1:]), values.dtype)
    summed = Rows(ids, zeros.at[slots].add(values, mode="drop"))
    return summed if whole is None else whole + densify(summed, size)


def _sorted_slots(rows: Any, size: int) -> tuple[Any, Any]:
    """(ids, for each of `rows` its place in them): ids stand where sorting puts them.

    The second of two equal ones leaves its place to padding.
    """
    places = jnp.arange(len(rows), dtype=jnp.int32)
    ordered, order = jax.lax.sort((rows, places), num_keys=1)
    first = jnp.append(True, ordered[1:] != ordered[:-1])
    begun = jax.lax.cummax(jnp.where(first, places, 0))
    slots = jnp.zeros_like(rows).at[order].set(begun, unique_indices=True)
    return jnp.where(first, ordered, size), jnp.where(rows < size, slots, len(rows))


def _own_slots(rows: Any, size: int) -> tuple[Any, Any]:
    """(ids, for each of `rows` its place in them): every row of a table has a place."""
    touched = jnp.zeros(size, bool).at[rows].set(True, mode="drop")
    return jnp.where(touched, jnp.arange(size, dtype=jnp.int32), size), rows


def densify(gradient: "Rows | jax.Array", size: int) -> "jax.Array":
    """The gradient as ``[N, *row]``."""
    if not isinstance(gradient, Rows):
        return gradient
    ids, values = gradient
    zeros = jnp.zeros((size, *values.shape[1:]), values.dtype)
    return zeros.at[ids].set(values, mode="drop")


def squared_norm(gradient: "Rows | jax.Array") -> "jax.Array":
    """Sum of squares."""
    values = gradient.values if isinstance(gradient, Rows) else gradient
    return jnp.sum(jnp.square(values))
