"""Checks of what is not an operand: indices, numbers, devices, batch sizes."""

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np

from dynetjax.core.dims import MAX_ORDER, Dim, DimError
from dynetjax.core.errors import error_text
from dynetjax.ops.arrays import listed, number_in

MAX_UNSIGNED = 2**32 - 1

# What operations take beside expressions.
Int: TypeAlias = int | np.integer[Any]
Number: TypeAlias = float | np.integer[Any] | np.floating[Any]
Ints: TypeAlias = Sequence[Int] | np.ndarray  # or a range
Numbers: TypeAlias = Sequence[Number] | np.ndarray


def unsigned(name: str, argument: str, value: Any) -> int:
    """`value` as a non-negative int; floats are truncated, as in DyNet.

    Raises:
        TypeError: `value` is not a number.
        OverflowError: it is negative, or does not fit 32 bits.
    """
    if type(value) is int and 0 <= value <= MAX_UNSIGNED:
        return value
    given = number_in(value)
    if given is None:
        raise TypeError(
            error_text(
                f"{name}: {argument} is not a number",
                got=f"{value!r} ({type(value).__name__})",
                expected="a non-negative int",
                fix="pass one int; the batched operations take lists",
            )
        )
    number = int(given)
    if not 0 <= number <= MAX_UNSIGNED:
        raise OverflowError(
            error_text(
                f"{name}: {argument} is negative or too large",
                got=number,
                expected="an int from 0 on, below 2**32",
                fix="count from 0; only x[-1] counts from the end",
            )
        )
    return number


def index_below(name: str, argument: str, value: Any, size: int) -> int:
    """`value` as an int in ``[0, size)``.

    Raises:
        TypeError, OverflowError: as `unsigned`.
        ValueError: it is `size` or more.
    """
    if type(value) is int and 0 <= value < size:
        return value
    number = unsigned(name, argument, value)
    if number >= size:
        raise ValueError(
            error_text(
                f"{name}: {argument} is out of range",
                got=number,
                expected=f"0 <= {argument} < {size}",
                fix="count from 0",
            )
        )
    return number


def indices_below(name: str, argument: str, values: Any, size: int) -> list[int]:
    """A list of ints in ``[0, size)``, from a list, tuple, range or 1-d array.

    Raises:
        TypeError: `values` is no such sequence, or an element is not a number.
        OverflowError, ValueError: as `index_below`.
    """
    if type(values) is list and are_below(values, size):
        return list(values)
    values = listed(values)
    kinds = list, tuple, range
    if not isinstance(values, kinds) or any(isinstance(v, kinds) for v in values):
        raise TypeError(
            error_text(
                f"{name}: {argument} is not a sequence of ints",
                got=f"{values!r} ({type(values).__name__})",
                expected="a list, tuple or 1-d array of ints",
                fix="put the ints into a list",
            )
        )
    return [index_below(name, argument, value, size) for value in values]


def are_below(values: list[Any], size: int) -> bool:
    """Whether all are ints in ``[0, size)``, as they nearly always are."""
    for value in values:
        if type(value) is not int or not 0 <= value < size:
            return False
    return True


def are_sizes(values: tuple[Any, ...]) -> bool:
    """Whether all are ints from 1 on, and not too many, as they nearly always are."""
    for value in values:
        if type(value) is not int or value < 1:
            return False
    return 0 < len(values) <= MAX_ORDER


def one_per_element(
    name: str, argument: str, values: Sequence[Any], batch: int
) -> None:
    """Check that there is one of `values` for each of `batch` elements.

    Raises:
        ValueError: there are fewer or more.
    """
    if len(values) != batch:
        raise ValueError(
            error_text(
                f"{name}: {argument} does not fit the batch",
                got=f"{len(values)} of them for a batch of {batch}",
                expected="one per batch element",
                fix="give as many as there are batch elements",
            )
        )


def number(name: str, argument: str, value: Any) -> float:
    """`value` as a float.

    Raises:
        TypeError: it is not a number.
    """
    given = number_in(value)
    if given is None:
        raise TypeError(
            error_text(
                f"{name}: {argument} is not a number",
                got=f"{value!r} ({type(value).__name__})",
                expected="an int or a float",
                fix="pass a Python number",
            )
        )
    return float(given)


def one_number(name: str, dims: list[Dim], value: Any) -> tuple[Any, ...]:
    """The `accept` of an operation with one number as runtime data."""
    del dims
    return (), number(name, "the constant", value), 1


def number_from(name: str, argument: str, value: Any, low: float) -> float:
    """`value` as a float of at least `low`.

    Raises:
        TypeError: it is not a number.
        ValueError: it is below `low`.
    """
    converted = number(name, argument, value)
    if not converted >= low:
        raise ValueError(
            error_text(
                f"{name}: {argument} is too small",
                got=converted,
                expected=f"{argument} >= {low:g}",
                fix="check its sign",
            )
        )
    return converted


def axis_of(name: str, argument: str, value: Any, x: Dim) -> int:
    """`value` as an axis that `x` has.

    Raises:
        DimError: `x` has no such axis.
    """
    axis = unsigned(name, argument, value)
    if axis >= len(x.shape):
        raise DimError(
            error_text(
                f"{name}: x has no such dimension",
                got=f"{argument} = {axis}, x = {x}",
                expected=f"{argument} < {len(x.shape)}",
                fix="count dimensions from 0; the batch is not one of them",
            )
        )
    return axis


def order_at_most(name: str, x: Dim, order: int) -> None:
    """Check that `x` has at most `order` dimensions.

    Raises:
        DimError: it has more.
    """
    if len(x.shape) > order:
        raise DimError(
            error_text(
                f"{name}: x has too many dimensions",
                got=x,
                expected=f"at most {order} dimensions",
                fix="reshape x first",
            )
        )


def misfit(name: str, dims: Iterable[Dim], expected: str, fix: str) -> DimError:
    """The error for operands whose dims do not fit the operation."""
    return DimError(
        error_text(
            f"{name}: the dims of the operands do not fit",
            got=", ".join(map(str, dims)),
            expected=expected,
            fix=fix,
        )
    )


def one_batch(name: str, dims: list[Dim]) -> int:
    """The batch size of operands whose batches are equal or 1.

    Raises:
        DimError: there are two different ones.
    """
    sizes = {dim.batch for dim in dims} - {1}
    if len(sizes) > 1:
        raise DimError(
            error_text(
                f"{name}: the operands have different batch sizes",
                got=", ".join(map(str, dims)),
                expected="one batch size, or 1",
                fix="bring the batches to one size",
            )
        )
    return max(sizes, default=1)
