"""Expressions that are filled with numbers: one number everywhere, or a single one.

They have no operands, and are computed inside whatever reads them.
"""

from typing import Any

from dynetjax.core.devices import check_device, on_device
from dynetjax.core.dims import DimError, Shape, to_shape
from dynetjax.core.errors import error_text
from dynetjax.core.expression import Expression
from dynetjax.core.lazy import jnp, lax
from dynetjax.core.registry import Op
from dynetjax.graph import current_graph
from dynetjax.ops.arguments import (
    MAX_UNSIGNED,
    Int,
    Ints,
    Number,
    are_sizes,
    index_below,
    indices_below,
    number,
    unsigned,
)
from dynetjax.ops.arrays import is_number

__all__ = ["constant", "one_hot", "ones", "zeroes", "zeros"]


def given_shape(name: str, shape: Shape) -> Shape:
    """The dim rule of operations that are told their dims."""
    del name
    return shape


def shape_and_batch(name: str, dim: Any, batch_size: Any) -> tuple[Shape, int]:
    """The dims and the batch size that a user asks for; a batch of 0 is one of 1.

    Raises:
        TypeError: `dim` is neither a number nor a tuple, or `batch_size` no number.
        DimError: a size is not positive, or there are more than seven.
        OverflowError: `batch_size` is negative.
    """
    if type(batch_size) is int and 0 < batch_size <= MAX_UNSIGNED:
        sizes = (dim,) if type(dim) is int else dim
        if type(sizes) is tuple and are_sizes(sizes):
            return sizes, batch_size
    if isinstance(dim, list):
        raise TypeError(
            error_text(
                f"{name}: dim is not a number or a tuple of numbers",
                got=f"{dim!r} (list)",
                expected="an int or a tuple of ints",
                fix="tuple(...)",
            )
        )
    shape = to_shape(name, dim)
    if 0 in shape or not shape:
        raise DimError(
            error_text(
                f"{name}: dim has no numbers in it",
                got=dim,
                expected="sizes of at least 1",
                fix="leave the expression out",
            )
        )
    return shape, unsigned(name, "batch_size", batch_size) or 1


CONSTANT_OP = Op(
    "constant",
    lambda val, *, shape: jnp.full(shape, val),
    given_shape,
    static=("shape",),
    runtime="f",
)
ONE_HOT_OP = Op(
    "one_hot",
    lambda idx, *, d: jnp.where(lax.iota(jnp.int32, d) == idx, 1.0, 0.0),
    lambda name, d: (d,),
    static=("d",),
    runtime="i",
)


def _filled(name: str, dim: Any, val: float, batch_size: Any, device: str):
    check_device(name, device)
    shape, batch = shape_and_batch(name, dim, batch_size)
    return on_device(current_graph().add(CONSTANT_OP, (), (shape,), val, batch), device)


def zeros(
    dim: int | tuple[int, ...], batch_size: Int = 1, device: str = ""
) -> Expression:
    """Zeros.

    Args:
        dim: an int, or a tuple of sizes.
        batch_size: how many batch elements.
        device: "", or the name of a device; see `to_device`.
    Returns:
        `dim`, with a batch of `batch_size`.
    Raises:
        TypeError: `dim` is neither a number nor a tuple.
        DimError: a size is not positive, or there are more than seven.
        OverflowError: `batch_size` is negative.
        RuntimeError: there is no such device.
    Source: clab/dynet, ``dynet/nodes-const.cc``.
    Examples:
        >>> print(dy.zeros((2, 3)).npvalue())
        [[0. 0. 0.]
         [0. 0. 0.]]
    """
    return _filled("zeros", dim, 0.0, batch_size, device)


def zeroes(
    dim: int | tuple[int, ...], batch_size: Int = 1, device: str = ""
) -> Expression:
    """`zeros` by its older name.

    Args:
        dim: an int, or a tuple of sizes.
        batch_size: how many batch elements.
        device: "", or the name of a device; see `to_device`.
    Returns:
        `dim`, with a batch of `batch_size`.
    Raises:
        TypeError, DimError, OverflowError, RuntimeError: as `zeros`.
    Source: clab/dynet, ``python/_dynet.pyx``.
    Examples:
        >>> dy.zeroes(3, batch_size=2).dim()
        ((3,), 2)
    """
    return _filled("zeroes", dim, 0.0, batch_size, device)


def ones(
    dim: int | tuple[int, ...], batch_size: Int = 1, device: str = ""
) -> Expression:
    """Ones.

    Args:
        dim: an int, or a tuple of sizes.
        batch_size: how many batch elements.
        device: "", or the name of a device; see `to_device`.
    Returns:
        `dim`, with a batch of `batch_size`.
    Raises:
        TypeError, DimError, OverflowError, RuntimeError: as `zeros`.
    Source: clab/dynet, ``dynet/nodes-const.cc``.
    Examples:
        >>> dy.ones(3).value()
        [1.0, 1.0, 1.0]
        >>> dy.ones((2, 3), batch_size=4).dim()
        ((2, 3), 4)
    """
    return _filled("ones", dim, 1.0, batch_size, device)


def constant(
    dim: int | tuple[int, ...], val: Number, batch_size: Int = 1, device: str = ""
) -> Expression:
    """One number everywhere.

    Args:
        dim: an int, or a tuple of sizes.
        val: the number. Run-time: a new val never recompiles.
        batch_size: how many batch elements.
        device: "", or the name of a device; see `to_device`.
    Returns:
        `dim`, with a batch of `batch_size`.
    Raises:
        TypeError: `dim` is neither a number nor a tuple, or `val` no number.
        DimError, OverflowError, RuntimeError: as `zeros`.
    Source: clab/dynet, ``dynet/nodes-const.cc``.
    Examples:
        >>> print(dy.constant((2, 2), 7).npvalue())
        [[7. 7.]
         [7. 7.]]
    """
    value = number("constant", "val", val)
    return _filled("constant", dim, value, batch_size, device)


def one_hot(d: Int, idx: int | Ints, device: str = "") -> Expression:
    """Zeros with a one in them.

    Args:
        d: how many numbers.
        idx: where the one is, from 0 on; or a list or array, with one such for every
            batch element. Run-time: a new idx never recompiles.
        device: "", or the name of a device; see `to_device`.
    Returns:
        ``{d}``, or ``{d X b}`` for b of `idx`.
    Raises:
        TypeError: `d` is not a number, or `idx` neither an int nor a list of them.
        DimError: `d` is 0.
        ValueError: `idx` is `d` or more, or a list of none.
        OverflowError: a number is negative.
        RuntimeError: there is no such device.
    Source: clab/dynet, ``dynet/nodes-const.cc``.
    Examples:
        >>> dy.one_hot(4, 2).value()
        [0.0, 0.0, 1.0, 0.0]
        >>> dy.one_hot(4, [2, 0, 1]).dim()
        ((4,), 3)
    """
    name = "one_hot"
    check_device(name, device)
    ((size,), _) = shape_and_batch(name, unsigned(name, "d", d), 1)
    if is_number(idx):
        row = index_below(name, "idx", idx, size)
        return on_device(current_graph().add(ONE_HOT_OP, (), (size,), row, 1), device)
    rows = indices_below(name, "idx", idx, size)
    if not rows:
        raise ValueError(
            error_text(
                f"{name}: idx is empty",
                got=idx,
                expected="at least one number",
                fix="leave the expression out",
            )
        )
    return on_device(
        current_graph().add(ONE_HOT_OP, (), (size,), rows, len(rows)), device
    )
