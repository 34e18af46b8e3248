"""Blocks: parameters whose rule state lies end to end in the same arrays.

A call of a compiled function costs time for every array that it takes and gives, and
each kernel in it some more. A model has many small parameters, and a rule one or two
arrays of state for each. So all small parameters make one block, whose state is flat;
a large parameter is a block of its own, so that nothing large is joined or split.
"""

import math
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import optax

from dynetjax.dims import Shape
from dynetjax.model.storage import DenseStorage, TableStorage

SMALL = 2**16
"""Numbers in the largest parameter that shares a block."""

Block = tuple[DenseStorage, ...]


def join(arrays: Sequence[Any]) -> jax.Array:
    """All arrays flat, end to end."""
    flat = [jnp.ravel(array) for array in arrays]
    return flat[0] if len(flat) == 1 else jnp.concatenate(flat)


def split(flat: jax.Array, shapes: Iterable[Shape]) -> list[jax.Array]:
    """What was joined, apart again."""
    arrays, end = [], 0
    for shape in shapes:
        begin, end = end, end + math.prod(shape)
        arrays.append(flat[begin:end].reshape(shape))
    return arrays


class States:
    """A rule's state of every parameter and table; zeros for one not met before."""

    def __init__(self, rule: optax.GradientTransformationExtraArgs):
        self._rule = rule
        self.is_empty = not jax.tree.leaves(rule.init(jnp.zeros(1)))
        self._tables: dict[TableStorage, Any] = {}
        self._blocks: dict[Block, Any] = {}
        self._apart: dict[DenseStorage, Any] = {}  # of those in no block now

    def arrange(self, parameters: Sequence[DenseStorage]) -> tuple[Block, ...]:
        """Have the state of these parameters in blocks from now on."""
        blocks = self._blocks_of(parameters)
        for old in [block for block in self._blocks if block not in blocks]:
            states = _split(self._blocks.pop(old), tuple(s.shape for s in old))
            self._apart.update(zip(old, states, strict=True))
        for new in blocks:
            if new not in self._blocks:
                self._blocks[new] = self._make(new)
        return blocks

    def _blocks_of(self, parameters: Sequence[DenseStorage]) -> tuple[Block, ...]:
        limit = 0 if self.is_empty else SMALL
        small = tuple(s for s in parameters if math.prod(s.shape) <= limit)
        large = [(s,) for s in parameters if math.prod(s.shape) > limit]
        return (small, *large) if small else tuple(large)

    def _make(self, block: Block) -> Any:
        if any(s in self._apart for s in block):
            return _join([self._take(s) for s in block])
        return self._rule.init(jnp.zeros(sum(math.prod(s.shape) for s in block)))

    def _take(self, parameter: DenseStorage) -> Any:
        if parameter in self._apart:
            return self._apart.pop(parameter)
        return self._rule.init(jnp.zeros(parameter.shape))

    def of_blocks(self, blocks: Iterable[Block]) -> list[Any]:
        """Flat state of blocks; `arrange` must have been called with them."""
        return [self._blocks[block] for block in blocks]

    def of_tables(self, tables: Iterable[TableStorage]) -> list[Any]:
        """State of tables, arrays of their shape."""
        for table in tables:
            if table not in self._tables:
                self._tables[table] = self._rule.init(jnp.zeros(table.shape))
        return [self._tables[table] for table in tables]

    def put(
        self,
        blocks: Iterable[Block],
        states: Iterable[Any],
        tables: Iterable[TableStorage],
        table_states: Iterable[Any],
    ) -> None:
        """What an update made of them."""
        self._blocks.update(zip(blocks, states, strict=True))
        self._tables.update(zip(tables, table_states, strict=True))

    def clear(self) -> None:
        """Set all of it to zero."""
        self._tables.clear()
        self._apart.clear()
        self._blocks = {block: self._make(block) for block in self._blocks}


@jax.jit
def _join(states):
    return jax.tree.map(lambda *arrays: join(arrays), *states)


@partial(jax.jit, static_argnums=1)
def _split(state, shapes):
    leaves, tree = jax.tree.flatten(state)
    apart = [split(leaf, shapes) for leaf in leaves]
    return [
        jax.tree.unflatten(tree, [leaf[k] for leaf in apart])
        for k in range(len(shapes))
    ]
