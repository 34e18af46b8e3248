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
import numpy as np
import optax

from dynetjax.dims import Shape
from dynetjax.model.storage import (
    DenseStorage,
    TableStorage,
    give_to_device,
    on_host,
)
from dynetjax.trainers.flat import join, split
from dynetjax.trainers.members import Block, Members
from dynetjax.trainers.native_update import NativeUpdate
from dynetjax.trainers.update import Targets, compiled_update
from dynetjax.trainers.way import Take, Way, require_shape

SMALL = 2**16
"""Numbers in the largest parameter that shares a block."""


class States:
    """A rule's state of every parameter and table; that of one not met before is new.

    Its arrays are of JAX or of NumPy, whichever the last update needed; those of NumPy
    change in their place.

    Args:
        rule: of numbers, or of tensors.
        join: whether parameters may share a block.
    """

    def __init__(self, rule: optax.GradientTransformationExtraArgs, join: bool):
        self._rule = rule
        self._join = join
        one = rule.init(jnp.zeros(1))
        self._tree = jax.tree.structure(one)
        self._new = [np.asarray(leaf).ravel()[:1] for leaf in jax.tree.leaves(one)]
        self.is_empty = not self._new
        self._tables: dict[TableStorage, Any] = {}
        self._blocks: dict[Block, Any] = {}  # None: not made yet
        self._apart: dict[DenseStorage, Any] = {}  # of those in no block now

    def arrange(self, parameters: Sequence[DenseStorage]) -> tuple[Block, ...]:
        """Have the state of these parameters in blocks from now on."""
        blocks = self._blocks_of(parameters)
        for old in [block for block in self._blocks if block not in blocks]:
            state = self._blocks.pop(old)
            if state is not None:
                states = _split(state, tuple(s.shape for s in old))
                self._apart.update(zip(old, states, strict=True))
        for new in blocks:
            if new not in self._blocks:
                self._blocks[new] = self._gathered(new)
        return blocks

    def _blocks_of(self, parameters: Sequence[DenseStorage]) -> tuple[Block, ...]:
        if not self._join:
            return tuple((s,) for s in parameters)
        limit = 0 if self.is_empty else SMALL
        small = tuple(s for s in parameters if math.prod(s.shape) <= limit)
        large = [(s,) for s in parameters if math.prod(s.shape) > limit]
        return (small, *large) if small else tuple(large)

    def _gathered(self, block: Block) -> Any:
        """What there is of the state of its parameters; None if that is nothing."""
        if not any(s in self._apart for s in block):
            return None
        found = [self._apart.pop(s, None) for s in block]
        on_host = all(_is_on_host(state) for state in found if state is not None)
        new = self._on_host if on_host else self._on_device
        several = zip(found, block, strict=True)
        return _join([new(s.shape) if x is None else x for x, s in several])

    def _on_device(self, shape: Shape) -> Any:
        """The state that a parameter begins with."""
        return self._rule.init(jnp.zeros(shape))

    def _on_host(self, shape: Shape) -> Any:
        """The same: a rule of numbers begins with the same number everywhere."""
        leaves = [np.full(shape, *number) for number in self._new]
        return jax.tree.unflatten(self._tree, leaves)

    def targets(self, members: Members) -> Targets:
        """What an update of these members changes."""
        for block in members.blocks:
            size = sum([math.prod(s.shape) for s in block])
            self._blocks[block] = self._moved(self._blocks[block], (size,))
        return Targets(
            [self._blocks[block] for block in members.blocks],
            [table.stored for table in members.tables],
            [self.of_table(table) for table in members.tables],
        )

    def of_table(self, table: TableStorage) -> Any:
        """State of a table, arrays of its shape."""
        moved = self._moved(self._tables.get(table), table.shape)
        self._tables[table] = moved
        return moved

    def _moved(self, state: Any, shape: Shape) -> Any:
        """A state on the device."""
        if state is None:
            return self._on_device(shape)
        return jax.tree.map(give_to_device, state) if _is_on_host(state) else state

    def of_block_on_host(self, block: Block) -> tuple[np.ndarray, ...]:
        """The arrays of a block's state, to be written to."""
        size = sum([math.prod(s.shape) for s in block])
        state = self._blocks[block] = self._fetched(self._blocks[block], (size,))
        return tuple(jax.tree.leaves(state))

    def of_table_on_host(self, table: TableStorage) -> tuple[np.ndarray, ...]:
        """Those of a table's state."""
        state = self._tables[table] = self._fetched(
            self._tables.get(table), table.shape
        )
        return tuple(jax.tree.leaves(state))

    def _fetched(self, state: Any, shape: Shape) -> Any:
        """A state on the host."""
        if state is None:
            return self._on_host(shape)
        return state if _is_on_host(state) else jax.tree.map(np.array, state)

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
            if state is not None:
                shapes = tuple(s.shape for s in block)
                known.update(zip(block, _split(state, shapes), strict=True))
        known.update(self._tables)
        found = [known.get(s) for s in storages]
        return [
            jax.tree.leaves(self._on_device(s.shape) if x is None else x)
            for s, x in zip(storages, found, strict=True)
        ]

    def restore(self, storages: Sequence[Any], arrays: Sequence[list[Any]]) -> None:
        """Take what `arrays` returned; `arrange` must be called again."""
        self._blocks, self._apart, self._tables = {}, {}, {}
        for storage, leaves in zip(storages, arrays, strict=True):
            own = [np.array(leaf, np.float32, order="C") for leaf in leaves]
            state = jax.tree.unflatten(self._tree, own)
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
        found = [
            [require_shape(arrays[f"{i}.{k}"], s.shape) for k in range(len(self._new))]
            for i, s in enumerate(storages)
        ]
        return lambda: self.restore(storages, found)

    def clear(self) -> None:
        """Begin anew."""
        self._tables.clear()
        self._apart.clear()
        self._blocks = dict.fromkeys(self._blocks)


def _is_on_host(state: Any) -> bool:
    return all(on_host(leaf) for leaf in jax.tree.leaves(state))


def _join(states: Sequence[Any]) -> Any:
    if all(map(_is_on_host, states)):
        return jax.tree.map(lambda *xs: np.concatenate([*map(np.ravel, xs)]), *states)
    return _joined_on_device(states)


def _split(state: Any, shapes: tuple[Shape, ...]) -> list[Any]:
    if _is_on_host(state):
        return _apart(state, shapes, np.copy)
    return _apart_on_device(state, shapes)


@jax.jit
def _joined_on_device(states):
    return jax.tree.map(lambda *arrays: join(arrays), *states)


@partial(jax.jit, static_argnums=1)
def _apart_on_device(state, shapes):
    return _apart(state, shapes)


def _apart(state, shapes, copy=lambda array: array):
    leaves, tree = jax.tree.flatten(state)
    apart = [[copy(part) for part in split(leaf, shapes)] for leaf in leaves]
    return [
        jax.tree.unflatten(tree, [leaf[k] for leaf in apart])
        for k in range(len(shapes))
    ]


def in_blocks(rule: optax.GradientTransformationExtraArgs) -> Way:
    """For a rule that works number by number: parameters may lie end to end."""
    states = States(rule, join=True)
    native = NativeUpdate(rule, states)
    return Way(states, partial(compiled_update, rule), native)


def by_tensor(rule: optax.GradientTransformationExtraArgs) -> Way:
    """For a rule that looks at a whole parameter, or at a whole row of a table."""
    return Way(States(rule, join=False), partial(compiled_update, rule, by_tensor=True))
