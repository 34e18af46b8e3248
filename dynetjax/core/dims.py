"""Dim: the sizes of an expression, with the batch size beside them."""

import math
import operator
from typing import Any, NamedTuple

from dynetjax.core.errors import error_text

MAX_ORDER = 7
MOST_NUMBERS = 2**31 - 1  # of one batch element

Shape = tuple[int, ...]


class DimError(ValueError):
    """The dimensions of the operands do not fit the operation.

    Examples:
        >>> W, x = dy.zeros((2, 3)), dy.zeros(4)
        >>> try:
        ...     h = W * x
        ... except dy.DimError as error:
        ...     print(error)
        matmul: the dims of the operands do not fit
          got:      {2,3}, {4}
          expected: {m,k} times {k} or {k,n}
          fix:      use cmult for element-wise products, transpose for the other side
    """


class Dim(NamedTuple):
    """Sizes of one batch element, and how many elements there are.

    ``Dim((3, 2), 4)`` prints as DyNet prints it: ``{3,2X4}``.

    Examples:
        >>> dim = dy.Dim((3, 2), 4)
        >>> print(dim, dim.size, dim.batch)
        {3,2X4} 6 4
        >>> x = dy.inputTensor(np.zeros((3, 2, 4)), batched=True)
        >>> print(dy.Dim(*x.dim()) == dim)
        True
    """

    shape: Shape
    batch: int = 1

    def __str__(self) -> str:
        sizes = ",".join(map(str, self.shape))
        return f"{{{sizes}X{self.batch}}}" if self.batch != 1 else f"{{{sizes}}}"

    @property
    def size(self) -> int:
        """Numbers in one batch element."""
        return math.prod(self.shape)


def trim(shape: Shape) -> Shape:
    """`shape` without its trailing ones, at least one size long."""
    while len(shape) > 1 and shape[-1] == 1:
        shape = shape[:-1]
    return shape


def pad(shape: Shape, order: int) -> Shape:
    """`shape` with ones added at the end up to `order` sizes."""
    return shape + (1,) * (order - len(shape))


def is_vector_like(shape: Shape) -> bool:
    """Whether every size after the first is one."""
    return all(n == 1 for n in shape[1:])


def is_index(value: Any) -> bool:
    """Whether `value` is an int, or like one: of NumPy's, or an array of one."""
    try:
        operator.index(value)
    except TypeError:
        return False
    return True


def to_shape(name: str, dim: object) -> Shape:
    """The shape a user gave as an int, a float or a tuple or list of them.

    Raises:
        TypeError: `dim` is none of these.
        ValueError: a size is negative, or there are more than seven.
    """
    sizes = (dim,) if isinstance(dim, float) or is_index(dim) else dim
    if not isinstance(sizes, (tuple, list)):
        raise TypeError(
            error_text(
                f"{name}: dim is not a number or a tuple of numbers",
                got=f"{dim!r} ({type(dim).__name__})",
                expected="an int or a tuple of ints",
                fix="pass (rows, columns), say",
            )
        )
    shape = tuple(int(n) for n in sizes)
    if len(shape) > MAX_ORDER or any(n < 0 for n in shape):
        raise DimError(
            error_text(
                f"{name}: dim is out of range",
                got=Dim(shape),
                expected=f"at most {MAX_ORDER} sizes, none negative",
                fix="check the order and the sign of the sizes",
            )
        )
    return shape
