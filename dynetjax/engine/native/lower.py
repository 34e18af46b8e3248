"""From jaxprs to byte code, primitive by primitive."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from math import prod
from typing import Any

import jax
import numpy as np
from jax.extend.core import Literal

from dynetjax.dims import Shape
from dynetjax.engine.native import (
    blocks,
    fourier,
    further,
    loops,
    matrices,
    windows,
)
from dynetjax.engine.native.bytecode import (
    INTS,
    REVERSED,
    Array,
    Code,
    NotCoveredError,
    Pieces,
    Value,
    side_by_side,
)

Values = list[Value]
Lowering = Callable[[Code, Any, Values], Values]

_CALLS = {
    "jit",
    "pjit",
    "closed_call",
    "core_call",
    "custom_jvp_call",
    "custom_vjp_call",
    "checkpoint",
    "remat",
    "remat2",
}
_SAME = {
    "stop_gradient",
    "copy",
    "copy_p",
    "device_put",
    "optimization_barrier",
    "random_wrap",
    "random_unwrap",
}
_RESHAPES = {"reshape", "squeeze", "expand_dims"}
# By primitive: opcodes for floats, ints, unsigned ints and bools; "" if there is none.
_UNARY = {
    "abs": ("ABS", "ABS_I", "COPY", ""),
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
    "erf": ("ERF", "", "", ""),
    "clz": ("", "LEADING_ZEROS", "LEADING_ZEROS", ""),
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
    "pow": ("POW", "", "", ""),
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
_NUMPY: dict[str, Callable[..., Any]] = {  # of constants, what can be told at once
    "add": np.add,
    "eq": np.equal,
    "ge": np.greater_equal,
    "gt": np.greater,
    "le": np.less_equal,
    "lt": np.less,
    "max": np.maximum,
    "min": np.minimum,
    "mul": np.multiply,
    "ne": np.not_equal,
    "neg": np.negative,
    "sub": np.subtract,
}


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


def inline(code: Code, jaxpr: Any, consts: Sequence[Any], given: Values) -> Values:
    """Emit the instructions of a jaxpr; what its results are."""
    names: dict[Any, Value] = dict(zip(jaxpr.invars, given, strict=True))
    for var, value in zip(jaxpr.constvars, consts, strict=True):
        names[var] = _constant(code, value)

    def value_of(atom: Any) -> Value:
        if isinstance(atom, Literal):
            aval: Any = atom.aval
            if getattr(aval.dtype, "kind", "") == "c":
                return fourier.constant(code, np.asarray(atom.val, aval.dtype))
            return code.pool.constant(np.asarray(atom.val, aval.dtype))
        return names[atom]

    for equation in jaxpr.eqns:
        results = _equation(code, equation, [value_of(x) for x in equation.invars])
        names.update(zip(equation.outvars, results, strict=True))
    return [value_of(x) for x in jaxpr.outvars]


def _constant(code: Code, value: Any) -> Value:
    if jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
        raise NotCoveredError("a random key that is the same in every run")
    if value.dtype.kind == "c":
        return fourier.constant(code, np.asarray(value))
    return code.pool.constant(np.asarray(value))


def _equation(code: Code, equation: Any, operands: Values) -> Values:
    name, params = equation.primitive.name, equation.params
    if name in _CALLS:
        inner = params.get("jaxpr") or params.get("call_jaxpr") or params["fun_jaxpr"]
        jaxpr, consts = getattr(inner, "jaxpr", inner), getattr(inner, "consts", ())
        return inline(code, jaxpr, consts, operands)
    if name in _SAME:
        return operands
    if fourier.is_complex(equation, operands):
        return fourier.Parts(code, _equation, equation).results(operands)
    known = _at_once(code, equation, operands)
    if known is not None:
        return [known]
    if name in _BINARY and len(operands) == 2 and name in ("add_any", "add"):
        together = _joined(*operands)
        if together is not None:
            return [together]
    lowering = _LOWERINGS.get(name)
    if lowering is not None:
        return lowering(code, equation, operands)
    if len(equation.outvars) > 1:
        raise NotCoveredError(name)
    result = equation.outvars[0].aval
    arrays = [code.array(x) for x in operands]
    for table in _UNARY, _BINARY:
        if name in table:
            op = _of_kind(table[name], arrays[0].kind, name)
            ready = [_like(x, result.shape) for x in arrays]
            return [code.map(op, kind_of(result), result.shape, *ready)]
    for table, lower in (_REDUCTIONS, _reduce), (_SCANS, _scan):
        if name in table:
            op = _of_kind(table[name], arrays[0].kind, name)
            return [lower(code, op, equation, arrays[0])]
    raise NotCoveredError(name)


def _of_kind(ops: tuple[str, str, str, str], kind: str, name: str) -> str:
    op = ops["fiub".index(kind)] if kind in "fiub" else ""
    if not op:
        raise NotCoveredError(f"{name} of type {kind}")
    return op


def _like(x: Array, shape: Shape) -> Array:
    """As `shape`: a number, or an array with axes of size 1 where it has others."""
    if x.shape == tuple(shape):
        return x
    return x.broadcast(shape, range(len(x.shape)))


def _at_once(code: Code, equation: Any, operands: Values) -> Value | None:
    """What an equation comes to if its operands are constants; None if they are not."""
    compute = _NUMPY.get(equation.primitive.name)
    if compute is None or len(equation.outvars) != 1:
        return None
    values = []
    for x in operands:
        if isinstance(x, Pieces) or x.buffer.slot or x.size > 4096:
            return None
        values.append(code.pool.value(x))
    with np.errstate(all="ignore"):
        result = equation.outvars[0].aval
        found = np.broadcast_to(compute(*values), result.shape)
    return code.pool.constant(found.astype(result.dtype))


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
    flags = REVERSED if equation.params.get("reverse") else 0
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


def _reshape(code: Code, equation: Any, operands: Values) -> Values:
    x, shape = operands[0], equation.outvars[0].aval.shape
    is_reshape = equation.primitive.name == "reshape"
    if is_reshape and equation.params["dimensions"] is not None:
        x = code.array(x).transposed(equation.params["dimensions"])
    if isinstance(x, Pieces):
        found = _pieces_reshaped(x, shape)
        if found is not None:
            return [found]
    array = code.array(x)
    return [array.reshaped(shape) or _cast(code.contiguous(array), shape)]


def _cast(x: Array, shape: Shape) -> Array:
    return replace(x, shape=tuple(shape), strides=side_by_side(shape))


def _pieces_reshaped(x: Pieces, shape: Shape) -> Pieces | None:
    """Blocks of what differs in axes of size 1 only; None if more does."""
    mine = [k for k, n in enumerate(x.shape) if n != 1]
    its = [k for k, n in enumerate(shape) if n != 1]
    if [x.shape[k] for k in mine] != [shape[k] for k in its]:
        return None
    blocks = []
    for start, block in x.blocks:
        place, size = [0] * len(shape), [1] * len(shape)
        for k, j in zip(mine, its, strict=True):
            place[j], size[j] = start[k], block.shape[k]
        other = block.reshaped(tuple(size))
        if other is None:
            return None
        blocks.append((tuple(place), other))
    return Pieces(tuple(shape), x.kind, blocks)


def _broadcast(code: Code, equation: Any, operands: Values) -> Values:
    about = equation.params
    x = code.array(operands[0])
    return [x.broadcast(about["shape"], about["broadcast_dimensions"])]


def _transpose(code: Code, equation: Any, operands: Values) -> Values:
    axes, x = equation.params["permutation"], operands[0]
    if isinstance(x, Pieces):
        blocks = [
            (tuple([s[k] for k in axes]), b.transposed(axes)) for s, b in x.blocks
        ]
        return [Pieces(tuple([x.shape[k] for k in axes]), x.kind, blocks)]
    return [x.transposed(axes)]


def _slice(code: Code, equation: Any, operands: Values) -> Values:
    about = equation.params
    starts, steps = about["start_indices"], about["strides"]
    shape = equation.outvars[0].aval.shape
    x = operands[0]
    if isinstance(x, Pieces) and steps is None:
        for start, block in x.blocks:  # of a concatenation, a part of one block
            inside = [s - t for s, t in zip(starts, start, strict=True)]
            fits = zip(inside, shape, block.shape, strict=True)
            if all(at >= 0 and at + n <= m for at, n, m in fits):
                return [block.part(inside, shape)]
    return [code.array(x).part(starts, shape, steps)]


def _reverse(code: Code, equation: Any, operands: Values) -> Values:
    x = code.array(operands[0])
    axes = equation.params["dimensions"]
    offset, strides = x.offset, [*x.strides]
    for k in axes:
        offset += (x.shape[k] - 1) * strides[k]
        strides[k] = -strides[k]
    turned = replace(x, offset=offset, strides=tuple(strides))
    return [code.copy(code.temporary(x.shape, x.kind), turned)]


def _split(code: Code, equation: Any, operands: Values) -> Values:
    axis, sizes = equation.params["axis"], equation.params["sizes"]
    x = operands[0]
    found: Values = []
    ends = [*accumulate(map(int, sizes))]
    whole = None
    for end, var in zip(ends, equation.outvars, strict=True):
        shape = var.aval.shape
        start = [0] * len(shape)
        start[axis] = end - shape[axis]
        if isinstance(x, Pieces):
            same = [b for s, b in x.blocks if s == tuple(start) and b.shape == shape]
            if same:
                found.append(same[0])
                continue
        if whole is None:
            whole = code.array(x)
        found.append(whole.part(start, shape))
    return found


def _unstack(code: Code, equation: Any, operands: Values) -> Values:
    axis, x = equation.params["axis"], code.array(operands[0])
    found: Values = []
    for k, var in enumerate(equation.outvars):
        start, shape = [0] * len(x.shape), [*x.shape]
        start[axis], shape[axis] = k, 1
        part = x.part(start, tuple(shape))
        strides = part.strides[:axis] + part.strides[axis + 1 :]
        found.append(replace(part, shape=tuple(var.aval.shape), strides=strides))
    return found


def _concatenate(code: Code, equation: Any, operands: Values) -> Values:
    axis, result = equation.params["dimension"], equation.outvars[0].aval
    blocks, at = [], 0
    for x in operands:
        for start, block in (
            x.blocks if isinstance(x, Pieces) else [((0,) * len(result.shape), x)]
        ):
            place = [*start]
            place[axis] += at
            blocks.append((tuple(place), block))
        at += x.shape[axis]
    return [Pieces(tuple(result.shape), kind_of(result), blocks)]


def _stack(code: Code, equation: Any, operands: Values) -> Values:
    axis, result = equation.params["axis"], equation.outvars[0].aval
    blocks = []
    for k, x in enumerate(operands):
        array = code.array(x)
        place = [0] * len(result.shape)
        place[axis] = k
        shape = (*array.shape[:axis], 1, *array.shape[axis:])
        strides = (*array.strides[:axis], 0, *array.strides[axis:])
        blocks.append((tuple(place), replace(array, shape=shape, strides=strides)))
    return [Pieces(tuple(result.shape), kind_of(result), blocks)]


def _pad(code: Code, equation: Any, operands: Values) -> Values:
    x, fill = operands[0], code.array(operands[1])
    config, result = equation.params["padding_config"], equation.outvars[0].aval
    plain = all(low >= 0 and high >= 0 and not between for low, high, between in config)
    lows = tuple([int(low) for low, _, _ in config])
    if plain and code.pool.number(fill) == 0:
        blocks = x.blocks if isinstance(x, Pieces) else [((0,) * len(lows), x)]
        moved = [
            (tuple([a + b for a, b in zip(s, lows, strict=True)]), block)
            for s, block in blocks
        ]
        return [Pieces(tuple(result.shape), x.kind, moved)]
    d = code.temporary(result.shape, x.kind)
    code.copy(d, _like(fill, result.shape))
    array = code.array(x)
    starts, places, sizes, steps = [], [], [], []
    for n, (low, high, between) in zip(array.shape, config, strict=True):
        step = int(between) + 1
        first = max(0, -(int(low) // step)) if low < 0 else 0
        room = (n - 1) * step + 1 + int(low) + int(high)  # of the result
        places.append(int(low) + first * step)
        starts.append(first)
        sizes.append(max(0, min(n - first, -(-(room - places[-1]) // step))))
        steps.append(step)
    if prod(sizes):
        block = array.part(starts, tuple(sizes))
        code.copy(d.part(places, tuple(sizes), steps), block)
    code.made.pop(d.buffer, None)
    return [d]


def _select(code: Code, equation: Any, operands: Values) -> Values:
    result = equation.outvars[0].aval
    which, *cases = [_like(code.array(x), result.shape) for x in operands]
    if which.kind == "b" and len(cases) == 2:
        d = code.map("SELECT", kind_of(result), result.shape, which, cases[1], cases[0])
        return [d]
    return [further.select(code, which, cases)]


def _clamp(code: Code, equation: Any, operands: Values) -> Values:
    result = equation.outvars[0].aval
    low, x, high = [_like(code.array(x), result.shape) for x in operands]
    suffix = {"f": "", "i": "_I", "u": "_U"}[x.kind]
    found = code.map("MAX" + suffix, x.kind, result.shape, x, low)
    return [code.map("MIN" + suffix, x.kind, result.shape, found, high)]


def _iota(code: Code, equation: Any, operands: Values) -> Values:
    about = equation.params
    shape, axis = about["shape"], about["dimension"]
    numbers = np.arange(shape[axis]).astype(about["dtype"])
    return [code.pool.constant(numbers).broadcast(shape, (axis,))]


def _integer_pow(code: Code, equation: Any, operands: Values) -> Values:
    y, x = equation.params["y"], code.array(operands[0])
    op = _of_kind(_BINARY["mul"], x.kind, "integer_pow")
    found, factor, rest = None, x, abs(y)
    while rest:
        if rest & 1:
            found = (
                factor
                if found is None
                else code.map(op, x.kind, x.shape, found, factor)
            )
        rest >>= 1
        if rest:
            factor = code.map(op, x.kind, x.shape, factor, factor)
    one = _like(code.pool.constant(np.ones((), np.float32)), x.shape)
    if found is None:
        return [one]
    return [found if y > 0 else code.map("DIV", x.kind, x.shape, one, found)]


def _round(code: Code, equation: Any, operands: Values) -> Values:
    even = int(equation.params["rounding_method"]) == 1
    x = code.array(operands[0])
    return [code.map("ROUND_EVEN" if even else "ROUND", "f", x.shape, x)]


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
        return [further.int_product(code, a, b, result.shape)]
    (batch, n, m), (_, _, k) = a.shape, b.shape
    d = code.temporary(result.shape, "f")
    # an axis of one number is as far apart as it takes to be side by side
    extra = code.pool.note(batch, *_distances(a), *_distances(b))
    code.emit("MATMUL", d, a, b, n=n, m=m, k=k, extra=extra)
    return [d]


def _distances(x: Array) -> list[int]:
    return [s if n > 1 else 0 for n, s in zip(x.shape, x.strides, strict=True)]


def _merged(code: Code, x: Array, counts: tuple[int, int, int]) -> Array:
    """As many axes as there are groups, each of so many of them in turn."""
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


def _starts(code: Code, operands: Values) -> Array:
    """Places along each axis, as one array."""
    d = code.temporary((len(operands),), "i")
    for k, x in enumerate(operands):
        code.copy(d.part((k,), (1,)), _like(code.array(x), (1,)))
    code.made.pop(d.buffer, None)
    return d


def _dynamic_slice(code: Code, equation: Any, operands: Values) -> Values:
    x = code.contiguous(operands[0])
    result = equation.outvars[0].aval
    at = _starts(code, operands[1:])
    axes = zip(result.shape, x.shape, x.strides, strict=True)
    extra = code.pool.note(len(x.shape), *[v for axis in axes for v in axis])
    d = code.temporary(result.shape, x.kind)
    return [code.emit("SLICE_AT", d, x, at, n=result.size, extra=extra)]


def _dynamic_update_slice(code: Code, equation: Any, operands: Values) -> Values:
    whole, block = operands[0], code.contiguous(operands[1])
    at = _starts(code, operands[2:])
    array = code.array(whole)
    d = code.copy(code.temporary(array.shape, array.kind), array)
    axes = zip(block.shape, d.shape, d.strides, strict=True)
    extra = code.pool.note(len(d.shape), *[v for axis in axes for v in axis])
    code.emit("PUT_AT", d, block, at, n=block.size, extra=extra)
    code.made.pop(d.buffer, None)
    return [d]


def _random_bits(code: Code, equation: Any, operands: Values) -> Values:
    result = equation.outvars[0].aval
    aval = equation.invars[0].aval
    is_threefry = str(aval.dtype) == "key<fry>" and not aval.shape
    partitionable = getattr(jax.config, "jax_threefry_partitionable", False)
    if not (is_threefry and partitionable):
        raise NotCoveredError("random bits of another generator")
    if equation.params["bit_width"] != 32:
        raise NotCoveredError("random numbers of another size than 32 bits")
    d = code.temporary(result.shape, "u")
    key = code.array(operands[0])
    return [code.emit("RANDOM_BITS", d, key, n=d.size)]


def _sort(code: Code, equation: Any, operands: Values) -> Values:
    about = equation.params
    axis = about["dimension"]
    arrays = [code.array(x) for x in operands]
    order = [*[k for k in range(len(arrays[0].shape)) if k != axis], axis]
    ready = [code.contiguous(x.transposed(order)) for x in arrays]
    places = further.order(code, ready[: about["num_keys"]], _taken)
    back = np.argsort(order).tolist()
    return [_taken(code, x, places).transposed(back) for x in ready]


def _order_of(code: Code, x: Array) -> Array:
    count = x.shape[-1]
    d = code.temporary(x.shape, "i")
    flags = INTS if x.kind == "i" else 0
    return code.emit("SORT_ORDER", d, x, n=x.size // count, m=count, flags=flags)


def _taken(code: Code, x: Array, places: Array) -> Array:
    """Numbers of the last axis at these places of it."""
    count, room = places.shape[-1], x.shape[-1]
    d = code.temporary(places.shape, x.kind)
    places = code.contiguous(places)
    outer = places.size // count
    return code.emit("TAKE", d, code.contiguous(x), places, n=outer, m=count, k=room)


def _top_k(code: Code, equation: Any, operands: Values) -> Values:
    x, count = code.array(operands[0]), equation.params["k"]
    axis = equation.params.get("axis", -1) % len(x.shape)
    order = [*[k for k in range(len(x.shape)) if k != axis], axis]
    ready = code.contiguous(x.transposed(order))
    # JAX has NaN before all, and equal numbers as they come
    least = code.map("NEG", "f", ready.shape, ready)
    is_nan = code.map("NE", "b", ready.shape, ready, ready)
    lowest = code.pool.constant(np.full(ready.shape, -np.inf, np.float32))
    keys = code.map("SELECT", "f", ready.shape, is_nan, lowest, least)
    places = _order_of(code, keys)
    some = places.part([0] * len(order), (*places.shape[:-1], count))
    some = code.contiguous(some)
    back = np.argsort(order).tolist()
    return [_taken(code, ready, some).transposed(back), some.transposed(back)]


def _gather(code: Code, equation: Any, operands: Values) -> Values:
    """Single numbers of the last axis, for each place of the axes before it."""
    about = equation.params
    x, places = [code.array(v) for v in operands]
    numbers = about["dimension_numbers"]
    lines = (
        tuple(numbers.operand_batching_dims),
        tuple(numbers.start_indices_batching_dims),
    )
    single = all(n == 1 for n in about["slice_sizes"]) and not numbers.offset_dims
    if not single or not _along_lines(x, places, numbers.collapsed_slice_dims, lines):
        return blocks.gather(code, equation, operands)
    which = code.contiguous(places.reshaped(places.shape[:-1]) or places)
    room = x.shape[-1]
    if "FILL" in str(about["mode"]) and x.kind != "f":
        return blocks.gather(code, equation, operands)
    if "FILL" not in str(about["mode"]):
        which = _clamped(code, which, room)
    elif about["fill_value"] is not None and not np.isnan(about["fill_value"]):
        return blocks.gather(code, equation, operands)
    outer = x.size // room
    d = code.temporary(equation.outvars[0].aval.shape, x.kind)
    x, count = code.contiguous(x), d.size // outer
    return [code.emit("TAKE", d, x, which, n=outer, m=count, k=room)]


def _along_lines(x: Array, places: Array, dropped: Any, lines: tuple) -> bool:
    """Whether each place is one of the last axis, and all others go side by side."""
    last = len(x.shape) - 1
    every = tuple(range(last))
    return (
        tuple(dropped) == (last,)
        and lines == (every, every)
        and places.shape[-1] == 1
        and places.kind in "iu"
        and (last == 0 or len(places.shape) == last + 2)
    )


def _clamped(code: Code, places: Array, room: int) -> Array:
    low, high = [
        code.pool.constant(np.full(places.shape, n, np.int32)) for n in (0, room - 1)
    ]
    found = code.map("MAX_I", "i", places.shape, places, low)
    return code.map("MIN_I", "i", places.shape, found, high)


def _scatter_add(code: Code, equation: Any, operands: Values) -> Values:
    """Single numbers added to places of the last axis."""
    about = equation.params
    x, places, updates = [code.array(v) for v in operands]
    numbers = about["dimension_numbers"]
    lines = (
        tuple(numbers.operand_batching_dims),
        tuple(numbers.scatter_indices_batching_dims),
    )
    along = _along_lines(x, places, numbers.inserted_window_dims, lines)
    if numbers.update_window_dims or x.kind != "f" or not along:
        return blocks.scatter(code, equation, operands)
    which = code.contiguous(places.reshaped(places.shape[:-1]) or places)
    room = x.shape[-1]
    if "CLIP" in str(about["mode"]):
        which = _clamped(code, which, room)
    d = code.copy(code.temporary(x.shape, "f"), x)
    outer = x.size // room
    updates = code.contiguous(updates)
    count = updates.size // outer
    code.emit("ADD_AT", d, which, updates, n=outer, m=count, k=room)
    code.made.pop(d.buffer, None)
    return [d]


_LOWERINGS: dict[str, Lowering] = {
    **blocks.LOWERINGS,
    "bitcast_convert_type": _bitcast,
    "broadcast_in_dim": _broadcast,
    "clamp": _clamp,
    "concatenate": _concatenate,
    "convert_element_type": _convert,
    "dot_general": _dot_general,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "gather": _gather,
    "integer_pow": _integer_pow,
    "iota": _iota,
    "pad": _pad,
    "random_bits": _random_bits,
    "rev": _reverse,
    "round": _round,
    "scatter-add": _scatter_add,
    "select_n": _select,
    "slice": _slice,
    "sort": _sort,
    "split": _split,
    "stack": _stack,
    "top_k": _top_k,
    "transpose": _transpose,
    "unstack": _unstack,
    **dict.fromkeys(_RESHAPES, _reshape),
    **further.LOWERINGS,
    **loops.lowerings(inline),
    **matrices.lowerings(inline),
    **windows.LOWERINGS,
}
