"""Blocks: parameters whose rule state lies end to end in the same arrays.

A call of a compiled function costs time for every array that it takes and gives, and
each kernel in it some more. A model has many small parameters, and a rule one or two
arrays of state for each. So all small parameters make one block, whose state is flat;
a large parameter is a block of its own, so that nothing large is joined or split.
"""

import math
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np

from dynetjax.core.dims import Shape
from dynetjax.core.lazy import at_first_call, jax, jnp, optax
from dynetjax.model.storage import (
    DenseStorage,
    TableStorage,
    give_to_device,
    on_host,
)
from dynetjax.trainers.flattening import join, split
from dynetjax.trainers.members import Block, Members
from dynetjax.trainers.native_rule import native_rule
from dynetjax.trainers.native_update import OnHost
from dynetjax.trainers.rules import Rule, RuleOfNumbers
from dynetjax.trainers.strategy import Strategy, Take, require_shape
from dynetjax.trainers.update import Targets, compiled_update

SMALL = 2**16
"""Numbers in the largest parameter that shares a block."""


Leaves = tuple[Any, ...]  # the arrays of a state, of JAX or of NumPy


def small_together(parameters: Sequence[DenseStorage], limit: int) -> tuple[Block, ...]:
    """Parameters of up to `limit` numbers in one block, and each other in its own."""
    small = tuple(s for s in parameters if math.prod(s.shape) <= limit)
    large = [(s,) for s in parameters if math.prod(s.shape) > limit]
    return (small, *large) if small else tuple(large)


class BlockStates:
    """A rule's state of every parameter and table; that of one not met before is new.

    Its arrays are of JAX or of NumPy, whichever the last update needed; those of NumPy
    change in their place.

    Args:
        rule: of numbers, or of tensors; with the former, parameters may share a block.
    """

    can_move = True

    def __init__(self, rule: Rule):
        self._rule = rule
        self._is_of_numbers = isinstance(rule, RuleOfNumbers)
        self._new = _beginning(rule)
        self.is_empty: bool = not self._new
        self._tables: dict[TableStorage, Leaves] = {}
        self._blocks: dict[Block, Leaves | None] = {}  # None: not made yet
        self._apart: dict[DenseStorage, Leaves] = {}  # of those in no block now
        self._laid_out: tuple[Members, OnHost] | None = None

    @cached_property
    def _tree(self) -> Any:
        return jax.tree.structure(self._rule.init(jnp.zeros(1)))

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
        if not self._is_of_numbers:
            return tuple((s,) for s in parameters)
        return small_together(parameters, 0 if self.is_empty else SMALL)

    def _gathered(self, block: Block) -> Leaves | None:
        """What there is of the state of its parameters; None if that is nothing."""
        if not any(s in self._apart for s in block):
            return None
        states = [self._apart.pop(s, None) for s in block]
        on_host = all(_is_on_host(state) for state in states if state is not None)
        new = self._on_host if on_host else self._on_device
        pairs = zip(states, block, strict=True)
        return _join([new(s.shape) if x is None else x for x, s in pairs])

    def _on_device(self, shape: Shape) -> Leaves:
        """The state that a parameter begins with."""
        return tuple(jax.tree.leaves(self._rule.init(jnp.zeros(shape))))

    def _on_host(self, shape: Shape) -> Leaves:
        """The state that a parameter or table begins with, as arrays of NumPy.

        A rule of numbers begins with the same number everywhere.
        """
        return tuple([np.full(shape, *number) for number in self._new])

    def _begun(self, shape: Shape) -> Leaves:
        """The state that a parameter or table begins with, if possible without JAX."""
        return (self._on_host if self._is_of_numbers else self._on_device)(shape)

    def targets(self, members: Members) -> Targets:
        """What an update of these members changes."""
        return Targets(
            [self._of_block(block) for block in members.blocks],
            [table.stored for table in members.tables],
            [self.of_table(table) for table in members.tables],
        )

    def _of_block(self, block: Block) -> Any:
        leaves = self._moved(self._blocks[block], _size_of(block))
        self._keep(self._blocks, block, leaves)
        return jax.tree.unflatten(self._tree, leaves)

    def of_table(self, table: TableStorage) -> Any:
        """State of a table, arrays of its shape."""
        leaves = self._moved(self._tables.get(table), table.shape, table.place)
        self._keep(self._tables, table, leaves)
        return jax.tree.unflatten(self._tree, leaves)

    def _moved(self, leaves: Leaves | None, shape: Shape, place: Any = None) -> Leaves:
        """A state on the device, or with its rows at a place of several."""
        if leaves is None:
            leaves = self._on_host(shape) if place else self._on_device(shape)
        if not _is_on_host(leaves):
            return leaves
        return tuple([give_to_device(leaf, place) for leaf in leaves])

    def is_on_host(self, table: TableStorage) -> bool:
        """Whether the state of a table can be written to where it is."""
        leaves = self._tables.get(table)
        return leaves is None or _is_on_host(leaves)

    def from_leaves(self, leaves: Sequence[Any]) -> Any:
        """A state of these arrays."""
        return jax.tree.unflatten(self._tree, leaves)

    @cached_property
    def _native(self) -> Any:
        """The rule as it is run; None if there is no byte code for it."""
        rule = self._rule
        return native_rule(rule) if isinstance(rule, RuleOfNumbers) else None

    def is_native(self, members: Members) -> bool:
        """Whether the executor in C++ can update these: see `on_host`."""
        return self._native is not None

    def on_host(self, members: Members) -> OnHost:
        """How these are updated, if that goes number by number."""
        if self._laid_out is None or self._laid_out[0] is not members:
            rule = self._native
            blocks = [(rule, self._of_block_on_host(x), x) for x in members.blocks]
            tables = [(rule, self.of_table_on_host(x), x) for x in members.tables]
            self._laid_out = members, OnHost(blocks, tables, np.zeros(1, np.int32))
        return self._laid_out[1]

    def _keep(self, states: dict[Any, Any], of: Any, leaves: Leaves) -> None:
        """Note where a state is from now on."""
        states[of], self._laid_out = leaves, None

    def _of_block_on_host(self, block: Block) -> Leaves:
        """The arrays of a block's state, to be written to."""
        leaves = self._blocks[block]
        if leaves is None or not _is_on_host(leaves):
            leaves = self._fetched(leaves, _size_of(block))
            self._keep(self._blocks, block, leaves)
        return leaves

    def of_table_on_host(self, table: TableStorage) -> Leaves:
        """The arrays of a table's state, to be written to."""
        leaves = self._tables.get(table)
        if leaves is None or not _is_on_host(leaves):
            leaves = self._fetched(leaves, table.shape)
            self._keep(self._tables, table, leaves)
        return leaves

    def move(self, members: Members, place: Callable[[Any], Any]) -> None:
        """Have each array of the members' state where `place` puts it."""
        for block in members.blocks:
            leaves = tuple(map(place, self._of_block_on_host(block)))
            self._keep(self._blocks, block, leaves)
        for table in members.tables:
            leaves = tuple(map(place, self.of_table_on_host(table)))
            self._keep(self._tables, table, leaves)

    def _fetched(self, leaves: Leaves | None, shape: Shape) -> Leaves:
        """A state on the host."""
        if leaves is None:
            return self._on_host(shape)
        return tuple([np.array(leaf) for leaf in leaves])

    def put(self, members: Members, targets: Targets) -> None:
        """The state that an update made."""
        for block, state in zip(members.blocks, targets.states, strict=True):
            self._keep(self._blocks, block, tuple(jax.tree.leaves(state)))
        for table, state in zip(members.tables, targets.table_states, strict=True):
            self.put_table(table, state)

    def put_table(self, table: TableStorage, state: Any) -> None:
        """The state of a table."""
        self._keep(self._tables, table, tuple(jax.tree.leaves(state)))

    def arrays(self, storages: Sequence[Any]) -> list[list[Any]]:
        """The state of each, arrays of its shape."""
        known: dict[Any, Leaves] = dict(self._apart)
        for block, state in self._blocks.items():
            if state is not None:
                shapes = tuple(s.shape for s in block)
                known.update(zip(block, _split(state, shapes), strict=True))
        known.update(self._tables)
        return [[*(known.get(s) or self._begun(s.shape))] for s in storages]

    def restore(self, storages: Sequence[Any], arrays: Sequence[list[Any]]) -> None:
        """Take what `arrays` returned; `arrange` must be called again."""
        self._blocks, self._apart, self._tables = {}, {}, {}
        self._laid_out = None
        for storage, leaves in zip(storages, arrays, strict=True):
            own = tuple([np.array(leaf, np.float32, order="C") for leaf in leaves])
            if storage.is_table:
                self._tables[storage] = own
            else:
                self._apart[storage] = own

    def named(self, storages: Sequence[Any]) -> dict[str, Any]:
        """Arrays of each storage's state, named by two numbers: ``storage.array``."""
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
        leaves = [
            [require_shape(arrays[f"{i}.{k}"], s.shape) for k in range(len(self._new))]
            for i, s in enumerate(storages)
        ]
        return lambda: self.restore(storages, leaves)

    def clear(self) -> None:
        """Begin anew."""
        self._tables.clear()
        self._apart.clear()
        self._blocks = dict.fromkeys(self._blocks)
        self._laid_out = None


def _beginning(rule: Rule) -> list[np.ndarray]:
    """The number that each leaf of a state begins with."""
    if isinstance(rule, RuleOfNumbers):
        return [np.zeros(1, np.float32)] * rule.states
    leaves = jax.tree.leaves(rule.init(jnp.zeros(1)))
    return [np.asarray(leaf).ravel()[:1] for leaf in leaves]


def _size_of(block: Block) -> Shape:
    return (sum([math.prod(s.shape) for s in block]),)


def _is_on_host(leaves: Leaves) -> bool:
    return all(map(on_host, leaves))


def _join(states: Sequence[Leaves]) -> Leaves:
    if all(map(_is_on_host, states)):
        leaves = zip(*states, strict=True)
        return tuple([np.concatenate([*map(np.ravel, xs)]) for xs in leaves])
    return _joined_on_device(states)


def _split(leaves: Leaves, shapes: tuple[Shape, ...]) -> list[Leaves]:
    if _is_on_host(leaves):
        return [tuple(map(np.copy, state)) for state in _apart(leaves, shapes)]
    return _apart_on_device(leaves, shapes)


@at_first_call(lambda f: jax.jit(f))
def _joined_on_device(states):
    return tuple([join(leaves) for leaves in zip(*states, strict=True)])


@at_first_call(lambda f: jax.jit(f, static_argnums=1))
def _apart_on_device(leaves, shapes):
    return _apart(leaves, shapes)


def _apart(leaves: Leaves, shapes: tuple[Shape, ...]) -> list[Leaves]:
    each = [split(leaf, shapes) for leaf in leaves]
    return [tuple([parts[k] for parts in each]) for k in range(len(shapes))]


def in_blocks(rule: RuleOfNumbers) -> Strategy:
    """For a rule that works number by number: parameters may lie end to end."""
    return Strategy(BlockStates(rule), partial(compiled_update, rule))


def by_tensor(rule: "optax.GradientTransformationExtraArgs") -> Strategy:
    """For a rule that looks at a whole parameter, or at a whole row of a table."""
    return Strategy(BlockStates(rule), partial(compiled_update, rule, by_tensor=True))
