"""Element-wise arithmetic of two operands, or of one and a number.

Dimensions are aligned from the first on: ``{2}`` fits ``{2,3}`` as a column, and
``{3}`` does not. A number is runtime data: another one never recompiles.
"""

from typing import Any

from dynetjax.core.dims import Dim, DimError, Shape, pad, trim
from dynetjax.core.errors import error_text
from dynetjax.core.lazy import jnp
from dynetjax.graph import ComputationGraph
from dynetjax.ops.arguments import Number, one_number
from dynetjax.ops.declare import in_pairs, op, real
from dynetjax.ops.elementwise import same

__all__ = ["bmax", "bmin", "cdiv", "cmult", "emax", "pow"]


def _misfit(name: str, dims: list[Dim], expected: str, fix: str) -> DimError:
    return DimError(
        error_text(
            f"{name}: the dims of the operands do not fit",
            got=", ".join(map(str, dims)),
            expected=expected,
            fix=fix,
        )
    )


def _broadcast(name: str, x: Dim, y: Dim) -> Shape:
    """Sizes are equal, or one of them is 1; missing ones are 1."""
    order = max(len(x.shape), len(y.shape))
    pairs = list(zip(pad(x.shape, order), pad(y.shape, order), strict=True))
    if any(m != n and 1 not in (m, n) for m, n in pairs):
        raise _misfit(
            name,
            [x, y],
            "equal sizes, or 1, counted from the first dimension",
            "reshape or transpose one operand",
        )
    return tuple(n if m == 1 else m for m, n in pairs)


def _right_broadcast(name: str, x: Dim, y: Dim) -> Shape:
    """Sizes are equal, or that of `y` is 1; the result is no larger than `x`."""
    shape = _broadcast(name, x, y)
    if trim(shape) != trim(x.shape) or (x.batch == 1 and y.batch != 1):
        raise _misfit(
            name,
            [x, y],
            "the right operand no larger than the left one",
            "add zeros of the larger dims to the left one",
        )
    return x.shape


def identical(name: str, *dims: Dim) -> Shape:
    """Sizes, order and batch are the same everywhere."""
    if any(dim != dims[0] for dim in dims):
        raise _misfit(
            name, list(dims), "the same dims and batch size", "reshape the operands"
        )
    return dims[0].shape


def _exponent(name: str, x: Dim, y: Dim) -> Shape:
    if y.batch != 1:
        raise RuntimeError(
            error_text(
                f"{name}: the exponent is batched",
                got=y,
                expected="{1}",
                fix="use exp(cmult(y, log(x))) for one exponent per element",
            )
        )
    if y.size != 1:
        raise _misfit(name, [x, y], "an exponent of one element", "pick one exponent")
    return trim(x.shape)


def _aligned(x, y):
    """Both with as many axes as the one that has more."""
    order = max(x.ndim, y.ndim)
    return x.reshape(pad(x.shape, order)), y.reshape(pad(y.shape, order))


@op(inputs="x y", dim=_broadcast)
def add(x, y):
    """Sum, ``x + y``; either operand is repeated where its size or batch is 1.

    Args:
        x: any dims.
        y: sizes equal to those of `x`, or 1 in one of them.
    Returns:
        The larger size in each dimension.
    Raises:
        DimError: the sizes or the batches do not fit.
    Source: clab/dynet, ``dynet/nodes-arith-sum.cc``.
    """
    x, y = _aligned(x, y)
    return x + y


@op(inputs="x y", dim=_broadcast)
def subtract(x, y):
    """Difference, ``x - y``; either operand is repeated where its size or batch is 1.

    Args:
        x: any dims.
        y: sizes equal to those of `x`, or 1 in one of them.
    Returns:
        The larger size in each dimension.
    Raises:
        DimError: the sizes or the batches do not fit.
    Source: clab/dynet, ``dynet/expr.cc``.
    """
    x, y = _aligned(x, y)
    return x - y


@op(inputs="x y", dim=_broadcast)
def cmult(x, y):
    """Element-wise product; either operand is repeated where its size or batch is 1.

    Args:
        x: any dims.
        y: sizes equal to those of `x`, or 1 in one of them.
    Returns:
        The larger size in each dimension.
    Raises:
        DimError: the sizes or the batches do not fit.
    Source: clab/dynet, ``dynet/nodes-arith-cwise.cc``.
    Examples:
        >>> x = dy.inputTensor([[1, 2, 3], [4, 5, 6]])
        >>> print(dy.cmult(x, dy.inputVector([1, 10])).npvalue())
        [[ 1.  2.  3.]
         [40. 50. 60.]]
    """
    x, y = _aligned(x, y)
    return x * y


@op(inputs="x y", dim=_right_broadcast, batch_matters=True)
def cdiv(x, y):
    """Element-wise quotient; the divisor is repeated where its size or batch is 1.

    Args:
        x: any dims.
        y: sizes equal to those of `x`, or 1; no more dimensions larger than 1.
    Returns:
        The dims of `x`.
    Raises:
        DimError: the sizes or the batches do not fit, or `y` is larger than `x`.
    Source: clab/dynet, ``dynet/nodes-arith-cwise.cc``.
    Examples:
        >>> x, y = dy.inputVector([6, 8]), dy.inputVector([2, 4])
        >>> print(dy.cdiv(x, y).npvalue().round(3))
        [3. 2.]
    """
    shape = x.shape
    x, y = _aligned(x, y)
    return (x / y).reshape(shape)


@op(inputs="x", dim=same)
def negate(x):
    """The negative, ``-x``.

    Args:
        x: any dims.
    Returns:
        The dims of `x`.
    Source: clab/dynet, ``dynet/nodes-arith-unary.cc``.
    """
    return -x


@op(inputs="x", runtime="k:f", dim=same, accept=one_number, usual={"k": real()})
def scale(x, k: Number):
    """Every number times `k`.

    Args:
        x: any dims.
        k: a number. Run-time: a new k never recompiles.
    Returns:
        The dims of `x`.
    Raises:
        TypeError: `k` is not a number.
    Source: clab/dynet, ``dynet/nodes-arith-const.cc``.
    """
    return x * k


@op(inputs="x", runtime="k:f", dim=same, accept=one_number, usual={"k": real()})
def shift(x, k: Number):
    """`k` added to every number.

    Args:
        x: any dims.
        k: a number. Run-time: a new k never recompiles.
    Returns:
        The dims of `x`.
    Raises:
        TypeError: `k` is not a number.
    Source: clab/dynet, ``dynet/nodes-arith-const.cc``.
    """
    return x + k


@op(inputs="x", runtime="k:f", dim=same, accept=one_number, usual={"k": real()})
def subtract_from(x, k: Number):
    """``k - x``, number by number.

    Args:
        x: any dims.
        k: a number. Run-time: a new k never recompiles.
    Returns:
        The dims of `x`.
    Raises:
        TypeError: `k` is not a number.
    Source: clab/dynet, ``dynet/nodes-arith-const.cc``.
    """
    return k - x


@op(inputs="x y", dim=_exponent, batch_matters=True)
def pow(x, y):
    """Every number of `x` to the power of `y`.

        x^y

    Args:
        x: any dims; NaN where negative, unless `y` is an integer.
        y: one number that is not batched, ``{1}``.
    Returns:
        The dims of `x` without trailing ones.
    Raises:
        DimError: `y` has more than one element.
        RuntimeError: `y` is batched.
    Source: clab/dynet, ``dynet/nodes-arith-cwise.cc``.
    Examples:
        >>> x, y = dy.inputVector([1, 2, 3]), dy.scalarInput(2)
        >>> print(dy.pow(x, y).npvalue().round(3))
        [1. 4. 9.]
    """
    return jnp.power(x.reshape(trim(x.shape)), y.reshape(()))


@op(inputs="x y", dim=identical, batch_matters=True)
def bmin(x, y):
    """Element-wise minimum; where equal, the whole gradient goes to `y`.

    Args:
        x: any dims.
        y: the same dims and batch size.
    Returns:
        The dims of `x`.
    Raises:
        DimError: the dims or batch sizes differ.
    Source: clab/dynet, ``dynet/nodes-minmax.cc``.
    Examples:
        >>> dy.bmin(dy.inputVector([1, 5]), dy.inputVector([3, 2])).value()
        [1.0, 2.0]
    """
    return jnp.where(x < y, x, y)


@op(inputs="x y", dim=identical, batch_matters=True)
def bmax(x, y):
    """Element-wise maximum; where equal, the whole gradient goes to `y`.

    Args:
        x: any dims.
        y: the same dims and batch size.
    Returns:
        The dims of `x`.
    Raises:
        DimError: the dims or batch sizes differ.
    Source: clab/dynet, ``dynet/nodes-minmax.cc``.
    Examples:
        >>> dy.bmax(dy.inputVector([1, 5]), dy.inputVector([3, 2])).value()
        [3.0, 5.0]
    """
    return jnp.where(x > y, x, y)


def _maxima(graph: ComputationGraph, operands: tuple[Any, ...]) -> tuple[Any, ...]:
    return in_pairs(graph, emax.op, operands)


@op(inputs="*xs", dim=identical, batch_matters=True, compose=_maxima)
def emax(*xs):
    """Element-wise maximum of a list; where equal, the first gets the gradient.

    Args:
        xs: a list of expressions of the same dims and batch size.
    Returns:
        The dims of each.
    Raises:
        TypeError: `xs` is not a list of expressions.
        AssertionError: it is empty.
        DimError: the dims or batch sizes differ.
    Source: clab/dynet, ``dynet/expr.cc``.
    Examples:
        >>> xs = [dy.inputVector(v) for v in ([1, 5, 0], [3, 2, 1], [2, 2, 4])]
        >>> dy.emax(xs).value()
        [3.0, 5.0, 4.0]
    """
    largest = xs[0]
    for x in xs[1:]:
        largest = jnp.where(x > largest, x, largest)
    return largest
