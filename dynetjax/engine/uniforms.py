"""Uniforms: parameters, and matrices made of parameters, once per graph."""

from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import numpy as np

from dynetjax.dims import Shape
from dynetjax.ops.registry import KINDS, OWNERS, SIGNATURES, Kind, Op, Scaled, Signature

Array = Any


@cache
def _function(op: Op, static: tuple) -> Callable[..., Array]:
    return jax.jit(op.bind(static))


@cache
def _pullback(op: Op, static: tuple) -> Callable[..., tuple[Array, ...]]:
    @jax.jit
    def pull(operands, cotangent):
        return jax.vjp(op.bind(static), *operands)[1](cotangent)

    return pull


@cache
def _nothing(shape: Shape) -> np.ndarray:
    return np.zeros(shape, np.float32)


class Uniforms:
    """The values of a graph's uniforms, as they were when first read."""

    def __init__(self) -> None:
        self._values: dict[Kind, Array] = {}
        self._several: dict[tuple[int, ...], list[Array]] = {}

    def several(self, kinds: tuple[int, ...]) -> list[Array]:
        """The arrays of uniforms that are known by their ids."""
        found = self._several.get(kinds)
        if found is None:
            found = [self.value(KINDS[k]) for k in kinds]
            if all(KINDS[k] in self._values for k in kinds):  # a table may change
                self._several[kinds] = found
        return found

    def value(self, kind: Kind) -> Array:
        """The array of a uniform.

        One whose parameters are gone stands in a program that the graph does not run,
        and is zero.
        """
        found = self._values.get(kind)
        if found is None:
            if kind.is_parameter:
                return self._parameter(kind)
            found = self._values[kind] = self._compute(kind)
        return found

    def _parameter(self, kind: Kind) -> Array:
        """As it was when first read; a table as it is, for updates donate the old."""
        assert kind.source is not None
        storage = OWNERS.get(kind.source)
        if storage is None:
            return _nothing(kind.shape)
        if storage.is_table:
            return storage.stored
        self._values[kind] = storage.values
        return storage.values

    def _operands(self, signature: Signature) -> tuple[Array, ...]:
        """What a uniform is made of; tables as arrays."""
        found = [self.value(k) for k in signature.operands]
        return tuple(
            OWNERS[k.source].values if isinstance(value, Scaled) else value
            for k, value in zip(signature.operands, found, strict=True)
        )

    def _compute(self, kind: Kind) -> Array:
        assert kind.source is not None
        signature = SIGNATURES[kind.source]
        return _function(signature.op, signature.static)(*self._operands(signature))

    def pull_back(self, gradients: dict[int, list[Array]]) -> dict[int, list[Array]]:
        """Carry gradients of uniforms back to parameters; all of them, by kind id."""
        found = {k: list(g) for k, g in gradients.items()}
        level = max((KINDS[k].level for k in found), default=0)
        for at in range(level, 0, -1):
            for number in [k for k in found if KINDS[k].level == at]:
                self._pull(KINDS[number], total(found[number]), found)
        return found

    def _pull(
        self, kind: Kind, cotangent: Array, found: dict[int, list[Array]]
    ) -> None:
        assert kind.source is not None
        signature = SIGNATURES[kind.source]
        operands = self._operands(signature)
        pulled = _pullback(signature.op, signature.static)(operands, cotangent)
        for operand, gradient in zip(signature.operands, pulled, strict=True):
            if not operand.constant:
                found.setdefault(operand.id, []).append(gradient)


@jax.jit
def add_up(groups: list[list[Array]]) -> list[Array]:
    """The sum of each group of arrays."""
    return [sum(group[1:], group[0]) for group in groups]


def total(arrays: list[Array]) -> Array:
    """The sum of a few arrays."""
    return arrays[0] if len(arrays) == 1 else add_up([arrays])[0]
