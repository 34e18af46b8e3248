"""First values of parameters and tables.

An initialiser fills a tensor column by column, first index fastest, in the order
of DyNet's random draws. The tensor of a table is ``(row dims..., N)``.
"""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dynetjax.core.dims import Dim, Shape
from dynetjax.core.errors import error_text
from dynetjax.core.reprs import attributes, call_text, constructor_of
from dynetjax.model import random
from dynetjax.ops.arrays import number_in, to_array

__all__ = [
    "ConstInitializer",
    "FromFileInitializer",
    "GlorotInitializer",
    "IdentityInitializer",
    "NormalInitializer",
    "NumpyInitializer",
    "PyInitializer",
    "SaxeInitializer",
    "UniformInitializer",
]


class PyInitializer:
    """What gives a parameter its first values; use one of the subclasses.

    Examples:
        >>> m = dy.ParameterCollection()
        >>> for init in dy.ConstInitializer(2), dy.IdentityInitializer():
        ...     W = m.add_parameters((2, 2), init=init)
        ...     print(isinstance(init, dy.PyInitializer), W.as_array().tolist())
        True [[2.0, 2.0], [2.0, 2.0]]
        True [[1.0, 0.0], [0.0, 1.0]]
    """

    for_tables = True

    def __init__(self) -> None:
        raise AssertionError(
            error_text(
                "PyInitializer: it is abstract",
                got="PyInitializer()",
                expected="a subclass",
                fix="use GlorotInitializer(), say",
            )
        )

    def __repr__(self) -> str:
        return call_text(self, self._arguments())

    def _arguments(self) -> dict[str, Any]:
        """What it was made with, by name."""
        names = constructor_of(type(self))
        return attributes(self, *[name for name in names if name in vars(self)])

    def fill(self, shape: Shape) -> np.ndarray:
        """A float32 tensor of `shape`."""
        return self._numbers(shape).reshape(shape, order="F")

    def _numbers(self, shape: Shape) -> np.ndarray:
        """The numbers in column-major order."""
        raise NotImplementedError


class NormalInitializer(PyInitializer):
    """N(mean, var). The second argument is the variance, not its root.

    Raises:
        ValueError: `var` is negative.
    Examples:
        >>> m = dy.ParameterCollection()
        >>> W = m.add_parameters((100, 100), init=dy.NormalInitializer(3, 4))
        >>> print(W.as_array().mean().round(1), W.as_array().std().round(1))
        3.0 2.0
    """

    mean: float
    std: float

    def __init__(self, mean: float = 0, var: float = 1):
        if var < 0:
            raise ValueError(
                error_text(
                    "NormalInitializer: the variance is negative",
                    got=var,
                    expected="var >= 0",
                    fix="pass the square of the standard deviation",
                )
            )
        self.mean, self.std = float(mean), math.sqrt(var)

    def _arguments(self):
        return {"mean": self.mean, "var": self.std**2}

    def _numbers(self, shape):
        return random.normal(math.prod(shape), self.mean, self.std)


class UniformInitializer(PyInitializer):
    """U(-scale, scale).

    Raises:
        ValueError: `scale` is 0.
    Examples:
        >>> m = dy.ParameterCollection()
        >>> W = m.add_parameters((30, 20), init=dy.UniformInitializer(0.1)).as_array()
        >>> print(0.09 < W.max() <= 0.1, -0.1 <= W.min() < -0.09)
        True True
    """

    def __init__(self, scale: float):
        if scale == 0:
            raise ValueError(
                error_text(
                    "UniformInitializer: scale is 0",
                    got=scale,
                    expected="another number",
                    fix="use ConstInitializer(0)",
                )
            )
        self.scale: float = float(scale)

    def _numbers(self, shape):
        return random.uniform(math.prod(shape), -self.scale, self.scale)


class ConstInitializer(PyInitializer):
    """Every number is `c`.

    Examples:
        >>> m = dy.ParameterCollection()
        >>> b = m.add_parameters(3, init=dy.ConstInitializer(0.5))
        >>> print(b.as_array())
        [0.5 0.5 0.5]
    """

    def __init__(self, c: float):
        self.c: float = float(c)

    def _numbers(self, shape):
        return np.full(math.prod(shape), self.c, np.float32)


class IdentityInitializer(PyInitializer):
    """The identity matrix.

    Raises, when it is used:
        RuntimeError: the tensor is no square matrix.
    Examples:
        >>> m = dy.ParameterCollection()
        >>> W = m.add_parameters((2, 2), init=dy.IdentityInitializer())
        >>> print(W.as_array())
        [[1. 0.]
         [0. 1.]]
    """

    def __init__(self) -> None:
        pass

    def _numbers(self, shape):
        _require_square("IdentityInitializer", shape)
        return np.eye(shape[0], dtype=np.float32).ravel()


class GlorotInitializer(PyInitializer):
    """U(-b, b) after Glorot & Bengio.

        b = gain * sqrt(3 k / (d_1 + ... + d_k))

    and for the four dims of a convolution filter
    ``b = gain * sqrt(6 / (d_1 d_2 (d_3 + d_4)))``.

    Args:
        is_lookup: leave the number of rows of a table out of the dims. The default
            initialiser of tables does count them, as DyNet's does.
        gain: factor on the bound.
    Examples:
        >>> m = dy.ParameterCollection()
        >>> W = m.add_parameters((30, 20), init=dy.GlorotInitializer(gain=2))
        >>> bound = 2 * np.sqrt(6 / (30 + 20))
        >>> print(0.9 * bound < abs(W.as_array()).max() <= bound)
        True
    """

    gain: float
    is_lookup: bool

    def __init__(self, is_lookup: bool = False, gain: float = 1.0):
        self.is_lookup, self.gain = bool(is_lookup), float(gain)

    def bound(self, shape: Shape) -> float:
        """The largest number that a parameter of this shape starts with."""
        dims = shape[:-1] if self.is_lookup else shape
        if len(dims) == 4:
            fan = dims[0] * dims[1] * (dims[2] + dims[3])
            return self.gain * math.sqrt(6) / math.sqrt(fan) if fan else 0.0
        fan = sum(dims)
        return self.gain * math.sqrt(3 * len(dims)) / math.sqrt(fan) if fan else 0.0

    def _numbers(self, shape):
        bound = self.bound(shape)
        return random.uniform(math.prod(shape), -bound, bound)


class SaxeInitializer(PyInitializer):
    """`scale` times a random orthonormal matrix.

    The left singular vectors of a matrix with U(-1, 1) entries.

    Raises, when it is used:
        RuntimeError: the tensor is no square matrix.
    Examples:
        >>> m = dy.ParameterCollection()
        >>> W = m.add_parameters((5, 5), init=dy.SaxeInitializer()).as_array()
        >>> print(np.allclose(W @ W.T, np.eye(5), atol=1e-5))
        True
    """

    def __init__(self, scale: float = 1.0):
        self.scale: float = float(scale)

    def _numbers(self, shape):
        _require_square("SaxeInitializer", shape)
        draws = random.uniform(math.prod(shape), -1, 1).reshape(shape, order="F")
        return np.float32(self.scale) * np.linalg.svd(draws)[0].ravel(order="F")


class FromFileInitializer(PyInitializer):
    """Numbers from a text file, separated by white space, first index fastest.

    Args:
        fname: the path, as bytes.
    Raises, when it is used:
        ValueError: the file does not have as many numbers as the tensor.
    Examples:
        >>> with open("values.txt", "w") as file:
        ...     print("1 2 3 4", file=file)
        >>> m = dy.ParameterCollection()
        >>> W = m.add_parameters((2, 2), init=dy.FromFileInitializer(b"values.txt"))
        >>> print(W.as_array())
        [[1. 3.]
         [2. 4.]]
    """

    def __init__(self, fname: bytes):
        if not isinstance(fname, bytes):
            raise TypeError(
                error_text(
                    "FromFileInitializer: fname is not bytes",
                    got=f"{fname!r} ({type(fname).__name__})",
                    expected="bytes",
                    fix='b"values.txt"',
                )
            )
        self.path: Path = Path(fname.decode())

    def _arguments(self):
        return {"fname": str(self.path).encode()}

    def _numbers(self, shape):
        numbers = np.array(self.path.read_text().split(), dtype=np.float32)
        return _right_size("FromFileInitializer", numbers, shape)


class NumpyInitializer(PyInitializer):
    """The numbers of an array, first index fastest; only their count must fit.

    Raises, when it is used:
        ValueError: the array has not as many numbers as the tensor, or it is given
            to a table.
    Examples:
        >>> numbers = np.array([[1, 2, 3], [4, 5, 6]])
        >>> m = dy.ParameterCollection()
        >>> W = m.add_parameters((3, 2), init=dy.NumpyInitializer(numbers))
        >>> print(W.as_array())
        [[1. 5.]
         [4. 3.]
         [2. 6.]]
    """

    for_tables = False

    def __init__(self, array: ArrayLike):
        self.array: np.ndarray = np.array(to_array(array), dtype=np.float32)

    def _numbers(self, shape):
        return _right_size("NumpyInitializer", self.array.ravel(order="F"), shape)


def _require_square(name: str, shape: Shape) -> None:
    if len(shape) != 2 or shape[0] != shape[1]:
        raise RuntimeError(
            error_text(
                f"{name}: the tensor is no square matrix",
                got=Dim(shape),
                expected="{n,n}",
                fix="use another initialiser",
            )
        )


def _right_size(name: str, numbers: np.ndarray, shape: Shape) -> np.ndarray:
    if numbers.size != math.prod(shape):
        raise ValueError(
            error_text(
                f"{name}: the count of numbers does not fit",
                got=f"{numbers.size} numbers",
                expected=f"{math.prod(shape)}, for {Dim(shape)}",
                fix="check the file or the array, and dim",
            )
        )
    return numbers


_BY_NAME: dict[str, Callable[..., PyInitializer]] = {
    "glorot": lambda rows, scale, mean, std: GlorotInitializer(),
    "uniform": lambda rows, scale, mean, std: UniformInitializer(scale),
    "normal": lambda rows, scale, mean, std: NormalInitializer(mean, std * std),
    "identity": lambda rows, scale, mean, std: IdentityInitializer(),
    "he": lambda rows, scale, mean, std: NormalInitializer(0, 1 / (2 * rows[-1])),
}


def initializer(
    init: Any, rows: Shape, *, scale: float, mean: float, std: float
) -> PyInitializer:
    """What the `init` argument of ``add_parameters`` stands for.

    Args:
        init: None, a number, a name or a PyInitializer.
        rows: the shape of the parameter, or of one row of a table.
        scale: of ``'uniform'``.
        mean, std: of ``'normal'``.
    Raises:
        ValueError: `init` is none of these.
    """
    if isinstance(init, PyInitializer):
        return init
    number = number_in(init)
    if number is not None:
        return ConstInitializer(number)
    name = "glorot" if init is None else init
    if isinstance(name, str) and name in _BY_NAME:
        return _BY_NAME[name](rows, scale, mean, std)
    raise ValueError(
        error_text(
            "init: it is no initialiser",
            got=f"{init!r} ({type(init).__name__})",
            expected="a number, an array, a PyInitializer or one of "
            + ", ".join(sorted(_BY_NAME)),
            fix="use SaxeInitializer() for 'saxe', say",
        )
    )
