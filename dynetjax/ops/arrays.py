"""Numbers and arrays that users give: Python's, NumPy's, JAX's, PyTorch's."""

import operator
from typing import Any, TypeGuard

import numpy as np

from dynetjax.core.errors import error_text
from dynetjax.core.expression import Expression
from dynetjax.core.lazy import is_jax_imported, jax


class NoNumbersError(TypeError):
    """Numbers are asked of what has none: an array that JAX traces, expressions."""


def is_array(value: object) -> bool:
    """Whether NumPy makes an array of `value` by ``__array__``; of no expression."""
    if isinstance(value, np.ndarray):
        return True
    return hasattr(type(value), "__array__") and not isinstance(value, Expression)


def is_dimensional(value: Any) -> bool:
    """Whether `value` is an array of at least one dimension."""
    return is_array(value) and np.ndim(value) > 0


def to_array(value: Any, dtype: Any = None) -> np.ndarray:
    """`value` as an array of NumPy's, perhaps the same.

    Raises:
        NoNumbersError: JAX traces it, or something in it.
        TypeError, ValueError: it is no array.
    """
    try:
        return np.asarray(value, dtype)
    except TypeError as error:
        raise_if_traced(error)
        raise


def raise_if_traced(error: Exception) -> None:
    """Say what to do about JAX's error for an array without numbers.

    Raises:
        NoNumbersError: `error` is one.
    """
    if is_jax_imported() and isinstance(error, jax.errors.TracerArrayConversionError):
        raise NoNumbersError(
            error_text(
                "an array that JAX traces has no numbers yet",
                got="a tracer of jax.grad, jax.jit or jax.vmap",
                expected="numbers: expressions are computed outside of JAX's functions",
                fix="f = dynetjax.to_jax(expression); JAX differentiates and traces f",
            )
        ) from None


def is_number(value: object) -> TypeGuard[Any]:
    """Whether `value` is a real number, or an array of one."""
    return number_in(value) is not None


def number_in(value: Any) -> float | None:
    """`value` as Python's number, if it is a real number or an array of one."""
    if isinstance(value, (int, float)):
        return value
    if isinstance(value, (np.integer, np.floating)):  # which are arrays, too
        return value.item()
    if not is_array(value):
        return None
    array = to_array(value)
    if array.size != 1 or array.dtype.kind in "OSUc":
        return None
    if array.dtype.kind == "V":  # of JAX's short floats
        array = array.astype(np.float32)
    item = array.item()
    return item if isinstance(item, (int, float)) else None


def listed(value: Any) -> Any:
    """`value`, as a list if it is an array."""
    return to_array(value).tolist() if is_array(value) else value


def index_in(value: Any) -> int | None:
    """`value` as Python's int, if it is an int, or an array of one."""
    try:
        return operator.index(value)
    except TypeError:
        number = number_in(value)
        return number if isinstance(number, int) else None


def raise_if_expressions(values: Any) -> None:
    """Say what to do about expressions in place of numbers.

    Raises:
        NoNumbersError: `values`, lists in lists perhaps, begins with one.
    """
    while type(values) in (list, tuple) and values:
        values = values[0]
    if isinstance(values, Expression):
        raise NoNumbersError(
            error_text(
                "inputs are made of numbers, not of expressions",
                got=f"{values!r} ({type(values).__name__})",
                expected="numbers",
                fix="concatenate(xs), through which gradients go; or value() of each",
            )
        )
