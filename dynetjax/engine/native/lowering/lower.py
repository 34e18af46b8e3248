"""From jaxprs to byte code, primitive by primitive.

Here are calls of other jaxprs, and what follows from constants alone. The other files
of this folder have the primitives, by families.
"""

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any, TypeVar

import numpy as np

from dynetjax.core.lazy import jax, jax_core
from dynetjax.engine.native.lowering import (
    arithmetic,
    gathers,
    indexing,
    loops,
    matrices,
    ordering,
    products,
    views,
    windows,
)
from dynetjax.engine.native.lowering.arrays import (
    Array,
    Buffer,
    Lowering,
    NotCoveredError,
    Pieces,
    Value,
    Values,
    kind_of,
)
from dynetjax.engine.native.lowering.bytecode import Code
from dynetjax.native import core

Read = TypeVar("Read")

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
_OF_OTHERS = "call_hi_primitive"  # of JAX 0.12: an operation that others make up
_SAME = {
    "stop_gradient",
    "copy",
    "device_put",
    "optimization_barrier",
    "random_wrap",
    "random_unwrap",
}
_TAKE_NOTHING = {"concatenate", "pad"}  # arrays without numbers among their operands
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


def inline(code: Code, jaxpr: Any, consts: Sequence[Any], given: Values) -> Values:
    """Emit the instructions of a jaxpr; what its results are."""
    emit = partial(_constant, code), partial(_equation, code)
    return read(jaxpr, consts, given, *emit)


def read(
    jaxpr: Any,
    consts: Sequence[Any],
    given: Sequence[Read],
    constant: Callable[[Any], Read],
    equation: Callable[[Any, list[Read]], list[Read]],
) -> list[Read]:
    """What the results of a jaxpr are read as, and of all that it calls.

    Args:
        given: what its inputs are.
        constant: what an array is that is always the same.
        equation: what the results of an equation are, given its operands.
    """
    names: dict[Any, Read] = dict(zip(jaxpr.invars, given, strict=True))
    for var, value in zip(jaxpr.constvars, consts, strict=True):
        names[var] = constant(value)

    def value_of(atom: Any) -> Read:
        if isinstance(atom, jax_core.Literal):
            aval: Any = atom.aval
            return constant(np.asarray(atom.val, aval.dtype))
        return names[atom]

    for one in jaxpr.eqns:
        operands = [value_of(x) for x in one.invars]
        called = _called(one)
        if called is not None:
            results = read(*called, operands, constant, equation)
        elif one.primitive.name in _SAME:
            results = operands
        else:
            results = equation(one, operands)
        names.update(zip(one.outvars, results, strict=True))
    return [value_of(x) for x in jaxpr.outvars]


def _called(equation: Any) -> tuple[Any, Sequence[Any]] | None:
    """The jaxpr that an equation calls, and its constants; None if it calls none."""
    name, params = equation.primitive.name, equation.params
    if name in _CALLS:
        inner = params.get("jaxpr") or params.get("call_jaxpr") or params["fun_jaxpr"]
    elif name == _OF_OTHERS:
        inner = jax.make_jaxpr(params["_prim"].expand)(
            *[x.aval for x in equation.invars]
        )
    else:
        return None
    return getattr(inner, "jaxpr", inner), getattr(inner, "consts", ())


def _constant(code: Code, value: Any) -> Value:
    if jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
        raise NotCoveredError("a random key that is the same in every run")
    kind_of(value)  # which complex numbers have not got
    return code.pool.constant(np.asarray(value))


def _equation(code: Code, equation: Any, operands: Values) -> Values:
    name = equation.primitive.name
    empty = [not prod(var.aval.shape) for var in equation.outvars]
    if all(empty):
        return [_nothing(var.aval) for var in equation.outvars]
    if any(not x.size for x in operands) and name not in _TAKE_NOTHING:
        raise NotCoveredError(f"{name} of an array without numbers")
    known = _at_once(code, equation, operands)
    if known is not None:
        return [known]
    lowering = _LOWERINGS.get(name)
    if lowering is None:
        raise NotCoveredError(name)
    return lowering(code, equation, operands)


def _nothing(aval: Any) -> Array:
    """An array without numbers, which has no place."""
    shape, buffer = tuple(aval.shape), Buffer(core.CONSTANT, 0, 0)
    return Array(buffer, 0, shape, (0,) * len(shape), kind_of(aval))


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
        numbers = np.broadcast_to(compute(*values), result.shape)
    return code.pool.constant(numbers.astype(result.dtype))


_LOWERINGS: dict[str, Lowering] = {
    **arithmetic.LOWERINGS,
    **gathers.LOWERINGS,
    **loops.lowerings(inline),
    **matrices.lowerings(inline),
    **indexing.LOWERINGS,
    **ordering.LOWERINGS,
    **products.LOWERINGS,
    **views.LOWERINGS,
    **windows.LOWERINGS,
}
PRIMITIVES = frozenset({*_SAME, *_LOWERINGS})  # those that have byte code
