"""Byte code of products."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from math import prod
from typing import Any

from dynetjax.core.dims import Shape
from dynetjax.engine.native.lowering.arrays import (
    Array,
    Lowering,
    NotCoveredError,
    Values,
    side_by_side,
)
from dynetjax.engine.native.lowering.bytecode import Code


def _dot_general(code: Code, equation: Any, operands: Values) -> Values:
    (left, right), (left_batch, right_batch) = equation.params["dimension_numbers"]
    a, b = [code.array(x) for x in operands]
    result = equation.outvars[0].aval
    if a.kind != b.kind or a.kind not in "fiu":
        raise NotCoveredError(f"a product of types {a.kind} and {b.kind}")
    rows = [k for k in range(len(a.shape)) if k not in (*left, *left_batch)]
    columns = [k for k in range(len(b.shape)) if k not in (*right, *right_batch)]
    a = a.transposed([*left_batch, *rows, *left])
    b = b.transposed([*right_batch, *right, *columns])
    batches, counts = len(left_batch), len(left)
    a = _merged(code, a, (batches, len(rows), counts))
    b = _merged(code, b, (batches, counts, len(columns)))
    if a.kind != "f":
        return [_int_product(code, a, b, result.shape)]
    found = product(code, a, b)
    shape = tuple(result.shape)
    return [replace(found, shape=shape, strides=side_by_side(shape))]


def product(code: Code, a: Array, b: Array) -> Array:
    """``[B, n, k]`` of floats a[B, n, m] and b[B, m, k]."""
    (batch, n, m), (_, _, k) = a.shape, b.shape
    d = code.temporary((batch, n, k), "f")
    # an axis of one number is as far apart as it takes to be side by side
    extra = code.pool.note(batch, *_distances(a), *_distances(b))
    return code.emit("MATMUL", d, a, b, n=n, m=m, k=k, extra=extra)


def _int_product(code: Code, a: Array, b: Array, shape: Sequence[int]) -> Array:
    """Of ints a[B, n, m] and b[B, m, k], in `shape`."""
    (batch, n, m), k = a.shape, b.shape[-1]
    sizes = batch, n, k, m
    left = a.broadcast(sizes, (0, 1, 3))
    right = b.transposed((0, 2, 1)).broadcast(sizes, (0, 2, 3))
    every = code.map("MUL_I", a.kind, sizes, left, right)
    d = code.temporary(tuple(shape), a.kind)
    return code.emit("SUM_I", d, code.contiguous(every), n=batch * n * k, m=m, k=1)


def _distances(x: Array) -> list[int]:
    return [s if n > 1 else 0 for n, s in zip(x.shape, x.strides, strict=True)]


def _merged(code: Code, x: Array, counts: tuple[int, int, int]) -> Array:
    """`x` with one axis for each group of its axes; `counts` are the groups' sizes."""
    for attempt in x, None:
        array = code.contiguous(x) if attempt is None else attempt
        at, shape, strides = 0, [], []
        for count in counts:
            sizes = array.shape[at : at + count]
            strides.append(_as_one(sizes, array.strides[at : at + count]))
            at += count
            shape.append(prod(sizes))
        apart = [s for s in strides if s is not None]
        if len(apart) == len(strides) and min(apart) >= 0:
            return replace(array, shape=tuple(shape), strides=tuple(apart))
    raise AssertionError("numbers that lie side by side have axes to be merged")


def _as_one(sizes: Shape, strides: tuple[int, ...]) -> int | None:
    """How far apart the numbers of several axes are, taken as one; None if unevenly."""
    axes = [(n, s) for n, s in zip(sizes, strides, strict=True) if n != 1]
    if not axes:
        return 0
    for (_, outer), (n, inner) in pairwise(axes):
        if outer != n * inner:
            return None
    return axes[-1][1]


LOWERINGS: dict[str, Lowering] = {"dot_general": _dot_general}
