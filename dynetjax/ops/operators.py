"""Python's operators on expressions: ``+ - * / ** -x x[...]``.

`*` is the matrix product, never element-wise. Importing this module puts them in use.
"""

import math
from typing import Final

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
from dynetjax.ops.inputs import scalarInput
from dynetjax.ops.linear import matmul
from dynetjax.ops.selection import strided_select
from dynetjax.ops.shaping import pick, pick_range

NUMBER: Final = (int, float)


def _unsupported(symbol: str, left, right, fix: str) -> NotImplementedError:
    return NotImplementedError(
        error_text(
            f"{symbol}: the operands are not supported",
            got=f"{type(left).__name__} {symbol} {type(right).__name__}",
            expected="expressions, or an expression and a Python number",
            fix=fix,
        )
    )


def _add(self, other):
    if isinstance(other, NUMBER):
        return shift(self, other)
    raise _unsupported("+", self, other, "float(...) or inputTensor(...)")


def _radd(self, other):
    if type(other) is int and other == 0:  # where sum() of a list starts
        return self
    return _add(self, other)


def _sub(self, other):
    if isinstance(other, NUMBER):
        return shift(self, -other)
    raise _unsupported("-", self, other, "float(...) or inputTensor(...)")


def _rsub(self, other):
    if isinstance(other, NUMBER):
        return subtract_from(self, other)
    raise _unsupported("-", other, self, "float(...) or inputTensor(...)")


def _mul(self, other):
    if isinstance(other, NUMBER):
        return scale(self, other)
    raise _unsupported("*", self, other, "float(...) or inputTensor(...)")


def _truediv(self, other):
    if not isinstance(other, NUMBER):
        raise _unsupported("/", self, other, "cdiv(x, y) divides element-wise")
    return scale(self, 1 / other if other else math.copysign(math.inf, other))


def _rtruediv(self, other):
    raise _unsupported("/", other, self, "cdiv(x, y) divides element-wise")


def _pow(self, exponent):
    if isinstance(exponent, NUMBER):
        exponent = scalarInput(exponent)
    if not isinstance(exponent, Expression):
        raise _unsupported("**", self, exponent, "float(...)")
    return pow(self, exponent)


def _rpow(self, base):
    raise _unsupported("**", base, self, "exp(x * log(base))")


def _getitem(self, key):
    """``x[i]``, ``x[start:stop:step]``, or a tuple of slices, the batch last."""
    if isinstance(key, int):
        return pick(self, _row(self, key))
    if isinstance(key, slice) and key.step is None:
        rows = self.dim()[0][0]
        start = 0 if key.start is None else key.start
        stop = rows if key.stop is None else key.stop
        if type(start) is int and type(stop) is int and 0 <= start < stop <= rows:
            return pick_range(self, start, stop)  # a fraction of what the rest takes
    slices = key if isinstance(key, tuple) else (key,)
    if not all(isinstance(part, slice) for part in slices):
        raise _bad_key(key, AttributeError if slices is key else AssertionError)
    if slices is key and any(s.step is not None and s.step <= 0 for s in slices):
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
            fix="int(...) for NumPy numbers, pick(x, i, dim) for other dimensions",
        )
    )


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
        _truediv,
        _rtruediv,
        _pow,
        _rpow,
        _getitem,
    )
)
