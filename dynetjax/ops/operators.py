"""Python's operators on expressions: ``+ - * @ / ** -x x[...]``, and ``< > <= >=``.

`*` is the matrix product, never element-wise, and so is `@`. Arrays become inputs.
Importing this module puts them in use.
"""

import math
import operator
from typing import Any, Final

import numpy as np

from dynetjax.core.dims import DimError
from dynetjax.core.errors import error_text
from dynetjax.core.expression import Expression
from dynetjax.native import core
from dynetjax.ops.arithmetic import (
    add,
    negate,
    pow,
    scale,
    shift,
    subtract,
    subtract_from,
)
from dynetjax.ops.arrays import index_in, is_dimensional, number_in, to_array
from dynetjax.ops.inputs import inputTensor, scalarInput
from dynetjax.ops.linear import matmul
from dynetjax.ops.selection import strided_select
from dynetjax.ops.shaping import pick, pick_range, transpose

BY_SYMBOL: Final = {"+": operator.add, "-": operator.sub, "*": operator.mul}
# What C++ calls for an order, by Python's number of it.
ORDERS: Final = (
    operator.lt,
    operator.le,
    operator.eq,
    operator.ne,
    operator.gt,
    operator.ge,
)


def _unsupported(symbol: str, left, right, fix: str) -> NotImplementedError:
    return NotImplementedError(
        error_text(
            f"{symbol}: the operands are not supported",
            got=f"{type(left).__name__} {symbol} {type(right).__name__}",
            expected="expressions, or an expression and a number or an array",
            fix=fix,
        )
    )


def _with(self, other, symbol: str, number_op, array_op, swapped: bool = False):
    """An operator on an expression and a number, or an array, which becomes an input.

    Args:
        self, other: the operands; `swapped`: `other` is the left one.
        symbol: of the operator.
        number_op: what it is for an expression and a number.
        array_op: what it is for two expressions.
    """
    number = number_in(other)
    if number is not None:
        return number_op(self, number)
    if is_dimensional(other):
        array = to_array(other)
        if array.dtype == object:  # of expressions, say
            return _with_each(self, array, BY_SYMBOL[symbol], swapped)
        if array.dtype.kind not in "SUc":
            xs = self, inputTensor(array)
            return array_op(*(xs[::-1] if swapped else xs))
    left, right = (other, self) if swapped else (self, other)
    raise _unsupported(symbol, left, right, "float(...) or inputTensor(...)")


def _with_each(self, array: np.ndarray, apply, swapped: bool) -> np.ndarray:
    results = np.empty(array.shape, object)
    for place in np.ndindex(array.shape):
        xs = self, array[place]
        results[place] = apply(*(xs[::-1] if swapped else xs))
    return results


def _add(self, other):
    return _with(self, other, "+", shift, add)


def _radd(self, other):
    if type(other) is int and other == 0:  # where sum() of a list starts
        return self
    return _with(self, other, "+", shift, add, swapped=True)


def _sub(self, other):
    return _with(self, other, "-", lambda x, number: shift(x, -number), subtract)


def _rsub(self, other):
    return _with(self, other, "-", subtract_from, subtract, swapped=True)


def _mul(self, other):
    return _with(self, other, "*", scale, matmul)


def _rmul(self, other):
    return _with(self, other, "*", scale, matmul, swapped=True)


def _truediv(self, other):
    number = number_in(other)
    if number is None:
        raise _unsupported("/", self, other, "cdiv(x, y) divides element-wise")
    return scale(self, 1 / number if number else math.copysign(math.inf, number))


def _rtruediv(self, other):
    raise _unsupported("/", other, self, "cdiv(x, y) divides element-wise")


def _pow(self, exponent):
    number = number_in(exponent)
    if number is not None:
        exponent = scalarInput(number)
    if not isinstance(exponent, Expression):
        raise _unsupported("**", self, exponent, "float(...)")
    return pow(self, exponent)


def _rpow(self, base):
    raise _unsupported("**", base, self, "exp(x * log(base))")


def _order(self, other, which: int):
    """Whether the number of an expression is below `other`, and so on."""
    number = number_in(other)
    if number is None and not isinstance(other, Expression):
        return NotImplemented
    return ORDERS[which](float(self), float(other) if number is None else number)


def _getitem(self, key):
    """``x[i]``, ``x[start:stop:step]``, or a tuple of slices, the batch last."""
    row = None if isinstance(key, (slice, tuple)) else index_in(key)
    if row is not None:
        return pick(self, _row(self, row))
    alone = not isinstance(key, tuple)
    slices = tuple(map(_plain, (key,) if alone else key))
    if not all(isinstance(part, slice) for part in slices):
        raise _bad_key(key, AssertionError if alone else AttributeError)
    if alone and slices[0].step is None:
        rows = self.dim()[0][0]
        start = 0 if slices[0].start is None else slices[0].start
        stop = rows if slices[0].stop is None else slices[0].stop
        if type(start) is int and type(stop) is int and 0 <= start < stop <= rows:
            return pick_range(self, start, stop)  # a fraction of what the rest takes
    if not alone and any(s.step is not None and s.step <= 0 for s in slices):
        raise _bad_key(key, IndexError)
    shape, batch = self.dim()
    sizes = (*shape, batch) + (0,) * len(slices)
    return strided_select(
        self,
        [1 if part.step is None else part.step for part in slices],
        [0 if part.start is None else part.start for part in slices],
        [
            size if part.stop is None else part.stop
            for part, size in zip(slices, sizes, strict=False)
        ],
    )


def _plain(part: Any) -> Any:
    """A slice with Python's ints in it."""
    if not isinstance(part, slice):
        return part
    ends = part.start, part.stop, part.step
    plain = [None if x is None else index_in(x) for x in ends]
    return slice(*[x if y is None else y for x, y in zip(ends, plain, strict=True)])


def _row(x, key: int) -> int:
    """`key` as an index from 0 on; the end of the rows also ends a ``for``."""
    rows = x.dim()[0][0]
    if not -rows <= key < rows:
        raise IndexError(
            error_text(
                "x[i]: i is out of range",
                got=int(key),
                expected=f"{-rows} <= i < {rows}",
                fix="count from 0, or from -1 backwards",
            )
        )
    return key % rows


def _bad_key(key, error: type[Exception]) -> Exception:
    return error(
        error_text(
            "x[...]: the key is not supported",
            got=f"{key!r} ({type(key).__name__})",
            expected="an int, a slice, or a tuple of slices with positive steps",
            fix="pick(x, i, dim) for other dimensions, select_rows(x, ids) for several",
        )
    )


def _transposed(self: Expression) -> Expression:
    """A matrix, transposed.

    Raises:
        DimError: it is no matrix.
    """
    dim = self.full_dim
    if len(dim.shape) != 2:
        raise DimError(
            error_text(
                "x.T: x is not a matrix",
                got=dim,
                expected="{m,n} or {m,n X b}",
                fix="transpose(x), which makes a row of a vector",
            )
        )
    return transpose(self)


setattr(Expression, "T", property(_transposed))  # noqa: B010
core.use_operators(
    (
        add,
        subtract,
        matmul,
        negate,
        shift,
        scale,
        pick,
        pick_range,
        _add,
        _radd,
        _sub,
        _rsub,
        _mul,
        _rmul,
        _truediv,
        _rtruediv,
        _pow,
        _rpow,
        _getitem,
        _order,
    )
)
