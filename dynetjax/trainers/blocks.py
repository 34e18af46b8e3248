"""Blocks: parameters whose rule state lies end to end in the same arrays.

A call of a compiled function costs time for every array that it takes and gives, and
each kernel in it some more. A model has many small parameters, and a rule one or two
arrays of state for each. So all small parameters make one block, whose state is flat;
a large parameter is a block of its own, so that nothing large is joined or split.
"""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import optax

from dynetjax.model.storage import DenseStorage, TableStorage, to_device
from dynetjax.trainers.flat import join, split
from dynetjax.trainers.members import Block, Members
from dynetjax.trainers.update import Targets, compiled_update
from dynetjax.trainers.way import Take, Way, require_shape

SMALL = 2**16
"""Numbers in the largest parameter that shares a block."""


class States:
    """A rule's state of every parameter and table; zeros for one not met before.

    Args:
        rule: of numbers, or of tensors.
        join: whether parameters may share a block.
    """

    def __init__(self, rule: optax.GradientTransformationExtraArgs, join: bool):
        self._rule = rule
        self._join = join
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
        if not self._join:
            return tuple((s,) for s in parameters)
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

    def targets(self, members: Members) -> Targets:
        """What an update of these members changes."""
        return Targets(
            [self._blocks[block] for block in members.blocks],
            [table.stored for table in members.tables],
            [self.of_table(table) for table in members.tables],
        )

    def of_table(self, table: TableStorage) -> Any:
        """State of a table, arrays of its shape."""
        if table not in self._tables:
            self._tables[table] = self._rule.init(jnp.zeros(table.shape))
        return self._tables[table]

    def put(self, members: Members, targets: Targets) -> None:
        """The state that an update made."""
        self._blocks.update(zip(members.blocks, targets.states, strict=True))
        self._tables.update(zip(members.tables, targets.table_states, strict=True))

    def put_table(self, table: TableStorage, state: Any) -> None:
        """The state of a table."""
        self._tables[table] = state

    def arrays(self, storages: Sequence[Any]) -> list[list[Any]]:
        """The state of each, arrays of its shape."""
        known: dict[Any, Any] = dict(self._apart)
        for block, state in self._blocks.items():
            shapes = tuple(s.shape for s in block)
            known.update(zip(block, _split(state, shapes), strict=True))
        known.update(self._tables)
        found = [known.get(s) for s in storages]
        return [
            jax.tree.leaves(self._rule.init(jnp.zeros(s.shape)) if x is None else x)
            for s, x in zip(storages, found, strict=True)
        ]

    def restore(self, storages: Sequence[Any], arrays: Sequence[list[Any]]) -> None:
        """Take what `arrays` returned; `arrange` must be called again."""
        tree = jax.tree.structure(self._rule.init(jnp.zeros(1)))
        self._blocks, self._apart, self._tables = {}, {}, {}
        for storage, leaves in zip(storages, arrays, strict=True):
            state = jax.tree.unflatten(tree, [to_device(leaf) for leaf in leaves])
            if storage.is_table:
                self._tables[storage] = state
            else:
                self._apart[storage] = state

    def named(self, storages: Sequence[Any]) -> dict[str, Any]:
        """The same as a dict."""
        return {
            f"{i}.{k}": leaf
            for i, leaves in enumerate(self.arrays(storages))
            for k, leaf in enumerate(leaves)
        }

    def take(self, storages: Sequence[Any], arrays: dict[str, Any]) -> Take:
        """What takes over what `named` returned.

        Raises:
            KeyError, ValueError: it is not of these.
        """
        count = len(jax.tree.leaves(self._rule.init(jnp.zeros(1))))
        found = [
            [require_shape(arrays[f"{i}.{k}"], s.shape) for k in range(count)]
            for i, s in enumerate(storages)
        ]
        return lambda: self.restore(storages, found)

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


def in_blocks(rule: optax.GradientTransformationExtraArgs) -> Way:
    """For a rule that works number by number: parameters may lie end to end."""
    return Way(States(rule, join=True), partial(compiled_update, rule))


def by_tensor(rule: optax.GradientTransformationExtraArgs) -> Way:
    """For a rule that looks at a whole parameter, or at a whole row of a table."""
    return Way(States(rule, join=False), partial(compiled_update, rule, by_tensor=True))
