"""Complex numbers as pairs of arrays, and Fourier transforms, as byte code.

An instruction knows real numbers only. So what JAX does to complex ones is done to
their real and imaginary parts.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod
from types import SimpleNamespace
from typing import Any

import numpy as np

from dynetjax.core.dims import Shape
from dynetjax.core.lazy import jax
from dynetjax.engine.native.lowering.arrays import Array, NotCoveredError, Value
from dynetjax.engine.native.lowering.bytecode import Code

Values = list[Any]
One = Callable[[Code, Any, Values], Values]

_BY_PARTS = {
    "add",
    "add_any",
    "broadcast_in_dim",
    "concatenate",
    "copy",
    "copy_p",
    "dynamic_slice",
    "dynamic_update_slice",
    "expand_dims",
    "gather",
    "neg",
    "optimization_barrier",
    "pad",
    "reduce_sum",
    "reshape",
    "rev",
    "select_n",
    "slice",
    "squeeze",
    "stop_gradient",
    "sub",
    "tile",
    "transpose",
}
_NAMES = {"real": "real_part"}
FORWARDS, BACKWARDS, OF_REAL, TO_REAL = range(4)  # as JAX numbers them


@dataclass(eq=False, slots=True)
class Complex:
    """Complex numbers: their real and imaginary parts, of one shape."""

    re: Value
    im: Value


def parts_of(x: Any) -> list[Any]:
    """What has byte code of a value."""
    return [x.re, x.im] if isinstance(x, Complex) else [x]


def whole(code: Code, x: Any) -> Any:
    """A value as one array, or as two if it is complex."""
    if isinstance(x, Complex):
        return Complex(code.array(x.re), code.array(x.im))
    return code.array(x)


def constant(code: Code, value: np.ndarray) -> Any:
    """Complex numbers that are the same in every run."""
    re, im = [np.asarray(x, np.float32) for x in (value.real, value.imag)]
    return Complex(code.pool.constant(re), code.pool.constant(im))


def is_complex(equation: Any, operands: Values) -> bool:
    """Whether an equation is for `Parts`."""
    dtypes = [getattr(x.aval, "dtype", None) for x in equation.outvars]
    made = any(getattr(dtype, "kind", "") == "c" for dtype in dtypes)
    return made or any(isinstance(x, Complex) for x in operands)


class Parts:
    """What an equation of complex numbers comes to; `one` does those of real ones."""

    def __init__(self, code: Code, one: One, equation: Any):
        self._code, self._one, self._equation = code, one, equation
        self._shape: Shape = tuple(equation.outvars[0].aval.shape)

    def results(self, operands: Values) -> Values:
        """By the primitive's name."""
        name = self._equation.primitive.name
        if name in _BY_PARTS:
            re = [x.re if isinstance(x, Complex) else x for x in operands]
            im = [x.im if isinstance(x, Complex) else x for x in operands]
            params = self._equation.params
            return [
                Complex(
                    self._real(name, *re, **params), self._real(name, *im, **params)
                )
            ]
        method = getattr(self, "_" + _NAMES.get(name, name), None)
        if method is None:
            raise NotCoveredError(f"{name} of complex numbers")
        return [method(*operands)]

    def _real(
        self, name: str, *operands: Any, kind: Any = np.float32, **params: Any
    ) -> Any:
        """A primitive of real numbers, with the shape of the result."""
        result = SimpleNamespace(aval=jax.ShapeDtypeStruct(self._shape, kind))
        primitive = SimpleNamespace(name=name)
        equation = SimpleNamespace(primitive=primitive, params=params, outvars=[result])
        return self._one(self._code, equation, [*operands])[0]

    def _zero(self) -> Array:
        return self._code.pool.constant(np.zeros(self._shape, np.float32))

    def _mul(self, a: Complex, b: Complex, name: str = "mul", **params: Any) -> Complex:
        def by(x: Value, y: Value) -> Any:
            return self._real(name, x, y, **params)

        re = self._real("sub", by(a.re, b.re), by(a.im, b.im))
        return Complex(re, self._real("add", by(a.re, b.im), by(a.im, b.re)))

    def _dot_general(self, a: Complex, b: Complex) -> Complex:
        return self._mul(a, b, "dot_general", **self._equation.params)

    def _square(self, a: Complex) -> Complex:
        return self._mul(a, a)

    def _integer_pow(self, a: Complex) -> Complex:
        y = self._equation.params["y"]
        one = Complex(self._real("exp", self._zero()), self._zero())
        power = one
        for _ in range(abs(y)):
            power = a if power is one else self._mul(power, a)
        return self._div(one, power) if y < 0 else power

    def _div(self, a: Complex, b: Complex) -> Complex:
        product, size = self._mul(a, self._turned(b)), self._size(b)
        return Complex(*[self._real("div", x, size) for x in (product.re, product.im)])

    def _size(self, a: Complex) -> Any:
        """|a|^2."""
        squares = [self._real("square", x) for x in (a.re, a.im)]
        return self._real("add", *squares)

    def _abs(self, a: Complex) -> Any:
        return self._real("sqrt", self._size(a))

    def _exp(self, a: Complex) -> Complex:
        size = self._real("exp", a.re)
        re, im = [self._real(by, a.im) for by in ("cos", "sin")]
        return Complex(self._real("mul", size, re), self._real("mul", size, im))

    def _turned(self, a: Complex) -> Complex:
        shape, self._shape = self._shape, a.re.shape
        im = self._real("neg", a.im)
        self._shape = shape
        return Complex(a.re, im)

    def _conj(self, a: Any) -> Complex:
        return self._turned(a) if isinstance(a, Complex) else Complex(a, self._zero())

    def _complex(self, re: Value, im: Value) -> Complex:
        parts = [self._code.array(x) for x in (re, im)]
        return Complex(*[x.broadcast(self._shape, range(len(x.shape))) for x in parts])

    def _real_part(self, a: Complex) -> Value:
        return a.re

    def _imag(self, a: Complex) -> Value:
        return a.im

    def _eq(self, a: Complex, b: Complex) -> Any:
        same = [
            self._real("eq", x, y, kind=np.bool_)
            for x, y in zip(parts_of(a), parts_of(b), strict=True)
        ]
        return self._real("and", *same, kind=np.bool_)

    def _ne(self, a: Complex, b: Complex) -> Any:
        return self._real("not", self._eq(a, b), kind=np.bool_)

    def _convert_element_type(self, a: Any) -> Any:
        kind = self._equation.outvars[0].aval.dtype
        if not isinstance(a, Complex):
            return Complex(self._real("convert_element_type", a), self._zero())
        if kind.kind == "c":
            return a
        return self._real("convert_element_type", a.re, kind=kind)

    # Fourier transforms

    def _fft(self, a: Any) -> Any:
        lengths, kind = (
            self._equation.params["fft_lengths"],
            int(self._equation.params["fft_type"]),
        )
        last = len(self._shape) - 1
        others = range(last - len(lengths) + 1, last)
        if kind == OF_REAL:
            transformed = self._along(a, last, lengths[-1], kind)
            for axis in others:
                transformed = self._along(
                    transformed, axis, transformed.re.shape[axis], FORWARDS
                )
            return transformed
        for axis in others:
            a = self._along(a, axis, a.re.shape[axis], min(kind, BACKWARDS))
        return self._along(a, last, lengths[-1], kind)

    def _along(self, a: Any, axis: int, length: int, kind: int) -> Any:
        code = self._code
        parts = [code.array(x) for x in parts_of(a)]
        order = [k for k in range(len(parts[0].shape)) if k != axis] + [axis]
        back = np.argsort(order).tolist()
        parts = [x.transposed(order) for x in parts]
        lines = parts[0].shape[:-1]
        if kind == OF_REAL:
            given = code.contiguous(parts[0])
        else:
            given = code.temporary((*lines, 2, parts[0].shape[-1]), "f")
            for k, x in enumerate(parts):
                code.copy(_part(given, k), x)
            code.made.pop(given.buffer, None)
        size = {"n": prod(lines), "m": length, "k": kind}
        if kind == TO_REAL:
            d = code.temporary((*lines, length), "f")
            return code.emit("FOURIER", d, given, **size).transposed(back)
        count = length // 2 + 1 if kind == OF_REAL else length
        d = code.temporary((*lines, 2, count), "f")
        code.emit("FOURIER", d, given, **size)
        return Complex(*[_part(d, k).transposed(back) for k in (0, 1)])


def _part(x: Array, number: int) -> Array:
    """Real or imaginary parts, which the last axis but one tells apart."""
    *lines, _, count = x.shape
    *strides, apart, last = x.strides
    return replace(
        x,
        offset=x.offset + number * apart,
        shape=(*lines, count),
        strides=(*strides, last),
    )
