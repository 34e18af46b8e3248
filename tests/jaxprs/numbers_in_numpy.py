"""JAX's primitives on numbers one by one in NumPy, and what float32 may be off."""

from math import sqrt

import jax
import numpy as np
from scipy import special

UNIT = 2.0**-24  # half the distance of float32 numbers, of those from 1 to 2
TINY = 1.2e-38  # numbers below this may be zero
SPECIAL_UNITS = 12  # what a series may be off


def floats(x):
    return x.dtype.kind == "f"


def _wrapped(x, dtype):
    return np.asarray(x).astype(np.int64).astype(np.uint32).astype(dtype)


def _divided(a, b):
    """Towards 0; all bits where the divisor is 0."""
    wide = a.astype(np.int64), np.where(b == 0, 1, b).astype(np.int64)
    found = np.sign(wide[0]) * np.sign(wide[1]) * (abs(wide[0]) // abs(wide[1]))
    return _wrapped(np.where(b == 0, -1, found), a.dtype)


def _rest(a, b):
    return np.where(b == 0, a, a - b * _divided(a, b)).astype(a.dtype)


def _shift(left, signed):
    def shift(a, by):
        by = by.astype(np.uint32).astype(np.int64)
        wide = a.astype(np.uint32).astype(np.int64)
        wide = wide.astype(np.int32).astype(np.int64) if signed else wide
        some = np.minimum(by, 31 if signed else 32)
        found = wide << some if left else wide >> some
        return _wrapped(np.where(by > 31, found if signed else 0, found), a.dtype)

    return shift


def _of_kinds(of_floats, of_others):
    return lambda *xs: (of_floats if floats(xs[0]) else of_others)(*xs)


def _leading_zeros(x):
    bits = x.astype(np.uint32)[..., None] >> np.arange(31, -1, -1, dtype=np.uint32)
    bits = bits != 0
    return np.where(bits.any(-1), bits.argmax(-1), 32).astype(x.dtype)


def _in_order(x):
    """Ints in the total order of numbers: -0 is below 0, and NaN above all."""
    if not floats(x):
        return x
    bits = np.where(np.isnan(x), np.nan, x).astype(np.float64).view(np.int64)
    return np.where(bits < 0, bits ^ np.int64(2**63 - 1), bits)


def _nextafter(x, y):
    return np.nextafter(x.astype(np.float32), y.astype(np.float32)).astype(np.float64)


NUMBER_BY_NUMBER = {
    "abs": np.abs,
    "acos": np.arccos,
    "acosh": np.arccosh,
    "add": np.add,
    "add_any": np.add,
    "and": np.bitwise_and,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "atanh": np.arctanh,
    "cbrt": np.cbrt,
    "ceil": np.ceil,
    "clz": _leading_zeros,
    "cos": np.cos,
    "cosh": np.cosh,
    "digamma": lambda x: np.where(x == 0, np.nan, special.digamma(x)),
    "div": _of_kinds(np.divide, _divided),
    "eq": np.equal,
    "eq_to": lambda a, b: _in_order(a) == _in_order(b),
    "erf": special.erf,
    "erf_inv": special.erfinv,
    "erfc": special.erfc,
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "floor": np.floor,
    "ge": np.greater_equal,
    "gt": np.greater,
    "is_finite": np.isfinite,
    "le": np.less_equal,
    "le_to": lambda a, b: _in_order(a) <= _in_order(b),
    "lgamma": lambda x: np.where(np.isneginf(x), np.inf, special.gammaln(x)),
    "log": np.log,
    "log1p": np.log1p,
    "logistic": special.expit,
    "lt": np.less,
    "lt_to": lambda a, b: _in_order(a) < _in_order(b),
    "max": np.maximum,
    "min": np.minimum,
    "mul": np.multiply,
    "ne": np.not_equal,
    "neg": np.negative,
    "nextafter": _nextafter,
    "not": np.invert,
    "one_minus_square": lambda x: (1 - x) * (1 + x),
    "or": np.bitwise_or,
    "population_count": lambda x: np.bitwise_count(x.astype(np.uint32)).astype(x.dtype),
    "pow": lambda x, y: np.power(x, y.astype(np.float64)),
    "rem": _of_kinds(np.fmod, _rest),
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "shift_left": _shift(True, False),
    "shift_right_arithmetic": _shift(False, True),
    "shift_right_logical": _shift(False, False),
    "sign": np.sign,
    "sin": np.sin,
    "sinh": np.sinh,
    "sqrt": np.sqrt,
    "square": np.square,
    "sub": np.subtract,
    "tan": np.tan,
    "tanh": np.tanh,
    "xor": np.bitwise_xor,
}
ROUNDED_ONCE = {"add", "add_any", "sub", "mul", "div", "sqrt", "square", "rem"}
NEVER_ROUNDED = {"abs", "neg", "sign", "max", "min", "floor", "ceil", "nextafter"}
ABSOLUTE = {"lgamma", "digamma"}  # no digits are due near their zeros
OF_BITS = {
    "and",
    "or",
    "xor",
    "not",
    "clz",
    "population_count",
    "is_finite",
    "eq",
    "ne",
}
OF_BITS |= {"lt", "le", "gt", "ge", "eq_to", "le_to", "lt_to", "shift_left"}
OF_BITS |= {"shift_right_arithmetic", "shift_right_logical"}
# What kernels of processors do in their own ways: series, sums and products.
DIFFERS = {*NUMBER_BY_NUMBER} - ROUNDED_ONCE - NEVER_ROUNDED - OF_BITS
DIFFERS |= {"reduce_sum", "reduce_prod", "reduce_window_sum", "dot_general"}
DIFFERS |= {"cumsum", "cumprod", "cumlogsumexp", "conv_general_dilated"}
DIFFERS |= {"cholesky", "lu", "triangular_solve"}
REDUCTIONS = {
    "argmax": np.argmax,
    "argmin": np.argmin,
    "reduce_and": np.all,
    "reduce_max": np.max,
    "reduce_min": np.min,
    "reduce_or": np.any,
    "reduce_prod": np.prod,
    "reduce_sum": np.sum,
}
SCANS = {
    "cumlogsumexp": np.logaddexp,
    "cummax": np.maximum,
    "cummin": np.minimum,
    "cumprod": np.multiply,
    "cumsum": np.add,
}


class Numbers:
    """Operations number by number, and along axes, in float64."""

    # What a result is off: nothing

    def error(self, x, size):
        """A result that may be off by `size`."""
        return x

    def within(self, x, units):
        """A result that may be off by so many units in its last place."""
        return self.error(x, units * UNIT * abs(x)) if floats(x) else x

    def once(self, x):
        """A result that is rounded, if it needs to be."""
        if not floats(x):
            return x
        with np.errstate(all="ignore"):
            return self.error(x, np.where(x == np.float32(x), 0, UNIT * abs(x)))

    def total(self, x, terms, axes):
        """A sum over `axes` of terms: none is rounded if all have few digits."""
        if not floats(x) or not terms.size:
            return x
        with np.errstate(all="ignore"):
            sizes = np.sum(abs(terms), axis=axes)
            grid = 2.0 ** (np.ceil(np.log2(np.max(abs(terms)) + TINY)) - 18)
            count = terms.size // max(1, x.size)
            if np.all(terms == np.round(terms / grid) * grid) and count < 32:
                return x
        return self.error(x, UNIT * (1 + sqrt(count)) * np.reshape(sizes, x.shape))

    # Operations

    @staticmethod
    def array(x):
        """A constant as these functions take it."""
        if jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key):
            return np.asarray(jax.random.key_data(x))
        x = np.asarray(x)
        return x.astype(np.float64) if floats(x) else x

    def number_by_number(self, name, operands):
        with np.errstate(all="ignore"):
            x = NUMBER_BY_NUMBER[name](*operands)
        if name in NEVER_ROUNDED or not floats(x):
            return x
        if name in ROUNDED_ONCE:
            return self.once(x)
        if name in ABSOLUTE:
            return self.error(x, SPECIAL_UNITS * UNIT * (1 + abs(x)))
        units = SPECIAL_UNITS
        if name == "pow":
            with np.errstate(all="ignore"):
                units = units + abs(operands[1] * np.log(abs(operands[0])))
        return self.within(x, units)

    def reduction(self, name, params, x):
        axes = tuple(params["axes"])
        if name.startswith("arg"):
            return REDUCTIONS[name](x, axis=axes[0])
        found = np.asarray(REDUCTIONS[name](x, axis=axes))
        if name == "reduce_sum":
            return self.total(found, x, axes)
        return self.product(found, x) if name == "reduce_prod" else found

    def product(self, found, x):
        with np.errstate(all="ignore"):
            if floats(x) and np.all(x == np.round(x * 2) / 2) and x.size < 16:
                return self.once(found)
        return self.within(found, x.size)

    def scan_of_numbers(self, name, params, x):
        axis, reverse = params["axis"], params.get("reverse", False)
        with np.errstate(all="ignore"):

            def along(f, x):
                x = np.flip(x, axis) if reverse else x
                found = f.accumulate(x, axis)
                return np.flip(found, axis) if reverse else found

            found = along(SCANS[name], x)
        if not floats(x) or name in ("cummax", "cummin"):
            return found
        if name == "cumprod":
            return self.product(found, x)
        if name == "cumsum":
            grid = 2.0 ** (np.ceil(np.log2(np.max(abs(x)) + TINY)) - 18)
            if np.all(x == np.round(x / grid) * grid) and x.size < 32:
                return found
            return self.error(found, UNIT * sqrt(x.shape[axis]) * along(np.add, abs(x)))
        sizes = 1 + abs(found) + along(np.maximum, abs(x))
        return self.error(found, 4 * SPECIAL_UNITS * UNIT * sizes)

    def _bitcast_convert_type(self, equation, x):
        narrow = x.astype(np.float32) if floats(x) else x
        found = narrow.view(np.dtype(equation.params["new_dtype"]))
        return found.astype(np.float64) if floats(found) else found

    def _clamp(self, equation, low, x, high):
        return np.minimum(np.maximum(x, low), high)

    def _convert_element_type(self, equation, x):
        dtype = np.dtype(equation.params["new_dtype"])
        if dtype.kind == "f":
            return x if floats(x) else x.astype(np.float32).astype(np.float64)
        if floats(x) and dtype.kind in "iu":
            bounds = np.iinfo(dtype)
            whole = np.where(np.isnan(x), 0, np.trunc(x))
            return np.clip(whole, bounds.min, bounds.max).astype(dtype)
        return x != 0 if dtype.kind == "b" else x.astype(dtype)

    def _integer_pow(self, equation, x):
        y = equation.params["y"]
        with np.errstate(all="ignore"):
            found = x**y if y >= 0 or not floats(x) else 1 / x**-y
        if abs(y) < 2 or not floats(x):
            return self.once(found)
        whole = np.all(x == np.round(x * 4) / 4) and y in (2, 3)
        return self.once(found) if whole else self.within(found, abs(y))

    def _iota(self, equation):
        params = equation.params
        shape, axis = params["shape"], params["dimension"]
        numbers = self.array(np.arange(shape[axis]).astype(params["dtype"]))
        sizes = [shape[axis] if k == axis else 1 for k in range(len(shape))]
        return np.broadcast_to(numbers.reshape(sizes), shape)

    def _polynomial(self, equation, x, *coefficients):
        found, size = 0 * x, 0 * x
        for c in reversed(coefficients):
            found, size = found * x + c, size * abs(x) + abs(c)
        return self.error(found, len(coefficients) * UNIT * size)

    def _round(self, equation, x):
        if int(equation.params["rounding_method"]) == 1:
            return np.rint(x)
        return np.sign(x) * np.floor(abs(x) + 0.5)

    def _select_n(self, equation, which, *cases):
        which = np.broadcast_to(which, cases[0].shape)
        return np.choose(which.astype(np.int64), cases)
