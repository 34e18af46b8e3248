"""Arrays of byte code: where in memory numbers are.

An `Array` is a view: a buffer, an offset and how far apart its numbers are along each
axis. So slices, transposes, reshapes and broadcasts cost nothing until an instruction
asks for numbers side by side. `Pieces` is an array of zeros but for some blocks: a
concatenation, or the gradient of a slice, each of whose blocks may go its own way.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, TypeAlias

import numpy as np

from dynetjax.core.dims import Shape
from dynetjax.core.lazy import jax


class NotCoveredError(Exception):
    """There is no byte code for a primitive."""


@dataclass(eq=False, slots=True)
class Buffer:
    """Words that each lane has in a slot.

    Attributes:
        size: how many.
        stride: from one lane to the next; `size`, 0 where all lanes have the same, or
            `DYNAMIC`.
        start: where it begins, if others share the slot.
    """

    slot: int
    size: int
    stride: int
    start: int = 0


@dataclass(frozen=True, eq=False, slots=True)
class Array:
    """A view of a buffer.

    Attributes:
        kind: "f", "i", "u" or "b": float, int, unsigned or bool, all of 32 bits; "k"
            for a random key of two words, which is no axis.
        strides: how far apart numbers are along each axis.
    """

    buffer: Buffer
    offset: int
    shape: Shape
    strides: tuple[int, ...]
    kind: str

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def is_contiguous(self) -> bool:
        """Whether its numbers lie side by side, in order."""
        apart = 1
        for n, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if n != 1 and stride != apart:
                return False
            apart *= n
        return True

    @property
    def is_one(self) -> bool:
        """Whether one word stands for all."""
        pairs = zip(self.shape, self.strides, strict=True)
        return all(n == 1 or not stride for n, stride in pairs)

    @property
    def is_whole(self) -> bool:
        """Whether it is all of its buffer, in order."""
        return (
            self.offset == 0
            and self.size == self.buffer.size
            and (self.is_contiguous or self.size == 1)
        )

    def broadcast(self, shape: Shape, axes: Sequence[int]) -> "Array":
        """A view in `shape`: `axes` are those of this array, others repeat it."""
        strides = [0] * len(shape)
        for axis, n, stride in zip(axes, self.shape, self.strides, strict=True):
            strides[axis] = stride if n != 1 else 0
        return replace(self, shape=tuple(shape), strides=tuple(strides))

    def like(self, shape: Shape) -> "Array":
        """A view in `shape`: axes of size 1 are repeated, and so is a single number."""
        if self.shape == tuple(shape):
            return self
        return self.broadcast(shape, range(len(self.shape)))

    def transposed(self, axes: Sequence[int]) -> "Array":
        shape = tuple([self.shape[k] for k in axes])
        return replace(
            self, shape=shape, strides=tuple([self.strides[k] for k in axes])
        )

    def part(
        self, starts: Sequence[int], shape: Shape, steps: Sequence[int] | None = None
    ) -> "Array":
        """The block that begins at `starts`; with `steps`, some of its numbers."""
        steps = steps or [1] * len(starts)
        offset = self.offset
        for start, stride in zip(starts, self.strides, strict=True):
            offset += start * stride
        strides = [s * by for s, by in zip(self.strides, steps, strict=True)]
        return replace(self, offset=offset, shape=shape, strides=tuple(strides))

    def reshaped(self, shape: Shape) -> "Array | None":
        """In another shape; None if its numbers would have to move."""
        if self.is_contiguous:
            return replace(self, shape=shape, strides=side_by_side(shape))
        if self.is_one:
            return replace(self, shape=shape, strides=(0,) * len(shape))
        pairs = zip(self.shape, self.strides, strict=True)
        long_axes = [(n, s) for n, s in pairs if n != 1]
        rest, strides = iter(long_axes), []
        for n in shape:  # the same axes, with others of size 1 among them
            if n == 1:
                strides.append(0)
                continue
            size, stride = next(rest, (0, 0))
            if size != n:
                return None
            strides.append(stride)
        return replace(self, shape=shape, strides=tuple(strides))


@dataclass(eq=False, slots=True)
class Pieces:
    """Zeros, but for blocks that do not overlap; each has its start."""

    shape: Shape
    kind: str
    blocks: list[tuple[tuple[int, ...], Array]]

    @property
    def size(self) -> int:
        return prod(self.shape)


Value: TypeAlias = Array | Pieces


def side_by_side(shape: Shape) -> tuple[int, ...]:
    """How far apart numbers of a contiguous array are along each axis."""
    strides, apart = [], 1
    for n in reversed(shape):
        strides.append(apart)
        apart *= n
    return tuple(reversed(strides))


def kind_of(aval: Any) -> str:
    """Of a traced value: see `Array.kind`.

    Raises:
        NotCoveredError: its numbers are of another type.
    """
    if jax.dtypes.issubdtype(aval.dtype, jax.dtypes.prng_key):
        return "k"
    kind = np.dtype(aval.dtype).kind
    if kind not in "fiub" or np.dtype(aval.dtype).itemsize != (1 if kind == "b" else 4):
        raise NotCoveredError(f"numbers of type {aval.dtype}")
    return kind


Values: TypeAlias = list[Value]
Lowering: TypeAlias = Callable[..., Values]  # of code, an equation and its operands
