"""Means, raw moments and standard deviations: over elements, dimensions, the batch."""

from functools import lru_cache

from dynetjax.core.dims import Dim, Shape
from dynetjax.core.errors import error_text, named
from dynetjax.core.expression import Expression
from dynetjax.core.lazy import jnp, lax
from dynetjax.ops.arguments import unsigned
from dynetjax.ops.arithmetic import scale, subtract
from dynetjax.ops.declare import op
from dynetjax.ops.elementwise import sqrt, square
from dynetjax.ops.reductions import kept_shape, summed_dims, to_number, total
from dynetjax.ops.rows import mean_batches
from dynetjax.ops.shaping import reshape

__all__ = [
    "average_cols",
    "mean_dim",
    "mean_elems",
    "moment_batches",
    "moment_dim",
    "moment_elems",
    "std_batches",
    "std_dim",
    "std_elems",
]


@op(inputs="x", dim=to_number)
def mean_elems(x):
    """Mean of the elements.

        1/n sum_i x_i

    Args:
        x: any dims.
    Returns:
        ``{1 X b}``.
    Source: clab/dynet, ``dynet/nodes-moments.cc``.
    Examples:
        >>> print(dy.mean_elems(dy.inputVector([1, 2, 6])).npvalue().round(3))
        [3.]
    """
    return jnp.mean(x).reshape(1)


@op(inputs="x", dim=to_number)
def std_elems(x):
    """Standard deviation of the elements; its gradient is NaN where it is 0.

        sqrt(1/n sum_i (x_i - mean(x))^2)

    Args:
        x: any dims.
    Returns:
        ``{1 X b}``.
    Source: clab/dynet, ``dynet/nodes-moments.cc``.
    Examples:
        >>> x = dy.inputVector([2, 4, 4, 4, 5, 5, 7, 9])
        >>> print(dy.std_elems(x).npvalue().round(3))
        [2.]
    """
    return jnp.sqrt(jnp.mean(jnp.square(x - jnp.mean(x)))).reshape(1)


def _order(name, dims, r):
    del dims
    order = unsigned(name, "r", r)
    if order == 0:
        raise ValueError(
            error_text(
                f"{name}: r is not an order",
                got=order,
                expected="r >= 1",
                fix="the first moment, r = 1, is the mean",
            )
        )
    return (order,), None, 1


@op(inputs="x", dim=to_number, accept=_order)
def moment_elems(x, r: int):
    """Raw moment of the elements.

        1/n sum_i x_i^r

    Args:
        x: any dims.
        r: the order, from 1 on.
    Returns:
        ``{1 X b}``.
    Raises:
        ValueError: `r` is 0.
        OverflowError: it is negative.
    Source: clab/dynet, ``dynet/nodes-moments.cc``.
    Examples:
        >>> print(dy.moment_elems(dy.inputVector([1, 3]), 3).npvalue().round(3))
        [14.]
    """
    return jnp.mean(lax.integer_pow(x, r)).reshape(1)


def _same(name: str, x: Dim, r: int) -> Shape:
    del name, r
    return x.shape


@op(inputs="x", dim=_same, accept=_order)
def power(x, r: int):
    """Every element to the power of an integer `r`, of which moments are the means.

    Args:
        x: any dims.
        r: the order, from 1 on.
    Returns:
        The dims of `x`.
    Raises:
        ValueError: `r` is 0.
    Source: clab/dynet, ``dynet/nodes-moments.cc``.
    """
    return lax.integer_pow(x, r)


@lru_cache(maxsize=1 << 10)
def _factor(x: Dim, axes: tuple[int, ...], b: bool, n: int) -> float:
    """One through `n`, or through how many elements are summed."""
    kept = Dim(kept_shape("", x, axes))
    return 1 / (n or x.size // kept.size * (x.batch if b else 1))


def mean_dim(x: Expression, d: list[int], b: bool, n: int = 0) -> Expression:
    """Mean over dimensions, and over the batch too if `b`.

    Args:
        x: any dims.
        d: a list of dimensions.
        b: over the batch too.
        n: divide by this instead of the number of elements, if it is not 0.
    Returns:
        The dims of `x` without those in `d`, or ``{1}``.
    Raises:
        TypeError: `d` is not a list.
        DimError: `d` is empty without `b`, repeats itself, or names more than two
            dimensions or one that `x` has not; or `x` has more than three.
    Source: clab/dynet, ``dynet/nodes-moments.cc``.
    Examples:
        >>> x = dy.inputTensor([[1, 2, 3], [4, 5, 6]], batched=True)
        >>> print(dy.mean_dim(x, [0], b=False).npvalue().round(3))
        [[2.5 3.5 4.5]]
        >>> print(dy.mean_dim(x, [0], b=True).npvalue().round(3))
        [3.5]
    """
    axes, divisor = summed_dims("mean_dim", x, d, b), unsigned("mean_dim", "n", n)
    return scale(total(x, axes, b), _factor(x.full_dim, axes, bool(b), divisor))


def average_cols(x: Expression) -> Expression:
    """Mean of the columns.

        1/n sum_j x_ij

    Args:
        x: two dimensions or three.
    Returns:
        The dims of `x` without the second.
    Raises:
        DimError: `x` has one dimension, or more than three.
    Source: clab/dynet, ``dynet/expr.cc``; in Python ``mean_dim(x, [1], False)``.
    Examples:
        >>> x = dy.inputTensor([[1, 2, 3], [4, 5, 9]])
        >>> print(dy.average_cols(x).npvalue().round(3))
        [2. 6.]
    """
    axes = summed_dims("average_cols", x, [1], False)
    return scale(total(x, axes, False), _factor(x.full_dim, axes, False, 0))


@named
def moment_dim(x: Expression, d: list[int], r: int, b: bool, n: int = 0) -> Expression:
    """Raw moment over dimensions, and over the batch too if `b`.

        1/n sum_i x_i^r

    Args:
        x: any dims.
        d: a list of dimensions.
        r: the order, from 1 on.
        b: over the batch too.
        n: divide by this instead of the number of elements, if it is not 0.
    Returns:
        The dims of `x` without those in `d`, or ``{1}``.
    Raises:
        TypeError: `d` is not a list.
        ValueError: `r` is 0.
        DimError: as for `mean_dim`.
    Source: clab/dynet, ``dynet/nodes-moments.cc``.
    Examples:
        >>> x = dy.inputTensor([[1, 3], [2, 4]])
        >>> print(dy.moment_dim(x, [1], r=2, b=False).npvalue().round(3))
        [ 5. 10.]
    """
    axes, divisor = summed_dims("moment_dim", x, d, b), unsigned("moment_dim", "n", n)
    return scale(
        total(power(x, r), axes, b), _factor(x.full_dim, axes, bool(b), divisor)
    )


def std_dim(x: Expression, d: list[int], b: bool, n: int = 0) -> Expression:
    """Standard deviation over dimensions, and over the batch too if `b`.

        sqrt(1/n sum_i (x_i - mean(x))^2)

    Args:
        x: any dims.
        d: a list of dimensions.
        b: over the batch too.
        n: without effect, as in DyNet.
    Returns:
        The dims of `x` without those in `d`, or ``{1}``. The gradient is NaN where the
        result is 0.
    Raises:
        TypeError: `d` is not a list.
        DimError: `d` is empty without `b`, repeats itself, or names more than two
            dimensions or one that `x` has not; or `x` has more than three.
    Source: clab/dynet, ``dynet/nodes-moments.cc``.
    Examples:
        >>> x = dy.inputTensor([[1, 3], [2, 8]])
        >>> print(dy.std_dim(x, [1], b=False).npvalue().round(3))
        [1. 3.]
    """
    del n
    axes = summed_dims("std_dim", x, d, b)
    mean = mean_dim(x, d, b)
    kept = tuple(1 if k in axes else size for k, size in enumerate(x.dim()[0]))
    deviation = subtract(x, reshape(mean, kept, mean.dim()[1]))
    return sqrt(mean_dim(square(deviation), d, b))


@named
def moment_batches(x: Expression, r: int) -> Expression:
    """Raw moment over the batch.

        1/b sum_k x_k^r

    Args:
        x: any dims.
        r: the order, from 1 on.
    Returns:
        The dims of `x`, not batched.
    Raises:
        ValueError: `r` is 0.
        OverflowError: it is negative.
    Source: clab/dynet, ``dynet/nodes-moments.cc``.
    Examples:
        >>> x = dy.inputTensor([[1, 3]], batched=True)
        >>> print(dy.moment_batches(x, 2).npvalue().round(3))
        [5.]
    """
    return mean_batches(power(x, r))


@named
def std_batches(x: Expression) -> Expression:
    """Standard deviation over the batch; its gradient is NaN where it is 0.

        sqrt(1/b sum_k (x_k - mean(x))^2)

    Args:
        x: any dims.
    Returns:
        The dims of `x`, not batched.
    Source: clab/dynet, ``dynet/nodes-moments.cc``.
    Examples:
        >>> x = dy.inputTensor([[1, 3], [2, 8]], batched=True)
        >>> print(dy.std_batches(x).npvalue().round(3))
        [1. 3.]
    """
    return sqrt(mean_batches(square(subtract(x, mean_batches(x)))))
