"""Factors of matrices, and equations solved with these, as byte code."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from typing import Any

from dynetjax.core.dims import Shape
from dynetjax.engine.native.lowering.arrays import (
    Array,
    NotCoveredError,
    Value,
    side_by_side,
)
from dynetjax.engine.native.lowering.bytecode import Code
from dynetjax.native import core

Values = list[Value]


def lowerings(inline: Callable[..., Values]) -> dict[str, Callable[..., Values]]:
    """By primitive; `inline` emits the instructions of a jaxpr."""

    def linear_solve(code: Code, equation: Any, operands: Values) -> Values:
        """By the function that its maker gave; the others are for derivatives."""
        params = equation.params
        lengths, solve = params["const_lengths"], params["jaxprs"].solve
        begin = lengths.matvec + lengths.vecmat
        given = operands[begin : begin + lengths.solve]
        sides = operands[sum(lengths) :]
        return inline(code, solve.jaxpr, solve.consts, [*given, *sides])

    return {
        "cholesky": _cholesky,
        "custom_linear_solve": linear_solve,
        "lu": _lu,
        "lu_pivots_to_permutation": _permutation,
        "triangular_solve": _triangular_solve,
    }


def _lu(code: Code, equation: Any, operands: Values) -> Values:
    """Factors, with which row each changed places, and where each was."""
    x = code.contiguous(operands[0])
    *lead, rows, columns = x.shape
    lines, count = tuple(lead), min(rows, columns)
    words = rows * columns + count + rows
    d = code.temporary((*lines, words), "f")
    code.emit("FACTORISE", d, x, n=prod(lines), m=rows, k=columns)
    code.made.pop(d.buffer, None)

    def part(offset: int, shape: Shape, kind: str) -> Array:
        strides = (*d.strides[:-1], *side_by_side(shape))
        return replace(
            d, offset=offset, shape=(*lines, *shape), strides=strides, kind=kind
        )

    at = rows * columns
    return [
        part(0, (rows, columns), "f"),
        part(at, (count,), "i"),
        part(at + count, (rows,), "i"),
    ]


def _permutation(code: Code, equation: Any, operands: Values) -> Values:
    raise NotCoveredError("lu_pivots_to_permutation")


def _triangular_solve(code: Code, equation: Any, operands: Values) -> Values:
    params = equation.params
    a, b = [code.array(x) for x in operands]
    turned, lower = params["transpose_a"], params["lower"]
    if not params["left_side"]:  # x a = b is a' x' = b'
        turned, b = not turned, b.transposed(_turned(b))
    if turned:
        a, lower = a.transposed(_turned(a)), not lower
    a, b = code.contiguous(a), code.contiguous(b)
    flags = (core.LOWER if lower else 0) | (core.UNIT if params["unit_diagonal"] else 0)
    d = code.temporary(b.shape, "f")
    n, m, k = prod(b.shape[:-2]), b.shape[-2], b.shape[-1]
    code.emit("SOLVE_TRIANGLE", d, a, b, n=n, m=m, k=k, flags=flags)
    return [d if params["left_side"] else d.transposed(_turned(d))]


def _turned(x: Array) -> Sequence[int]:
    """The axes of a matrix turned, those before them as they are."""
    count = len(x.shape)
    return [*range(count - 2), count - 1, count - 2]


def _cholesky(code: Code, equation: Any, operands: Values) -> Values:
    x = code.contiguous(operands[0])
    d = code.temporary(x.shape, "f")
    return [code.emit("CHOLESKY", d, x, n=prod(x.shape[:-2]), m=x.shape[-1])]
