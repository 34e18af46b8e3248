"""JAX functions as NumPy functions: what JAX makes of them, primitive by primitive.

A function is traced once, and every primitive that the result needs becomes a line of
Python, which writes into the array of an operand that nothing reads any more. What has
no line here, or is random, is not translated.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.extend.core import Literal

from dynetjax.dims import Shape

Array = Any

_OPERATORS = {
    "add": ("+", "add"),
    "add_any": ("+", "add"),
    "and": ("&", "bitwise_and"),
    "div": ("/", "divide"),
    "mul": ("*", "multiply"),
    "or": ("|", "bitwise_or"),
    "sub": ("-", "subtract"),
}
_FUNCTIONS = {
    "abs": "abs",
    "acos": "arccos",
    "acosh": "arccosh",
    "asin": "arcsin",
    "asinh": "arcsinh",
    "atan": "arctan",
    "atanh": "arctanh",
    "ceil": "ceil",
    "cos": "cos",
    "cosh": "cosh",
    "exp": "exp",
    "expm1": "expm1",
    "floor": "floor",
    "log": "log",
    "log1p": "log1p",
    "max": "maximum",
    "min": "minimum",
    "neg": "negative",
    "not": "invert",
    "pow": "power",
    "sign": "sign",
    "sin": "sin",
    "sinh": "sinh",
    "sqrt": "sqrt",
    "square": "square",
    "tan": "tan",
    "tanh": "tanh",
}
_TEMPLATES = {
    "eq": "{} == {}",
    "ge": "{} >= {}",
    "gt": "{} > {}",
    "is_finite": "np.isfinite({})",
    "le": "{} <= {}",
    "logistic": "1 / (1 + np.exp(-{}))",
    "lt": "{} < {}",
    "ne": "{} != {}",
    "rsqrt": "1 / np.sqrt({})",
}
_ELEMENTWISE = {*_OPERATORS, *_FUNCTIONS, *_TEMPLATES}
_OF_FLOATS = "div", "sign"  # of integers, NumPy's are others
_SAME = "copy", "stop_gradient"
_CUTS = "split", "unstack"
_CONVERT = "convert_element_type"
_RESHAPES = "expand_dims", "reshape", "squeeze"
_VIEWS = "broadcast_in_dim", "dynamic_slice", "slice", "transpose"
_REDUCTIONS = {  # methods of arrays come to the same, by way of Python
    "reduce_and": "logical_and",
    "reduce_max": "maximum",
    "reduce_min": "minimum",
    "reduce_or": "logical_or",
    "reduce_prod": "multiply",
    "reduce_sum": "add",
}
_CALLS = "jit", "pjit", "closed_call", "custom_jvp_call", "custom_vjp_call"


class NotTranslatedError(Exception):
    """A primitive has no line of NumPy here."""


def translated(
    function: Callable[..., Any], *arguments: jax.ShapeDtypeStruct
) -> Callable[..., Any]:
    """`function` of NumPy arrays like `arguments`; a tuple if its result is a list.

    A result may be an argument, a part of one, or a constant: nobody may write into it.

    Raises:
        NotTranslatedError: it has a primitive for which there is no line.
    """
    closed, found = jax.make_jaxpr(function, return_shape=True)(*arguments)
    writer = _Writer()
    given = [writer.argument(argument.shape) for argument in arguments]
    results = writer.inline(closed.jaxpr, closed.consts, given)
    lines = writer.body(results, isinstance(found, list))
    source = f"def run({', '.join(given)}):\n    " + "\n    ".join(lines)
    exec(compile(source, f"<{function.__name__} in NumPy>", "exec"), writer.scope)
    return writer.scope["run"]


class _Line(NamedTuple):
    """What computes one result.

    Attributes:
        name: of the result.
        template: the expression, with places for operands.
        into: the same that writes into an array; empty if that is not possible.
        operands: their names.
        base: the operand of which this may be a view; empty if it is an array of its
            own.
    """

    name: str
    template: str
    into: str
    operands: list[str]
    base: str


class _Writer:
    """Writes lines, one for each result of a primitive."""

    def __init__(self) -> None:
        self.lines: list[_Line] = []
        self.scope: dict[str, Any] = {
            "np": np,
            "dynamic_slice": _dynamic_slice,
            "dynamic_update_slice": _dynamic_update_slice,
            "padded": _padded,
        }
        self.constants: dict[str, np.ndarray] = {}
        self._avals: dict[str, tuple[Shape, Any]] = {}
        self._reshaped: dict[str, str] = {}

    def argument(self, shape: Shape) -> str:
        """The name of the next argument."""
        name = f"a{len(self._avals)}"
        self._avals[name] = shape, None
        return name

    def constant(self, value: Any) -> str:
        """The name of an array that does not change."""
        name, array = f"c{len(self.constants)}", np.asarray(value)
        self.constants[name] = array
        self._avals[name] = array.shape, array.dtype
        self.scope[name] = array if array.ndim else array[()]
        return name

    def body(self, results: list[str], as_tuple: bool) -> list[str]:
        """The lines that `results` need, and their return.

        An operation writes into the array of an operand that nothing reads any more.
        """
        needed = {*results}
        for line in reversed(self.lines):
            if line.name in needed:
                needed.update(line.operands)
        lines = [line for line in self.lines if line.name in needed]
        base: dict[str, str] = {}  # by names, the array that may be seen
        last: dict[str, int] = {}  # by arrays, the line after which nothing reads them
        for number, line in enumerate(lines):
            base[line.name] = base.get(line.base, line.base) or line.name
            last.update((base[x], number) for x in line.operands if x in base)
        last.update((base.get(result, result), len(lines)) for result in results)
        arrays: dict[str, str] = {}  # by results, where these have others' arrays
        written = []
        for number, line in enumerate(lines):
            operands = [arrays.get(x, x) for x in line.operands]
            taken = [
                arrays.get(x, x)
                for x in line.operands
                if base.get(x) == x
                and last[x] == number
                and self._avals[x] == self._avals[line.name]
            ]
            if line.into and taken:
                arrays[line.name] = taken[0]
                written.append(line.into.format(*operands, taken[0]))
            else:
                written.append(f"{line.name} = {line.template.format(*operands)}")
        found = []
        for result in results:
            name = arrays.get(result, result)
            found.append(name if self._avals[result][0] else f"np.asarray({name})")
        returned = f"({''.join(f'{x}, ' for x in found)})" if as_tuple else found[0]
        return [*written, f"return {returned}"]

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
        avals = [atom.aval for atom in equation.invars]
        result, *others = [var.aval for var in equation.outvars]
        if kind in _CALLS:
            inner = about.get("jaxpr") or about.get("call_jaxpr")
            return self.inline(inner.jaxpr, inner.consts, operands)
        if kind in _CUTS:
            return self._pieces(equation, operands)
        if others:
            raise NotTranslatedError(kind)
        if kind in _SAME or (kind == _CONVERT and result.dtype == avals[0].dtype):
            return operands
        if kind == "iota":
            return [self.constant(_iota(about))]
        if kind in _RESHAPES:
            return [self._reshape(operands[0], result)]
        floats = all(np.issubdtype(aval.dtype, np.floating) for aval in avals)
        if kind in _ELEMENTWISE and (floats or kind not in _OF_FLOATS):
            return [self._elementwise(kind, operands, result)]
        template = _template(kind, about, avals, result)
        base = operands[0] if kind in _VIEWS else ""
        return [self._line(result, template, operands, base)]

    def _pieces(self, equation, operands: list[str]) -> list[str]:
        axis, (whole,) = equation.params["axis"], operands
        if equation.primitive.name == "split":
            ends = [*accumulate(equation.params["sizes"])]
            places = [f"{a}:{b}" for a, b in pairwise([0, *ends])]
        else:
            places = [*map(str, range(len(equation.outvars)))]
        return [
            self._line(var.aval, f"{{}}[{':, ' * axis}{place}]", operands, whole)
            for var, place in zip(equation.outvars, places, strict=True)
        ]

    def _reshape(self, operand: str, result) -> str:
        """The name of an array in another shape, which it may have had before."""
        if operand in self.constants:
            return self.constant(self.constants[operand].reshape(result.shape))
        operand = self._reshaped.get(operand, operand)
        if self._avals[operand][0] == result.shape:
            return operand
        name = self._line(result, f"{{}}.reshape({result.shape})", [operand], operand)
        self._reshaped[name] = operand
        return name

    def _elementwise(self, kind: str, operands: list[str], result) -> str:
        """The name of a result; of operands as they were before they were reshaped."""
        before = [self._reshaped.get(x, "") for x in operands]
        shapes = {self._avals[x][0] for x in before if x}
        both = [*zip(operands, before, strict=True)]
        first = result
        if len(shapes) == 1 and all(y or self._fills(x, result.shape) for x, y in both):
            first = result.update(shape=shapes.pop())
            operands = [y or self._reshape(x, first) for x, y in both]
        template, into = _elementwise_templates(kind, len(operands))
        name = self._line(first, template, operands, "", into if first.shape else "")
        return name if first is result else self._reshape(name, result)

    def _fills(self, operand: str, shape: Shape) -> bool:
        """Whether this is a constant of a shape."""
        return operand in self.constants and self._avals[operand][0] == shape

    def _line(
        self, result, template: str, operands: list[str], base: str, into: str = ""
    ) -> str:
        """The name of what `template` makes of operands; of constants, a constant."""
        if all(x in self.constants for x in operands):
            with np.errstate(all="ignore"):
                value = eval(template.format(*operands), self.scope)
            return self.constant(np.array(value))
        name = f"v{len(self.lines)}"
        self.lines.append(_Line(name, template, into, operands, base))
        self._avals[name] = result.shape, result.dtype
        return name


def _elementwise_templates(kind: str, count: int) -> tuple[str, str]:
    """What computes a result of `count` operands, and what writes it into an array."""
    places = ", ".join(["{}"] * count)
    if kind in _TEMPLATES:
        return _TEMPLATES[kind], ""
    if kind in _FUNCTIONS:
        name = f"np.{_FUNCTIONS[kind]}"
        return f"{name}({places})", f"{name}({places}, out={{}})"
    operator, name = _OPERATORS[kind]
    return f"{{}} {operator} {{}}", f"np.{name}({places}, out={{}})"


def _template(kind: str, about, avals, result) -> str:
    """What computes the result of a primitive, with places for the operands."""
    if kind in _REDUCTIONS:
        return f"np.{_REDUCTIONS[kind]}.reduce({{}}, {tuple(about['axes'])})"
    write = _WRITERS.get(kind)
    if write is None:
        raise NotTranslatedError(kind)
    return write(about, avals, result)


def _dot_general(about, avals, result) -> str:
    (left, right), batch = about["dimension_numbers"]
    a, b = avals
    if batch != ((), ()):
        raise NotTranslatedError("a product with a batch")
    if not left:
        return "np.multiply.outer({}, {})"
    if len(left) == 1 and b.ndim <= 2 and tuple(right) == (0,):
        if left[0] == a.ndim - 1:
            return "{}.dot({})"
        if a.ndim == 2:
            return "{}.T.dot({})"
    return f"np.tensordot({{}}, {{}}, {tuple(left), tuple(right)})"


def _select(about, avals, result) -> str:
    if len(avals) != 3 or avals[0].dtype != bool:
        raise NotTranslatedError("a choice of several")
    return "np.where({0}, {2}, {1})"


def _convert(about, avals, result) -> str:
    return f"{{}}.astype('{result.dtype}')"


def _broadcast_in_dim(about, avals, result) -> str:
    expanded = _expanded(avals[0].shape, about)
    return f"np.broadcast_to({{}}.reshape({expanded}), {result.shape})"


def _expanded(shape: Shape, about) -> Shape:
    """A shape with an axis for each of those that it is broadcast to."""
    found = [1] * len(about["shape"])
    for size, axis in zip(shape, about["broadcast_dimensions"], strict=True):
        found[axis] = size
    return tuple(found)


def _slice(about, avals, result) -> str:
    starts, limits = about["start_indices"], about["limit_indices"]
    strides = about["strides"] or [1] * len(starts)
    parts = [f"{a}:{b}:{s}" for a, b, s in zip(starts, limits, strides, strict=True)]
    return f"{{}}[{', '.join(parts)}]"


def _dynamic_slice(array: np.ndarray, sizes: Shape, *starts: Any):
    """A block of an array; it starts where it ends within it."""
    return array[
        tuple(
            slice(at := min(max(int(start), 0), room - size), at + size)
            for start, size, room in zip(starts, sizes, array.shape, strict=True)
        )
    ]


def _dynamic_update_slice(array: np.ndarray, block: np.ndarray, *starts: Any):
    """An array with a block in it replaced, which starts where it ends within it."""
    found = array.copy()
    _dynamic_slice(found, block.shape, *starts)[...] = block
    return found


def _padded(array: np.ndarray, value: Any, config: Sequence[tuple[int, int, int]]):
    """An array with `value` around it, and between its numbers; or with less of it.

    `config` tells how many come before and after each axis, less than 0 if some are cut
    off, and how many between two numbers.
    """
    shape, places, kept = [], [], []
    for size, (low, high, between) in zip(array.shape, config, strict=True):
        length, first = max(size * (between + 1) - between, 0), max(low, 0)
        shape.append(first + length + max(high, 0))
        places.append(slice(first, first + length, between + 1))
        kept.append(slice(max(-low, 0), shape[-1] - max(-high, 0)))
    found = np.full(shape, value, array.dtype)
    found[tuple(places)] = array
    return found[tuple(kept)]


def _cumsum(about, avals, result) -> str:
    axis, given, found = about["axis"], "{}", ""
    if about["reverse"]:
        given, found = f"np.flip({{}}, {axis})", f"[{':, ' * axis}::-1]"
    return f"np.cumsum({given}, {axis}, '{result.dtype}'){found}"


def _iota(about) -> np.ndarray:
    shape, axis = about["shape"], about["dimension"]
    numbers = np.arange(shape[axis], dtype=about["dtype"])
    behind = len(shape) - 1 - axis
    return np.broadcast_to(numbers.reshape(-1, *[1] * behind), shape).copy()


def _position(method: str, about, avals, result) -> str:
    (axis,) = about["axes"]
    return f"{{}}.{method}({axis}).astype('{result.dtype}')"


def _joined(function: str, axis: str, about, avals, result) -> str:
    return f"np.{function}(({'{},' * len(avals)}), {about[axis]})"


def _dynamic_slice_of(about, avals, result) -> str:
    starts = ", {}" * (len(avals) - 1)
    return f"dynamic_slice({{}}, {about['slice_sizes']}{starts})"


_WRITERS: dict[str, Callable[..., str]] = {
    "argmax": partial(_position, "argmax"),
    "argmin": partial(_position, "argmin"),
    "broadcast_in_dim": _broadcast_in_dim,
    "clamp": lambda *_: "np.minimum(np.maximum({1}, {0}), {2})",
    "concatenate": partial(_joined, "concatenate", "dimension"),
    _CONVERT: _convert,
    "cumsum": _cumsum,
    "dot_general": _dot_general,
    "dynamic_slice": _dynamic_slice_of,
    "dynamic_update_slice": lambda about, avals, _: (
        f"dynamic_update_slice({', '.join(['{}'] * len(avals))})"
    ),
    "integer_pow": lambda about, *_: f"{{}} ** {about['y']}",
    "pad": lambda about, *_: f"padded({{}}, {{}}, {tuple(about['padding_config'])})",
    "select_n": _select,
    "slice": _slice,
    "stack": partial(_joined, "stack", "axis"),
    "transpose": lambda about, *_: f"{{}}.transpose({about['permutation']})",
}
