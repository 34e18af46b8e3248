"""Weights: parameters, and matrices made of parameters, once per graph."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from dynetjax.core.dims import Shape
from dynetjax.core.lazy import at_first_call, jax
from dynetjax.core.registry import KINDS, OWNERS, Kind, Op, Scaled, Signature
from dynetjax.core.tables import forgets
from dynetjax.engine.stats import note_launch

Array = Any
KEPT = 1 << 10  # functions


@lru_cache(maxsize=KEPT)
def _functions(made: tuple[tuple[Op, tuple], ...]) -> Callable[..., list[Array]]:
    """Computes several weights in one call."""
    bound = [op.bind(static) for op, static in made]

    @jax.jit
    def run(operands):
        return [fn(*xs) for fn, xs in zip(bound, operands, strict=True)]

    return run


@lru_cache(maxsize=KEPT)
def _pullbacks(made: tuple[tuple[Op, tuple], ...]) -> Callable[..., list[tuple]]:
    """Carries the cotangents of several weights, each a list, to their operands."""
    bound = [op.bind(static) for op, static in made]

    @jax.jit
    def pull(operands, cotangents):
        return [
            jax.vjp(fn, *xs)[1](sum(cs[1:], cs[0]))
            for fn, xs, cs in zip(bound, operands, cotangents, strict=True)
        ]

    return pull


forgets(_functions.cache_clear)
forgets(_pullbacks.cache_clear)


@lru_cache(maxsize=KEPT)
def _nothing(shape: Shape) -> np.ndarray:
    return np.zeros(shape, np.float32)


class Weights:
    """The values of a graph's weights, as they were when first read.

    Args:
        arrays: of those that were read on the host, by kind id.
    """

    def __init__(self, arrays: dict[int, np.ndarray]) -> None:
        self.arrays = arrays
        self._values: dict[Kind, Array] = {}
        self._lists: dict[tuple[int, ...], tuple[list[Array], list[int]]] = {}

    def several(self, kinds: tuple[int, ...]) -> list[Array]:
        """The arrays of weights that are known by their ids."""
        known = self._lists.get(kinds)
        if known is None:
            self._compute([KINDS[k] for k in kinds])
            arrays = [self.value(KINDS[k]) for k in kinds]
            tables = [n for n, k in enumerate(kinds) if KINDS[k] not in self._values]
            self._lists[kinds] = arrays, tables
            return arrays
        arrays, tables = known
        for n in tables:  # which may have changed
            arrays[n] = self.value(KINDS[kinds[n]])
        return arrays

    def shapes(self, kinds: tuple[int, ...]) -> list[Any]:
        """What `several` gives, as shapes: nothing is computed, nor sent anywhere."""
        return [_shape_of(KINDS[number]) for number in kinds]

    def value(self, kind: Kind) -> Array:
        """The array of a weight.

        One whose parameters are gone stands in a program that the graph does not run,
        and is zero.
        """
        array = self._values.get(kind)
        if array is None:
            if kind.is_parameter:
                return self._parameter(kind)
            self._compute([kind])
            array = self._values[kind]
        return array

    def on_host(self, kind: Kind) -> np.ndarray:
        """The array of a parameter or a table on the host, as it was when first read.

        Updates write to a table's array in its place, unless somebody else has it.
        """
        array = self._values.get(kind)
        if array is None:
            storage = OWNERS.get(kind.source)
            if storage is None:
                return _nothing(kind.shape)
            if storage.is_table:
                values = storage.host_values()
                return values if values.flags.writeable else values.copy()  # JAX's
            array = self.arrays[kind.id] = storage.host_values()
        return np.ascontiguousarray(array)

    def _parameter(self, kind: Kind) -> Array:
        """A parameter's array as it was when first read, or a table's as it is now.

        A table is read live, since an update donates its old array.
        """
        assert kind.source is not None
        storage = OWNERS.get(kind.source)
        if storage is None:
            return _nothing(kind.shape)
        if storage.is_table:
            return storage.stored
        read = self.arrays.get(kind.id)
        if read is None or read is storage.host_values():
            values = storage.values
        else:  # there was an update since
            values = jax.device_put(np.array(read))
        self._values[kind] = values
        return values

    def _operands(self, signature: Signature) -> tuple[Array, ...]:
        """What a weight is made of."""
        return tuple([self._operand(kind) for kind in signature.operands])

    def _operand(self, kind: Kind) -> Array:
        """Its array; of a table all rows as users see them."""
        owner = OWNERS.get(kind.source) if kind.is_parameter else None
        if owner is not None and owner.is_table:
            return owner.values
        return self.value(kind)

    def _compute(self, kinds: list[Kind]) -> None:
        """Compute what is missing, all of a level in one call."""
        by_level: dict[int, dict[Kind, None]] = {}
        while kinds:
            missing = [k for k in kinds if not (k.is_parameter or k in self._values)]
            for kind in missing:
                by_level.setdefault(kind.level, {})[kind] = None
            kinds = [k for kind in missing for k in signature_of(kind).operands]
        for level in sorted(by_level):
            here = list(by_level[level])
            operands = [self._operands(signature_of(kind)) for kind in here]
            note_launch()
            values = _functions(_made(here))(operands)
            self._values.update(zip(here, values, strict=True))

    def pull_back(self, gradients: dict[int, list[Array]]) -> dict[int, list[Array]]:
        """Carry gradients of weights back to parameters; all of them, by kind id."""
        by_kind = {k: list(g) for k, g in gradients.items()}
        level = max((KINDS[k].level for k in by_kind), default=0)
        for at in range(level, 0, -1):
            here = [KINDS[k] for k in by_kind if KINDS[k].level == at]
            operands = [self._operands(signature_of(kind)) for kind in here]
            cotangents = [by_kind[kind.id] for kind in here]
            note_launch()
            pulled = _pullbacks(_made(here))(operands, cotangents)
            for kind, arrays in zip(here, pulled, strict=True):
                for operand, array in zip(
                    signature_of(kind).operands, arrays, strict=True
                ):
                    if not operand.constant:
                        by_kind.setdefault(operand.id, []).append(array)
        return by_kind


def _shape_of(kind: Kind) -> Any:
    storage = OWNERS.get(kind.source) if kind.is_parameter else None
    place = storage.place if storage is not None else None
    array = jax.ShapeDtypeStruct(kind.shape, np.float32, sharding=place)
    if storage is None or not storage.decays:
        return array
    return Scaled(array, jax.ShapeDtypeStruct((), np.float32))


def signature_of(kind: Kind) -> Signature:
    """What computes a weight that is no parameter."""
    assert kind.maker is not None
    return kind.maker


def _made(kinds: list[Kind]) -> tuple[tuple[Op, tuple], ...]:
    return tuple([(s.op, s.static) for s in map(signature_of, kinds)])


@at_first_call(lambda f: jax.jit(f))
def add_up(groups: list[list[Array]]) -> list[Array]:
    """The sum of each group of arrays."""
    return [sum(group[1:], group[0]) for group in groups]
