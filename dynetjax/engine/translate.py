"""JAX functions as NumPy functions: what JAX makes of them, primitive by primitive.

A function is traced once, and every primitive becomes a line of Python. What has no
line here, or is random, is not translated.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate
from typing import Any

import jax
import numpy as np
from jax.extend.core import Literal

Array = Any

_ELEMENTWISE = {
    "abs": "np.abs({})",
    "acos": "np.arccos({})",
    "acosh": "np.arccosh({})",
    "add": "{} + {}",
    "add_any": "{} + {}",
    "and": "{} & {}",
    "asin": "np.arcsin({})",
    "asinh": "np.arcsinh({})",
    "atan": "np.arctan({})",
    "atanh": "np.arctanh({})",
    "ceil": "np.ceil({})",
    "copy": "{}",
    "cos": "np.cos({})",
    "cosh": "np.cosh({})",
    "div": "{} / {}",
    "eq": "{} == {}",
    "exp": "np.exp({})",
    "expm1": "np.expm1({})",
    "floor": "np.floor({})",
    "ge": "{} >= {}",
    "gt": "{} > {}",
    "is_finite": "np.isfinite({})",
    "le": "{} <= {}",
    "log": "np.log({})",
    "log1p": "np.log1p({})",
    "logistic": "1 / (1 + np.exp(-{}))",
    "lt": "{} < {}",
    "max": "np.maximum({}, {})",
    "min": "np.minimum({}, {})",
    "mul": "{} * {}",
    "ne": "{} != {}",
    "neg": "-{}",
    "not": "~{}",
    "or": "{} | {}",
    "pow": "np.power({}, {})",
    "rsqrt": "1 / np.sqrt({})",
    "sign": "np.sign({})",
    "sin": "np.sin({})",
    "sinh": "np.sinh({})",
    "sqrt": "np.sqrt({})",
    "square": "np.square({})",
    "stop_gradient": "{}",
    "sub": "{} - {}",
    "tan": "np.tan({})",
    "tanh": "np.tanh({})",
}
_OF_FLOATS = "div", "sign"  # of integers, NumPy's are others
_REDUCTIONS = {
    "reduce_and": "all",
    "reduce_max": "max",
    "reduce_min": "min",
    "reduce_or": "any",
    "reduce_prod": "prod",
    "reduce_sum": "sum",
}
_CALLS = "jit", "pjit", "closed_call", "custom_jvp_call", "custom_vjp_call"


class NotTranslatedError(Exception):
    """A primitive has no line of NumPy here."""


def translated(
    function: Callable[..., Array], *arguments: jax.ShapeDtypeStruct
) -> Callable[..., np.ndarray]:
    """`function` of NumPy arrays like `arguments`.

    Raises:
        NotTranslatedError: it has a primitive for which there is no line.
    """
    closed = jax.make_jaxpr(function)(*arguments)
    writer = _Writer()
    given = [f"a{k}" for k in range(len(arguments))]
    (result,) = writer.inline(closed.jaxpr, closed.consts, given)
    (shape,) = [var.aval.shape for var in closed.jaxpr.outvars]
    if not shape:
        result = f"np.asarray({result})"
    body = "\n    ".join([*writer.lines, f"return {result}"])
    source = f"def run({', '.join(given)}):\n    {body}"
    exec(compile(source, f"<{function.__name__} in NumPy>", "exec"), writer.scope)
    return writer.scope["run"]


class _Writer:
    """Writes lines, one for each result of a primitive."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.scope: dict[str, Any] = {"np": np, "dynamic_slice": _dynamic_slice}
        self.constants: dict[str, np.ndarray] = {}

    def constant(self, value: Any) -> str:
        """The name of an array that does not change."""
        name, array = f"c{len(self.constants)}", np.asarray(value)
        self.constants[name] = array
        self.scope[name] = array if array.ndim else array[()]
        return name

    def inline(self, jaxpr, constants: Sequence[Any], given: list[str]) -> list[str]:
        """The names of the results of `jaxpr` for operands of these names."""
        names = dict(zip(jaxpr.invars, given, strict=True))
        for var, value in zip(jaxpr.constvars, constants, strict=True):
            names[var] = self.constant(value)

        def name_of(atom: Any) -> str:
            if isinstance(atom, Literal):
                return self.constant(np.asarray(atom.val, jax.typeof(atom.val).dtype))
            return names[atom]

        for equation in jaxpr.eqns:
            operands = [name_of(atom) for atom in equation.invars]
            results = self._equation(equation, operands)
            names.update(zip(equation.outvars, results, strict=True))
        return [name_of(atom) for atom in jaxpr.outvars]

    def _equation(self, equation, operands: list[str]) -> list[str]:
        """The names of the results of one primitive."""
        kind, about = equation.primitive.name, equation.params
        if kind in _CALLS:
            inner = about.get("jaxpr") or about.get("call_jaxpr")
            return self.inline(inner.jaxpr, inner.consts, operands)
        if kind == "split":
            ends = [*accumulate(about["sizes"])]
            pieces = zip([0, *ends], ends, strict=False)
            return [
                self._line(f"{operands[0]}[{_along(about['axis'], a, b)}]")
                for a, b in pieces
            ]
        if kind == "iota":
            return [self.constant(_iota(about))]
        if kind == "broadcast_in_dim" and operands[0] in self.constants:
            return [self.constant(_broadcast(self.constants[operands[0]], about))]
        return [self._line(_expression(equation, operands))]

    def _line(self, expression: str) -> str:
        name = f"v{len(self.lines)}"
        self.lines.append(f"{name} = {expression}")
        return name


def _expression(equation, operands: list[str]) -> str:
    """What computes the result of a primitive, which has one."""
    kind, about = equation.primitive.name, equation.params
    avals = [atom.aval for atom in equation.invars]
    result, *others = [var.aval for var in equation.outvars]
    if others:
        raise NotTranslatedError(kind)
    floats = all(np.issubdtype(aval.dtype, np.floating) for aval in avals)
    if kind in _ELEMENTWISE and (floats or kind not in _OF_FLOATS):
        return _ELEMENTWISE[kind].format(*operands)
    if kind in _REDUCTIONS:
        return f"{operands[0]}.{_REDUCTIONS[kind]}({tuple(about['axes'])})"
    write = _WRITERS.get(kind)
    if write is None:
        raise NotTranslatedError(kind)
    return write(about, operands, avals, result)


def _dot_general(about, operands, avals, result) -> str:
    (left, right), batch = about["dimension_numbers"]
    a, b = avals
    if batch != ((), ()):
        raise NotTranslatedError("a product with a batch")
    if len(left) == 1 and b.ndim <= 2 and tuple(right) == (0,):
        if left[0] == a.ndim - 1:
            return "np.dot({}, {})".format(*operands)
        if a.ndim == 2:
            return "np.dot({}.T, {})".format(*operands)
    return "np.tensordot({}, {}, {})".format(*operands, (tuple(left), tuple(right)))


def _select(about, operands, avals, result) -> str:
    which, *cases = operands
    if len(cases) != 2 or avals[0].dtype != bool:
        raise NotTranslatedError("a choice of several")
    return f"np.where({which}, {cases[1]}, {cases[0]})"


def _reshape(about, operands, avals, result) -> str:
    return f"{operands[0]}.reshape({result.shape})"


def _convert(about, operands, avals, result) -> str:
    if result.dtype == avals[0].dtype:
        return operands[0]
    return f"{operands[0]}.astype('{result.dtype}')"


def _broadcast_in_dim(about, operands, avals, result) -> str:
    expanded = _expanded(avals[0].shape, about)
    return f"np.broadcast_to({operands[0]}.reshape({expanded}), {result.shape})"


def _broadcast(array: np.ndarray, about) -> np.ndarray:
    expanded = array.reshape(_expanded(array.shape, about))
    return np.broadcast_to(expanded, about["shape"]).copy()


def _expanded(shape: tuple[int, ...], about) -> tuple[int, ...]:
    """A shape with an axis for each of those that it is broadcast to."""
    found = [1] * len(about["shape"])
    for size, axis in zip(shape, about["broadcast_dimensions"], strict=True):
        found[axis] = size
    return tuple(found)


def _slice(about, operands, avals, result) -> str:
    starts, limits = about["start_indices"], about["limit_indices"]
    strides = about["strides"] or [1] * len(starts)
    parts = [f"{a}:{b}:{s}" for a, b, s in zip(starts, limits, strides, strict=True)]
    return f"{operands[0]}[{', '.join(parts)}]"


def _along(axis: int, start: int, end: int) -> str:
    return ":, " * axis + f"{start}:{end}"


def _dynamic_slice(array: np.ndarray, sizes: tuple[int, ...], *starts: Any):
    """A block of an array; it starts where it ends within it."""
    return array[
        tuple(
            slice(at := min(max(int(start), 0), room - size), at + size)
            for start, size, room in zip(starts, sizes, array.shape, strict=True)
        )
    ]


def _cumsum(about, operands, avals, result) -> str:
    if about["reverse"]:
        raise NotTranslatedError("a sum from the end")
    return f"np.cumsum({operands[0]}, {about['axis']}, '{result.dtype}')"


def _iota(about) -> np.ndarray:
    shape, axis = about["shape"], about["dimension"]
    numbers = np.arange(shape[axis], dtype=about["dtype"])
    return _broadcast(numbers, {"shape": shape, "broadcast_dimensions": (axis,)})


def _position(method: str, about, operands, avals, result) -> str:
    (axis,) = about["axes"]
    return f"{operands[0]}.{method}({axis}).astype('{result.dtype}')"


_WRITERS: dict[str, Callable[..., str]] = {
    "argmax": partial(_position, "argmax"),
    "argmin": partial(_position, "argmin"),
    "broadcast_in_dim": _broadcast_in_dim,
    "clamp": lambda _a, xs, *_: "np.minimum(np.maximum({1}, {0}), {2})".format(*xs),
    "concatenate": lambda about, xs, *_: (
        f"np.concatenate(({', '.join(xs)},), {about['dimension']})"
    ),
    "convert_element_type": _convert,
    "cumsum": _cumsum,
    "dot_general": _dot_general,
    "dynamic_slice": lambda about, xs, *_: (
        f"dynamic_slice({xs[0]}, {about['slice_sizes']}, {', '.join(xs[1:])})"
    ),
    "expand_dims": _reshape,
    "integer_pow": lambda about, xs, *_: f"{xs[0]} ** {about['y']}",
    "reshape": _reshape,
    "select_n": _select,
    "slice": _slice,
    "squeeze": _reshape,
    "transpose": lambda about, xs, *_: f"{xs[0]}.transpose({about['permutation']})",
}
