"""Softmax and its logarithm."""

from typing import Any

from dynetjax.core.dims import Dim, DimError, Shape, is_vector_like
from dynetjax.core.errors import error_text
from dynetjax.core.expression import Expression
from dynetjax.core.lazy import jax, jnp, lax
from dynetjax.core.registry import INPUT, Op
from dynetjax.ops.arguments import axis_of, indices_below, order_at_most
from dynetjax.ops.arrays import listed
from dynetjax.ops.declare import op, plain
from dynetjax.ops.inputs import weighted
from dynetjax.ops.operands import graph_of

__all__ = ["log_softmax", "softmax"]


def _at_most_a_matrix(name: str, x: Dim, *static) -> Shape:
    del static
    order_at_most(name, x, 2)
    return x.shape


def _axis(name, dims, d):
    return (axis_of(name, "d", d, dims[0]),), None, 1


@op(inputs="x", dim=_at_most_a_matrix, accept=_axis)
def softmax(x, d: int = 0):
    """Probabilities proportional to the exponentials, along a dimension.

        exp(x_i) / sum_j exp(x_j)

    Args:
        x: scores, a vector or a matrix.
        d: the dimension.
    Returns:
        The dims of `x`; sums over `d` are 1.
    Raises:
        DimError: `x` has more than two dimensions, or no dimension `d`.
    Source: clab/dynet, ``dynet/nodes-softmaxes.cc``.
    Examples:
        >>> x = dy.inputVector(np.log([1, 2, 5]))
        >>> print(dy.softmax(x).npvalue().round(3))
        [0.125 0.25  0.625]
    """
    others = [axis for axis in range(x.ndim) if axis != d]

    def along(numbers):
        return lax.broadcast_in_dim(numbers, x.shape, others)

    top = lax.stop_gradient(lax.reduce_max(x, axes=(d,)))
    weights = lax.exp(lax.sub(x, along(top)))
    return lax.div(weights, along(lax.reduce_sum(weights, axes=(d,))))


def _over_some(x, keep):
    """Log-softmax where `keep` is 1, and -inf elsewhere, through which no gradient."""
    kept = keep.reshape(x.shape) > 0
    top = jax.lax.stop_gradient(jnp.max(jnp.where(kept, x, -jnp.inf)))
    shifted = jnp.where(kept, x - top, 0)
    total = jnp.sum(jnp.where(kept, jnp.exp(shifted), 0))
    return jnp.where(kept, shifted - jnp.log(total), -jnp.inf)


def _vector(name: str, x: Dim, keep: Dim) -> Shape:
    del keep
    if not is_vector_like(x.shape):
        raise DimError(
            error_text(
                f"{name}: x is not a vector",
                got=x,
                expected="{n}, where restrict is given",
                fix="reshape x to a vector",
            )
        )
    return x.shape


LOG_SOFTMAX_OP = Op(
    "log_softmax", lambda x: jax.nn.log_softmax(x, axis=0), _at_most_a_matrix
)
MASK_OP = Op("mask", form=INPUT, internal=True)
RESTRICTED_OP = Op("restricted_log_softmax", _over_some, _vector, masks=True)
_of_all = plain(LOG_SOFTMAX_OP, 1)
_of_some = plain(RESTRICTED_OP, 2)


def log_softmax(x: Expression, restrict: list[int] | None = None) -> Expression:
    """Logarithm of softmax along dimension 0.

        x_i - log(sum_j exp(x_j))

    Args:
        x: scores, a vector or a matrix.
        restrict: a list of the rows of a vector that take part. Run-time.
    Returns:
        The dims of `x`; -inf, without gradient, in rows that do not take part.
    Raises:
        TypeError: `restrict` is not a list.
        DimError: `x` has more than two dimensions, or more than one with `restrict`.
        ValueError: `restrict` is empty, or a row is out of range.
        OverflowError: a row is negative.
    Source: clab/dynet, ``dynet/nodes-softmaxes.cc``.
    Examples:
        >>> x = dy.inputVector([0, 9, 0])
        >>> print(dy.log_softmax(x, restrict=[0, 2]).npvalue().round(3))
        [-0.693   -inf -0.693]
        >>> print(np.exp(dy.log_softmax(dy.zeros(4)).npvalue()).round(3))
        [0.25 0.25 0.25 0.25]
    """
    if restrict is None:
        return _of_all(x)
    graph = graph_of("log_softmax", x)
    shape = _vector("log_softmax", x.full_dim, x.full_dim)
    keep = weighted(shape[0], _rows(restrict, shape[0]), 1.0)
    return _of_some(x, graph.add_rows(MASK_OP, (), (shape[0],), keep, 1))


def _rows(restrict: Any, size: int) -> list[int]:
    restrict = listed(restrict)
    if not isinstance(restrict, list):
        raise TypeError(
            error_text(
                "log_softmax: restrict is not a list",
                got=f"{restrict!r} ({type(restrict).__name__})",
                expected="a list of ints",
                fix="list(...)",
            )
        )
    if not restrict:
        raise ValueError(
            error_text(
                "log_softmax: restrict is empty",
                got=restrict,
                expected="at least one row",
                fix="leave restrict out",
            )
        )
    return indices_below("log_softmax", "restrict", restrict, size)
