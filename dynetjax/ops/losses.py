"""Losses: scores or numbers and what they should be -> one number per batch element."""

from typing import Any

from dynetjax.core.dims import Dim, DimError, Shape, is_vector_like
from dynetjax.core.errors import error_text
from dynetjax.core.expression import Expression
from dynetjax.core.lazy import at_first_call, jax, jnp, lax
from dynetjax.ops.arguments import (
    Int,
    Ints,
    Number,
    index_below,
    indices_below,
    number,
    one_per_element,
    unsigned,
)
from dynetjax.ops.arithmetic import identical
from dynetjax.ops.declare import CONSTANT, below, op, real
from dynetjax.ops.operands import graph_of

__all__ = [
    "binary_log_loss",
    "huber_distance",
    "l1_distance",
    "pairwise_rank_loss",
    "pickneglogsoftmax",
    "pickneglogsoftmax_batch",
    "poisson_loss",
    "squared_distance",
]

SMALLEST = 1.1754943508222875e-38  # FLT_MIN, where DyNet clips before a logarithm
LARGEST_BELOW_ONE = 0.9999999


def scores_to_loss(name: str, x: Dim) -> Shape:
    """``{n X b}`` -> ``{1 X b}``."""
    if not is_vector_like(x.shape):
        raise DimError(
            error_text(
                f"{name}: x is not a vector of scores",
                got=x,
                expected="{n} or {n X b}",
                fix="reshape x to a vector",
            )
        )
    return (1,)


def not_batched(name: str, x: Dim, instead: str) -> None:
    """Check that `x` has one batch element, as it comes with one class."""
    if x.batch != 1:
        raise DimError(
            error_text(
                f"{name}: x is batched, and v is one number",
                got=x,
                expected="{n}",
                fix=instead,
            )
        )


def _class(name, dims, v):
    not_batched(name, dims[0], "use pickneglogsoftmax_batch")
    return (), index_below(name, "v", v, dims[0].shape[0]), 1


USUAL_CLASS = below(single=True)


def picked(x: Any, v: Any) -> Any:
    """``x[v]``, whose gradient is a mask rather than a scatter."""
    return jnp.sum(jnp.where(lax.iota(jnp.int32, x.size) == v, x, 0))


def new_class(dim: Dim, data: Any, value: Any, x: Dim) -> Any:
    """Another class, or as many as there are, for `Expression.set_index`."""
    del dim
    if not isinstance(data, list):
        return index_below("set_index", "v", value, x.shape[0])
    return classes_of("set_index", x, value)


@op(
    inputs="x",
    runtime="v:i",
    dim=scores_to_loss,
    accept=_class,
    reset=new_class,
    usual={"v": USUAL_CLASS},
)
def pickneglogsoftmax(x, v: Int):
    """Negative log likelihood, in nats, of class `v` under softmax(x).

        log(sum_j exp(x_j)) - x_v

    Args:
        x: scores, ``{n}``.
        v: gold class, ``0 <= v < n``; `.set_index(v)` changes it. Run-time: a new v
            never recompiles.
    Returns:
        ``{1}``.
    Raises:
        DimError: `x` has more than one dimension, or is batched.
        ValueError: `v` is out of range.
        OverflowError: it is negative.
    Source: clab/dynet, ``dynet/nodes-pickneglogsoftmax.cc``.
    Examples:
        >>> x = dy.inputVector(np.log([1, 2, 5]))
        >>> loss = dy.pickneglogsoftmax(x, 1)
        >>> print(np.exp(-loss.npvalue()).round(3))
        [0.25]
    """
    x = x.reshape(-1)
    top = lax.stop_gradient(lax.reduce_max(x, axes=(0,)))
    shifted = lax.sub(x, lax.broadcast(top, x.shape))
    total = lax.log(lax.reduce_sum(lax.exp(shifted), axes=(0,)))
    return lax.sub(total, picked(shifted, v)).reshape(1)


def pickneglogsoftmax_batch(x: Expression, vs: Ints) -> Expression:
    """`pickneglogsoftmax` with one class per batch element.

    Args:
        x: scores, ``{n X b}``.
        vs: b gold classes. Run-time: new ones never recompile.
    Returns:
        ``{1 X b}``: one loss per batch element, not their sum.
    Raises:
        TypeError: `vs` is not a sequence of numbers.
        DimError: `x` has more than one dimension.
        ValueError: one of `vs` is out of range, or there are not b of them.
        OverflowError: one is negative.
    Source: clab/dynet, ``dynet/nodes-pickneglogsoftmax.cc``.
    Examples:
        >>> x = dy.inputTensor([[0, 20], [0, 0]], batched=True)
        >>> print(dy.pickneglogsoftmax_batch(x, [0, 0]).npvalue().round(3))
        [[0.693 0.   ]]
    """
    name = "pickneglogsoftmax_batch"
    graph = graph_of(name, x)
    classes = classes_of(name, x.full_dim, vs)
    op = pickneglogsoftmax.op
    return graph.add(op, (x,), (), classes, len(classes))


def classes_of(name: str, x: Dim, vs: Any) -> list[int]:
    """`vs`, one class for each batch element of `x`."""
    scores_to_loss(name, x)
    classes = indices_below(name, "vs", vs, x.shape[0])
    one_per_element(name, "vs", classes, x.batch)
    return classes


def _alike(name: str, x: Dim, y: Dim) -> Shape:
    """Operands of the same dims, or two vectors of one length, give one number."""
    vectors = is_vector_like(x.shape) and is_vector_like(y.shape)
    if x.shape != y.shape and not (vectors and x.size == y.size):
        raise DimError(
            error_text(
                f"{name}: the dims of the operands differ",
                got=f"{x}, {y}",
                expected="the same dims",
                fix="reshape one of them",
            )
        )
    return (1,)


def _difference(x, y):
    return x.reshape(-1) - y.reshape(-1)


@op(inputs="x y", dim=_alike)
def squared_distance(x, y):
    """Square of the Euclidean distance.

        sum_i (x_i - y_i)^2

    Args:
        x: any dims.
        y: the dims of `x`, or both are vectors of one length.
    Returns:
        ``{1 X b}``.
    Raises:
        DimError: the dims or batches differ.
    Source: clab/dynet, ``dynet/nodes-similarities.cc``.
    Examples:
        >>> dy.squared_distance(dy.inputVector([1, 5]), dy.inputVector([4, 4])).value()
        10.0
    """
    return jnp.sum(jnp.square(_difference(x, y))).reshape(1)


@op(inputs="x y", dim=_alike)
def l1_distance(x, y):
    """Sum of absolute differences; its gradient is 0 where they are equal.

        sum_i |x_i - y_i|

    Args:
        x: any dims.
        y: the dims of `x`, or both are vectors of one length.
    Returns:
        ``{1 X b}``.
    Raises:
        DimError: the dims or batches differ.
    Source: clab/dynet, ``dynet/nodes-similarities.cc``.
    Examples:
        >>> dy.l1_distance(dy.inputVector([1, 5]), dy.inputVector([4, 4])).value()
        4.0
    """
    d = _difference(x, y)
    return jnp.sum(d * lax.sign(d)).reshape(1)  # jnp.abs has slope 1 at 0


def _threshold(name, dims, c):
    del dims
    return (), number(name, "c", c), 1


@op(
    inputs="x y",
    runtime="c:f",
    dim=_alike,
    accept=_threshold,
    usual={"c": real()},
)
def huber_distance(x, y, c: Number = 1.345):
    """Squared distance that grows linearly from `c` on.

        sum_i (d_i^2 / 2 if |d_i| < c else c (|d_i| - c / 2)),  d = x - y

    Args:
        x: any dims.
        y: the dims of `x`, or both are vectors of one length.
        c: where it becomes linear. Run-time: a new c never recompiles.
    Returns:
        ``{1 X b}``.
    Raises:
        DimError: the dims or batches differ.
    Source: clab/dynet, ``dynet/nodes-similarities.cc``.
    Examples:
        >>> x = dy.inputVector([1, 10])
        >>> dy.huber_distance(x, dy.zeros(2), c=2).value()
        18.5
    """
    size = jnp.abs(_difference(x, y))
    near = jnp.square(jnp.minimum(size, c)) / 2  # of a size that is finite
    far = c * (size - c / 2)
    return jnp.sum(jnp.where(size < c, near, far)).reshape(1)


def _identical_to_number(name: str, x: Dim, y: Dim) -> Shape:
    identical(name, x, y)
    return (1,)


def _clipped_logs(x):
    """log(x) and log(1 - x), where it would be -inf that of the smallest float."""
    smallest = jnp.log(jnp.asarray(SMALLEST, x.dtype))
    log_x = jnp.where(x == 0, smallest, jnp.log(jnp.where(x == 0, 1, x)))
    log_rest = jnp.where(x == 1, smallest, jnp.log1p(-jnp.where(x == 1, 0, x)))
    return log_x, log_rest


@at_first_call(lambda f: jax.custom_jvp(f))
def _cross_entropy(x, y):
    log_x, log_rest = _clipped_logs(x)
    return -(y * log_x + (1 - y) * log_rest)


@_cross_entropy.defjvp
def _cross_entropy_jvp(primals, tangents):
    (x, y), (dx, dy) = primals, tangents
    inside = jnp.where(x == 1, LARGEST_BELOW_ONE, jnp.where(x == 0, SMALLEST, x))
    slope = jnp.where(x == y, 0, (1 - y) / (1 - inside) - y / inside)
    log_x, log_rest = _clipped_logs(x)
    return _cross_entropy(x, y), slope * dx + (log_rest - log_x) * dy


@op(inputs="x y", dim=_identical_to_number, batch_matters=True)
def binary_log_loss(x, y):
    """Negative log likelihood of probabilities `y` under `x`, element by element.

        -sum_i (y_i log(x_i) + (1 - y_i) log(1 - x_i))

    Args:
        x: probabilities, any dims.
        y: probabilities, the same dims and batch size.
    Returns:
        ``{1 X b}``. The logarithm of 0 counts as that of the smallest float, -87.3365.
    Raises:
        DimError: the dims or batch sizes differ.
    Source: clab/dynet, ``dynet/nodes-losses.cc``.
    Examples:
        >>> x, y = dy.inputVector([0.5, 0.2]), dy.inputVector([1, 0])
        >>> print(np.exp(-dy.binary_log_loss(x, y).npvalue()).round(3))
        [0.4]
    """
    return jnp.sum(_cross_entropy(x, y)).reshape(1)


def _identical_rows(name: str, x: Dim, y: Dim) -> Shape:
    identical(name, x, y)
    if x.shape[0] != 1:
        raise DimError(
            error_text(
                f"{name}: x is not a row",
                got=x,
                expected="{1} or {1,n}",
                fix="transpose x and y",
            )
        )
    return x.shape


def _margin(name, dims, m):
    del dims
    return (), number(name, "m", m), 1


@op(
    inputs="x y",
    runtime="m:f",
    dim=_identical_rows,
    accept=_margin,
    batch_matters=True,
    usual={"m": real()},
)
def pairwise_rank_loss(x, y, m: Number = 1.0):
    """Margin by which a better score fails to exceed a worse one, element-wise.

        max(0, m - x + y)

    Args:
        x: scores of the better ones, ``{1 X b}`` or ``{1,n X b}``.
        y: scores of the worse ones, the same dims and batch size.
        m: the margin. Run-time: a new m never recompiles.
    Returns:
        The dims of `x`: not summed.
    Raises:
        DimError: the dims or batch sizes differ, or `x` has several rows.
    Source: clab/dynet, ``dynet/nodes-losses.cc``.
    Examples:
        >>> better, worse = dy.inputTensor([[5, 2, 1]]), dy.inputTensor([[1, 2, 4]])
        >>> print(dy.pairwise_rank_loss(better, worse).npvalue())
        [[0. 1. 4.]]
    """
    return jax.nn.relu(m - x + y)


def _one_rate(name: str, log_lambda: Dim) -> Shape:
    if log_lambda.size != 1:
        raise DimError(
            error_text(
                f"{name}: log_lambda is not one number",
                got=log_lambda,
                expected="{1}",
                fix="pick one, or sum_elems",
            )
        )
    return log_lambda.shape


def _event_count(name, dims, x):
    not_batched(name, dims[0], "pick_batch_elem, one loss for each")
    return (), float(unsigned(name, "x", x)), 1


def _new_count(dim: Dim, data: Any, value: Any, log_lambda: Dim) -> int:
    del dim, data, log_lambda
    return unsigned("set_index", "x", value)


@op(
    inputs="log_lambda",
    runtime="x:f",
    dim=_one_rate,
    accept=_event_count,
    reset=_new_count,
    usual={"x": below(CONSTANT, single=True, high=2**31)},
)
def poisson_loss(log_lambda, x: Int):
    """Negative log likelihood of `x` events under a Poisson distribution.

        exp(log_lambda) + log(x!) - log_lambda x

    Args:
        log_lambda: logarithm of the rate, ``{1}``.
        x: number of events; `.set_index(x)` changes it. Run-time: a new x never
            recompiles.
    Returns:
        The dims of `log_lambda`.
    Raises:
        DimError: `log_lambda` is not one number.
        OverflowError: `x` is negative.
    Source: clab/dynet, ``dynet/nodes-losses.cc``.
    Examples:
        >>> print(dy.poisson_loss(dy.scalarInput(0), 2).npvalue().round(3))
        [1.693]
    """
    return jnp.exp(log_lambda) + lax.lgamma(x + 1) - log_lambda * x
