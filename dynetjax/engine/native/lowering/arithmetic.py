"""Byte code of numbers one by one, and of reductions."""

from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import Any, TypeAlias

import numpy as np

from dynetjax.engine.native.lowering.arrays import (
    Array,
    Lowering,
    NotCoveredError,
    Pieces,
    Value,
    Values,
    kind_of,
)
from dynetjax.engine.native.lowering.bytecode import Code
from dynetjax.native import core

# By primitive: opcodes for floats, ints, unsigned ints and bools; "" if there is none.
_UNARY = {
    "abs": ("ABS", "ABS_I", "", ""),
    "acos": ("ACOS", "", "", ""),
    "acosh": ("ACOSH", "", "", ""),
    "asin": ("ASIN", "", "", ""),
    "asinh": ("ASINH", "", "", ""),
    "atan": ("ATAN", "", "", ""),
    "atanh": ("ATANH", "", "", ""),
    "cbrt": ("CBRT", "", "", ""),
    "ceil": ("CEIL", "", "", ""),
    "cos": ("COS", "", "", ""),
    "cosh": ("COSH", "", "", ""),
    "digamma": ("DIGAMMA", "", "", ""),
    "clz": ("", "LEADING_ZEROS", "LEADING_ZEROS", ""),
    "erf": ("ERF", "", "", ""),
    "erfc": ("ERFC", "", "", ""),
    "population_count": ("", "POPULATION", "POPULATION", ""),
    "erf_inv": ("ERF_INV", "", "", ""),
    "exp": ("EXP", "", "", ""),
    "exp2": ("EXP2", "", "", ""),
    "expm1": ("EXPM1", "", "", ""),
    "floor": ("FLOOR", "", "", ""),
    "is_finite": ("IS_FINITE", "", "", ""),
    "lgamma": ("LGAMMA", "", "", ""),
    "log": ("LOG", "", "", ""),
    "log1p": ("LOG1P", "", "", ""),
    "logistic": ("LOGISTIC", "", "", ""),
    "neg": ("NEG", "NEG_I", "NEG_I", ""),
    "not": ("", "NOT_I", "NOT_I", "NOT_B"),
    "rsqrt": ("RSQRT", "", "", ""),
    "sign": ("SIGN", "SIGN_I", "B_FROM_I", ""),
    "sin": ("SIN", "", "", ""),
    "sinh": ("SINH", "", "", ""),
    "sqrt": ("SQRT", "", "", ""),
    "square": ("SQUARE", "", "", ""),
    "tan": ("TAN", "", "", ""),
    "tanh": ("TANH", "", "", ""),
}
_BINARY = {
    "add": ("ADD", "ADD_I", "ADD_I", ""),
    "add_any": ("ADD", "ADD_I", "ADD_I", ""),
    "and": ("", "AND", "AND", "AND"),
    "atan2": ("ATAN2", "", "", ""),
    "div": ("DIV", "DIV_I", "DIV_U", ""),
    "eq": ("EQ", "EQ_I", "EQ_I", "EQ_I"),
    "ge": ("GE", "GE_I", "GE_U", "GE_I"),
    "gt": ("GT", "GT_I", "GT_U", "GT_I"),
    "le": ("LE", "LE_I", "LE_U", "LE_I"),
    "lt": ("LT", "LT_I", "LT_U", "LT_I"),
    "max": ("MAX", "MAX_I", "MAX_U", "OR"),
    "min": ("MIN", "MIN_I", "MIN_U", "AND"),
    "mul": ("MUL", "MUL_I", "MUL_I", "AND"),
    "ne": ("NE", "NE_I", "NE_I", "NE_I"),
    "nextafter": ("NEXTAFTER", "", "", ""),
    "or": ("", "OR", "OR", "OR"),
    "rem": ("REM", "REM_I", "REM_U", ""),
    "shift_left": ("", "SHL", "SHL", ""),
    "shift_right_arithmetic": ("", "SHR_I", "SHR_I", ""),
    "shift_right_logical": ("", "SHR", "SHR", ""),
    "sub": ("SUB", "SUB_I", "SUB_I", ""),
    "xor": ("", "XOR", "XOR", "XOR"),
}
_REDUCTIONS = {
    "argmax": ("ARGMAX", "ARGMAX_I", "", "ARGMAX_I"),
    "argmin": ("ARGMIN", "ARGMIN_I", "", "ARGMIN_I"),
    "reduce_and": ("", "", "", "ALL"),
    "reduce_max": ("LARGEST", "LARGEST_I", "", "ANY"),
    "reduce_min": ("LEAST", "LEAST_I", "", "ALL"),
    "reduce_or": ("", "", "", "ANY"),
    "reduce_prod": ("PRODUCT", "", "", ""),
    "reduce_sum": ("SUM", "SUM_I", "SUM_I", ""),
}
_SCANS = {
    "cumlogsumexp": ("CUMLOGSUMEXP", "", "", ""),
    "cummax": ("CUMMAX", "", "", ""),
    "cummin": ("CUMMIN", "", "", ""),
    "cumprod": ("CUMPROD", "", "", ""),
    "cumsum": ("CUMSUM", "CUMSUM_I", "CUMSUM_I", ""),
}
_CONVERSIONS = {
    "ff": "COPY", "ii": "COPY", "uu": "COPY", "bb": "COPY", "iu": "COPY", "ui": "COPY",
    "bi": "COPY", "bu": "COPY", "if": "F_FROM_I", "bf": "F_FROM_I", "uf": "F_FROM_U",
    "fi": "I_FROM_F", "fu": "U_FROM_F", "fb": "B_FROM_F", "ib": "B_FROM_I",
    "ub": "B_FROM_I",
}  # fmt: skip


Ops: TypeAlias = tuple[str, str, str, str]


def _number_by_number(ops: Ops) -> Lowering:
    def lower(code: Code, equation: Any, operands: Values) -> Values:
        result = equation.outvars[0].aval
        arrays = [code.array(x) for x in operands]
        op = _of_kind(ops, arrays[0].kind, equation.primitive.name)
        ready = [x.like(result.shape) for x in arrays]
        return [code.map(op, kind_of(result), result.shape, *ready)]

    return lower


def _along_axes(ops: Ops, along: Callable[..., Array]) -> Lowering:
    """A reduction or a scan: `along` emits it, of an array."""

    def lower(code: Code, equation: Any, operands: Values) -> Values:
        array = code.array(operands[0])
        op = _of_kind(ops, array.kind, equation.primitive.name)
        return [along(code, op, equation, array)]

    return lower


def _of_kind(ops: Ops, kind: str, name: str) -> str:
    op = ops["fiub".index(kind)] if kind in "fiub" else ""
    if not op:
        raise NotCoveredError(f"{name} of type {kind}")
    return op


def _add(ops: Ops) -> Lowering:
    """A sum, of arrays, or of blocks that do not overlap."""
    plain = _number_by_number(ops)

    def lower(code: Code, equation: Any, operands: Values) -> Values:
        joined = _joined(*operands)
        return plain(code, equation, operands) if joined is None else [joined]

    return lower


def _joined(a: Value, b: Value) -> Pieces | None:
    """The sum of blocks that do not overlap; None if they may."""
    if not (isinstance(a, Pieces) and isinstance(b, Pieces)):
        return None
    for start, x in a.blocks:
        for other, y in b.blocks:
            apart = any(
                s + n <= t or t + m <= s
                for s, n, t, m in zip(start, x.shape, other, y.shape, strict=True)
            )
            if not apart:
                return None
    return Pieces(a.shape, a.kind, [*a.blocks, *b.blocks])


def _reduce(code: Code, op: str, equation: Any, x: Array) -> Array:
    result = equation.outvars[0].aval
    axes = [k % len(x.shape) for k in equation.params["axes"]]
    kept = [k for k in range(len(x.shape)) if k not in axes]
    count = prod(x.shape[k] for k in axes)
    outer = [k for k in kept if all(k < a for a in axes)]
    inner = [k for k in kept if axes and all(k > a for a in axes)]
    if len(outer) + len(inner) < len(kept):
        outer, inner = kept, []
    x = code.contiguous(x.transposed([*outer, *axes, *inner]))
    sizes = prod(x.shape[: len(outer)]), prod(x.shape[len(outer) + len(axes) :])
    d = code.temporary(result.shape, kind_of(result))
    return code.emit(op, d, x, n=sizes[0], m=count, k=sizes[1])


def _scan(code: Code, op: str, equation: Any, x: Array) -> Array:
    axis = equation.params["axis"]
    x = code.contiguous(x)
    sizes = prod(x.shape[:axis]), x.shape[axis], prod(x.shape[axis + 1 :])
    flags = core.REVERSED if equation.params.get("reverse") else 0
    n, m, k = sizes
    return code.emit(op, code.temporary(x.shape, x.kind), x, n=n, m=m, k=k, flags=flags)


def _convert(code: Code, equation: Any, operands: Values) -> Values:
    x, result = operands[0], equation.outvars[0].aval
    kind = kind_of(result)
    if x.kind == kind:
        return [x]
    array = code.array(x)
    if array.buffer.slot == 0 and array.is_one:
        value = np.asarray(code.pool.value(array))
        with np.errstate(all="ignore"):
            return [code.pool.constant(value.astype(result.dtype))]
    op = _CONVERSIONS[array.kind + kind]
    if op == "COPY":
        return [replace(array, kind=kind)]
    return [code.map(op, kind, result.shape, array)]


def _bitcast(code: Code, equation: Any, operands: Values) -> Values:
    array = code.array(operands[0])
    kind = kind_of(equation.outvars[0].aval)
    if "b" in (kind, array.kind):
        raise NotCoveredError("bits of bools")
    return [replace(array, kind=kind)]


def _select(code: Code, equation: Any, operands: Values) -> Values:
    result = equation.outvars[0].aval
    which, *cases = [code.array(x).like(result.shape) for x in operands]
    if which.kind == "b" and len(cases) == 2:
        d = code.map("SELECT", kind_of(result), result.shape, which, cases[1], cases[0])
        return [d]
    return [_select_case(code, which, cases)]


def _select_case(code: Code, which: Array, cases: list[Array]) -> Array:
    """Of several cases the one that a number names, number by number."""
    selected, *others = cases
    for k, case in enumerate(others, 1):
        number = code.pool.constant(np.array(k, np.int32)).broadcast(which.shape, ())
        is_it = code.map("EQ_I", "b", which.shape, which, number)
        selected = code.map("SELECT", case.kind, which.shape, is_it, case, selected)
    return selected


def _clamp(code: Code, equation: Any, operands: Values) -> Values:
    result = equation.outvars[0].aval
    low, x, high = [code.array(x).like(result.shape) for x in operands]
    suffix = {"f": "", "i": "_I", "u": "_U"}[x.kind]
    raised = code.map("MAX" + suffix, x.kind, result.shape, x, low)
    return [code.map("MIN" + suffix, x.kind, result.shape, raised, high)]


def _iota(code: Code, equation: Any, operands: Values) -> Values:
    params = equation.params
    shape, axis = params["shape"], params["dimension"]
    numbers = np.arange(shape[axis]).astype(params["dtype"])
    return [code.pool.constant(numbers).broadcast(shape, (axis,))]


def _integer_pow(code: Code, equation: Any, operands: Values) -> Values:
    y, x = equation.params["y"], code.array(operands[0])
    op = _of_kind(_BINARY["mul"], x.kind, "integer_pow")
    power, factor, rest = None, x, abs(y)
    while rest:
        if rest & 1:
            power = (
                factor
                if power is None
                else code.map(op, x.kind, x.shape, power, factor)
            )
        rest >>= 1
        if rest:
            factor = code.map(op, x.kind, x.shape, factor, factor)
    dtype = equation.outvars[0].aval.dtype
    one = code.pool.constant(np.ones((), dtype)).like(x.shape)
    if power is None:
        return [one]
    return [power if y > 0 else code.map("DIV", x.kind, x.shape, one, power)]


def _polynomial(code: Code, equation: Any, operands: Values) -> Values:
    """By Horner's rule; the coefficients come lowest degree first."""
    x, *coefficients = [code.array(v) for v in operands]
    if x.kind != "f":
        raise NotCoveredError(f"polynomial of type {x.kind}")
    *rest, total = [c.like(x.shape) for c in coefficients]
    for coefficient in reversed(rest):
        product = code.map("MUL", "f", x.shape, total, x)
        total = code.map("ADD", "f", x.shape, product, coefficient)
    return [total]


def _pow(code: Code, equation: Any, operands: Values) -> Values:
    result = equation.outvars[0].aval
    x, y = [code.array(v).like(result.shape) for v in operands]
    if x.kind != "f":
        raise NotCoveredError(f"pow of type {x.kind}")
    if y.kind != "f":
        y = code.map(_CONVERSIONS[y.kind + "f"], "f", result.shape, y)
    return [code.map("POW", "f", result.shape, x, y)]


def _round(code: Code, equation: Any, operands: Values) -> Values:
    even = int(equation.params["rounding_method"]) == 1
    x = code.array(operands[0])
    return [code.map("ROUND_EVEN" if even else "ROUND", "f", x.shape, x)]


def _one_minus_square(code: Code, equation: Any, operands: Values) -> Values:
    x = code.array(operands[0])
    if x.kind != "f":
        raise NotCoveredError(f"one_minus_square of type {x.kind}")
    one = code.pool.constant(np.ones((), np.float32)).like(x.shape)
    less = code.map("SUB", "f", x.shape, one, x)
    return [code.map("MUL", "f", x.shape, less, code.map("ADD", "f", x.shape, one, x))]


NUMBER_BY_NUMBER = frozenset({
    *_UNARY, *_BINARY, "clamp", "convert_element_type", "integer_pow", "pow",
    "round", "select_n",
})  # fmt: skip
"""Primitives whose results follow from the numbers at the same place."""

LOWERINGS: dict[str, Lowering] = {
    **{name: _number_by_number(ops) for name, ops in (_UNARY | _BINARY).items()},
    **{name: _along_axes(ops, _reduce) for name, ops in _REDUCTIONS.items()},
    **{name: _along_axes(ops, _scan) for name, ops in _SCANS.items()},
    **{name: _add(_BINARY[name]) for name in ("add", "add_any")},
    "bitcast_convert_type": _bitcast,
    "clamp": _clamp,
    "convert_element_type": _convert,
    "integer_pow": _integer_pow,
    "iota": _iota,
    "one_minus_square": _one_minus_square,
    "polynomial": _polynomial,
    "pow": _pow,
    "round": _round,
    "select_n": _select,
}
