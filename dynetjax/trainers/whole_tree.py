"""Transformations that see all parameters at once, as one tree, as in a JAX program.

The tree is a dict by full name. Of a table that is updated sparsely it has only the
rows that were touched, and so has the state: transformations that treat rows apart, or
add up over all numbers, come to what they would with zeros for the others.
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dynetjax.core.dims import Shape
from dynetjax.core.errors import error_text
from dynetjax.core.lazy import jax, jnp, optax, with_jax
from dynetjax.engine.xla.slices import take_if_there
from dynetjax.model.storage import DenseStorage, on_host
from dynetjax.trainers.apply import UpdateTerms, like_table, split_table
from dynetjax.trainers.blocks import SMALL, small_together
from dynetjax.trainers.flattening import split
from dynetjax.trainers.members import Block, Members
from dynetjax.trainers.native_rule import native_rule
from dynetjax.trainers.native_update import OnHost
from dynetjax.trainers.sparse import densify
from dynetjax.trainers.strategy import Strategy, Take, require_shape
from dynetjax.trainers.taken_apart import Apart, name_in, taken_apart
from dynetjax.trainers.update import Targets, Update, agreed


@dataclasses.dataclass(frozen=True)
class Names:
    """The names in the tree of what is updated."""

    parameters: tuple[str, ...]
    tables: tuple[str, ...]


with_jax(lambda: jax.tree_util.register_static(Names))


class TreeStates:
    """The state of a transformation; parameters that come and go keep theirs."""

    is_empty = can_move = False

    def __init__(self, tx: "optax.GradientTransformation"):
        self._tx = tx
        self._names: dict[Any, str] = {}
        self._members: Members | None = None
        self._state: Any = None
        self._left: dict[str, Any] = {}  # arrays of the state before, by path
        self._apart: Apart | None = None  # what it does to those looked at
        self._looked_at: Members | None = None
        self._on_host: OnHost | None = None  # the state, if its arrays are of NumPy

    def arrange(self, parameters: Sequence[DenseStorage]) -> tuple[Block, ...]:
        """Every parameter stands alone."""
        return tuple((s,) for s in parameters)

    def is_native(self, members: Members) -> bool:
        """Whether the executor in C++ can update these: see `on_host`."""
        self._meet(members)
        if self._looked_at is not members:
            self._apart, self._looked_at = self._taken_apart(members), members
        return self._apart is not None

    def _taken_apart(self, members: Members) -> Apart | None:
        tree = tuple([(self._name(s), _like(s.shape)) for s in members.updated])
        leaves, structure = jax.tree.flatten(jax.eval_shape(lambda x: x, self._state))
        apart = taken_apart(update_of(self._tx), structure, tuple(leaves), tree)
        if apart is None or None in map(native_rule, apart.rules.values()):
            return None
        return apart if tree else None  # or nobody would count the update

    def on_host(self, members: Members) -> OnHost:
        """How these are updated, if that goes number by number."""
        self._meet(members)
        if self._on_host is None:
            assert self._apart is not None
            self._state, self._on_host = self._laid_out(members, self._apart)
        return self._on_host

    def _laid_out(self, members: Members, apart: Apart) -> tuple[Any, OnHost]:
        """The state as views of the arrays that an update writes to, and these."""
        leaves, structure = jax.tree.flatten(self._state)
        own: dict[str | None, list[int]] = {}  # places of the leaves of each
        for k, owner in enumerate(apart.owners):
            own.setdefault(owner, []).append(k)

        def arrays(storages: Sequence[Any]) -> tuple[np.ndarray, ...]:
            places = [own.get(self._name(s), []) for s in storages]
            joined = []
            for ks in zip(*places, strict=True):
                joined.append(np.concatenate([np.ravel(leaves[k]) for k in ks]))
                parts = split(joined[-1], [s.shape for s in storages])
                for k, part in zip(ks, parts, strict=True):
                    leaves[k] = part
            return tuple(joined)

        def rule(storage: Any) -> Any:
            return native_rule(apart.rules[self._name(storage)])

        by_rule: dict[Any, list[DenseStorage]] = {}
        for (s,) in members.blocks:
            by_rule.setdefault(rule(s), []).append(s)
        blocks = [
            (of, arrays(block), block)
            for of, group in by_rule.items()
            for block in small_together(group, SMALL)
        ]
        tables = [(rule(s), arrays([s]), s) for s in members.tables]
        shared = own.get(None, [])
        common = np.zeros(1 + len(shared), np.int32)
        for place, k in enumerate(shared, start=1):
            word = common[place : place + 1].view(leaves[k].dtype).reshape(())
            word[...] = leaves[k]
            leaves[k] = word
        state = jax.tree.unflatten(structure, leaves)
        return state, OnHost(blocks, tables, common)

    def targets(self, members: Members) -> Targets:
        """What an update of these members by XLA changes."""
        self._meet(members)
        if self._on_host is not None:
            self._state, self._on_host = jax.tree.map(jnp.array, self._state), None
        names = Names(
            tuple(self._name(s) for (s,) in members.blocks),
            tuple(self._name(s) for s in members.tables),
        )
        tables = [table.stored for table in members.tables]
        return Targets([self._state], tables, [names])

    def _meet(self, members: Members) -> None:
        """Have the state of these."""
        if members is self._members:
            return
        self._begin({self._name(s): s.values for s in members.updated})
        self._members, self._on_host = members, None

    def _name(self, storage: Any) -> str:
        """The full name; of two that are equal, the second gets a number."""
        if storage not in self._names:
            name, number = storage.name, 1
            while name in self._names.values():
                number += 1
                name = f"{storage.name}#{number}"
            self._names[storage] = name
        return self._names[storage]

    def _begin(self, tree: dict[str, Any]) -> None:
        """Make the state for other members, with what there was of it."""
        self._left.update(_by_path(self._state))
        fresh = jax.tree.map(jnp.array, self._tx.init(tree))
        leaves = [
            jnp.array(self._left.pop(path, leaf))
            for path, leaf in _by_path(fresh).items()
        ]
        self._state = jax.tree.unflatten(jax.tree.structure(fresh), leaves)

    def named(self, storages: Sequence[Any]) -> dict[str, Any]:
        """The arrays of the state by path; also of those that are frozen."""
        for storage in storages:
            self._name(storage)
        arrays = self._left | _by_path(self._state)
        return {path: x.copy() if on_host(x) else x for path, x in arrays.items()}

    def take(self, storages: Sequence[Any], arrays: dict[str, Any]) -> Take:
        """What takes over what `named` returned.

        Raises:
            KeyError, ValueError: it is not of these.
        """
        tree = {self._name(s): _like(s.shape) for s in storages}
        wanted = _by_path(jax.eval_shape(self._tx.init, tree))
        for path, array in arrays.items():
            require_shape(array, wanted[path].shape)

        def take():
            self.clear()
            for path, array in arrays.items():
                self._left[path] = jnp.array(array, wanted[path].dtype)

        return take

    def put(self, members: Members, targets: Targets) -> None:
        """The state that an update made."""
        (self._state,) = targets.states

    def clear(self) -> None:
        """Begin anew."""
        self._members = self._state = self._on_host = None
        self._left.clear()


def _like(shape: Shape) -> Any:
    return jax.ShapeDtypeStruct(shape, np.float32)


def _by_path(state: Any) -> dict[str, Any]:
    leaves = jax.tree.leaves_with_path(state)
    return {jax.tree_util.keystr(path): leaf for path, leaf in leaves}


def as_tree(rule: "optax.GradientTransformation") -> Strategy:
    """For a transformation of all parameters at once."""
    return Strategy(TreeStates(rule), functools.partial(compiled_tree_update, rule))


@functools.lru_cache(maxsize=32)
def update_of(tx: "optax.GradientTransformation") -> Callable[..., Any]:
    """``(gradients, state, tree, *, step, learning_rate)`` to ``(changes, state)``."""
    rule = optax.with_extra_args_support(tx)

    def update(gradients, state, tree, *, step, learning_rate):
        changes, state = rule.update(
            gradients, state, tree, step=step, learning_rate=learning_rate
        )
        return {n: c * learning_rate for n, c in changes.items()}, state

    return update


@functools.lru_cache(maxsize=32)
def compiled_tree_update(tx: "optax.GradientTransformation") -> Callable[..., Any]:
    """Compile the update of a trainer whose rule takes all parameters as one tree."""
    changed = update_of(tx)

    def update(numbers, values, targets, gradients, dense, frozen_sizes):
        (state,), (names,) = targets.states, targets.table_states
        terms, norm, for_tables = agreed(numbers, targets, gradients, frozen_sizes)
        tree = {n: v for n, [v] in zip(names.parameters, values, strict=True)}
        grads = dict(zip(names.parameters, gradients.blocks, strict=True))
        slopes = {n: g for n, [g] in grads.items()}
        rows = {}
        for name, table, gradient, to_all in zip(
            names.tables, targets.tables, for_tables, dense, strict=True
        ):
            array, factor = split_table(table)
            if to_all:
                tree[name], slopes[name] = array, densify(gradient, len(array))
            else:
                rows[name], slopes[name] = gradient
                tree[name] = take_if_there(array, rows[name])
            if factor is not None:
                tree[name] = tree[name] * factor
        slopes = {n: g * terms.factor for n, g in slopes.items()}
        part = _of_rows(state, rows, targets.tables, names)
        change, new_part = changed(
            slopes, part, tree, step=terms.step, learning_rate=terms.learning_rate
        )
        written = {n: jnp.where(terms.accepted, i, _PAST) for n, i in rows.items()}
        new = [[_kept(terms, tree[n] + change[n], tree[n])] for n in names.parameters]
        tables = [
            _table(terms, table, tree[n], change[n], written.get(n))
            for n, table in zip(names.tables, targets.tables, strict=True)
        ]
        new_state = _merged(terms, state, new_part, written)
        return Targets([new_state], tables, [names]), new, norm

    return Update(update)


_PAST = 2**31 - 1  # a row that no table has


def _kept(terms: UpdateTerms, new: Any, old: Any) -> Any:
    return jnp.where(terms.accepted, new * terms.kept, old)


def _table(
    terms: UpdateTerms, table: Any, shown: Any, change: Any, written: Any
) -> Any:
    """The table with the change to all of it, or to the rows that are `written`."""
    array, factor = split_table(table)
    if written is None:
        new = _kept(terms, shown + change, shown)
        return like_table(table, new, jnp.float32(1))
    if factor is None:
        return array.at[written].add(change, mode="drop")
    left = jnp.where(terms.accepted, factor * terms.kept, factor)
    return like_table(table, array.at[written].add(change / factor, mode="drop"), left)


def _of_rows(state: Any, rows: dict[str, Any], tables: list[Any], names: Names) -> Any:
    """The state of the rows that were touched."""
    shapes = {
        name: split_table(table)[0].shape
        for name, table in zip(names.tables, tables, strict=True)
    }

    def cut(path, leaf):
        name = name_in(path, rows)
        if name is None:
            return leaf
        if leaf.shape != shapes[name]:
            raise ValueError(
                error_text(
                    f"OptaxTrainer: the state of {name} does not go by rows",
                    got=f"{jax.tree_util.keystr(path)} of shape {leaf.shape}",
                    expected=f"{shapes[name]}, like the table",
                    fix="trainer.set_sparse_updates(False)",
                )
            )
        return take_if_there(leaf, rows[name])

    return jax.tree.map_with_path(cut, state)


def _merged(terms: UpdateTerms, state: Any, new: Any, written: dict[str, Any]) -> Any:
    """The state with what became of it, or as it was."""

    def merge(path, old, leaf):
        name = name_in(path, written)
        if name is None:
            return jnp.where(terms.accepted, leaf, old).astype(old.dtype)
        return old.at[written[name]].set(leaf, mode="drop")

    return jax.tree.map_with_path(merge, state, new)
