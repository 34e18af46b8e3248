"""Dropout and noise, drawn anew for every node and batch element.

Masks are inverted: what is kept is divided by the probability of keeping it. They are
always active, in DyNet as here: leave the call out to predict, or say 0: what drops
nothing, or adds none, is its operand itself, and takes no draw from the generator.
"""

from typing import Any

from dynetjax.core.dims import Shape
from dynetjax.core.errors import error_text
from dynetjax.core.expression import Expression
from dynetjax.core.lazy import jax, jnp
from dynetjax.core.registry import Op
from dynetjax.ops.arguments import Number, axis_of, number, number_from
from dynetjax.ops.declare import op, real
from dynetjax.ops.elementwise import same
from dynetjax.ops.operands import graph_of

__all__ = ["block_dropout", "dropout", "dropout_batch", "dropout_dim", "noise"]


def rate(name: str, p: Any, *, below_one: bool = True) -> float:
    """`p` as the probability of dropping.

    Raises:
        TypeError: it is not a number.
        ValueError: it is not in ``[0, 1)``, or in ``[0, 1]``.
    """
    value = number(name, "p", p)
    if not 0 <= value <= 1 or (below_one and value == 1):
        raise ValueError(
            error_text(
                f"{name}: the rate is out of range",
                got=value,
                expected=f"0 <= p {'<' if below_one else '<='} 1",
                fix="p is the probability of dropping, not of keeping",
            )
        )
    return value


def _rate(name, dims, p):
    del dims
    return (), rate(name, p), 1


def _rate_up_to_one(name, dims, p):
    del dims
    return (), rate(name, p, below_one=False), 1


def _deviation(name, dims, stddev):
    del dims
    return (), number_from(name, "stddev", stddev, 0), 1


def _dropped(x, p, key, shape: Shape):
    """`x` masked, by a mask of `shape` that is repeated."""
    keep = jax.random.bernoulli(jax.random.wrap_key_data(key), 1 - p, shape)
    # p may be 1, where nothing is kept: dividing by 0 would make its gradient NaN.
    return jnp.where(keep, x / jnp.where(p < 1, 1 - p, 1), 0)


USUAL_RATE = real(0, 1, above=True, below=True, floats=True)


@op(
    inputs="x",
    runtime="p:f k",
    dim=same,
    accept=_rate,
    usual={"p": USUAL_RATE},
    idle=True,
)
def dropout(x, p: Number, key):
    """Every number set to 0 with probability `p`, else divided by ``1 - p``.

    Args:
        x: any dims.
        p: probability of dropping. Run-time: a new p never recompiles.
    Returns:
        The dims of `x`; `x` itself for 0.
    Raises:
        TypeError: `p` is not a number.
        ValueError: it is not in ``[0, 1)``.
    Source: clab/dynet, ``dynet/nodes-dropout.cc``.
    Examples:
        >>> sorted(set(dy.dropout(dy.ones(100), 0.5).value()))
        [0.0, 2.0]
    """
    return _dropped(x, p, key, x.shape)


@op(
    inputs="x",
    runtime="p:f k",
    dim=same,
    accept=_rate,
    usual={"p": USUAL_RATE},
    idle=True,
)
def dropout_batch(x, p: Number, key):
    """Every batch element set to 0 with probability `p`, else divided by ``1 - p``.

    Args:
        x: any dims.
        p: probability of dropping. Run-time: a new p never recompiles.
    Returns:
        The dims of `x`; `x` itself for 0.
    Raises:
        TypeError: `p` is not a number.
        ValueError: it is not in ``[0, 1)``.
    Source: clab/dynet, ``dynet/nodes-dropout.cc``.
    Examples:
        >>> x = dy.dropout_batch(dy.ones(3, batch_size=100), 0.5)
        >>> print(np.unique(x.npvalue(), axis=1))
        [[0. 2.]
         [0. 2.]
         [0. 2.]]
    """
    return _dropped(x, p, key, ())


@op(
    inputs="x",
    runtime="p:f k",
    dim=same,
    accept=_rate_up_to_one,
    usual={"p": real(0, 1, above=True, floats=True)},
    idle=True,
)
def block_dropout(x, p: Number, key):
    """All set to 0 with probability `p`, else divided by ``1 - p``.

    Args:
        x: any dims.
        p: probability of dropping, which may be 1. Run-time.
    Returns:
        The dims of `x`; `x` itself for 0.
    Raises:
        TypeError: `p` is not a number.
        ValueError: it is not in ``[0, 1]``.
    Source: clab/dynet, ``dynet/nodes-dropout.cc``.
    Examples:
        >>> len(set(dy.block_dropout(dy.ones(100), 0.5).value()))
        1
        >>> dy.block_dropout(dy.ones(3), 1).value()
        [0.0, 0.0, 0.0]
    """
    return _dropped(x, p, key, ())


DROPOUT_DIM_OP = Op(
    "dropout_dim",
    lambda x, p, key, *, d: _dropped(x, p, key, (*x.shape[:d], 1, *x.shape[d + 1 :])),
    same,
    static=("d",),
    runtime="fk",
)


def dropout_dim(x: Expression, d: int, p: Number) -> Expression:
    """Numbers dropped together along dimension `d`, with probability `p`.

    Args:
        x: any dims.
        d: the dimension that shares a mask: 0 drops whole columns of a matrix.
        p: probability of dropping. Run-time: a new p never recompiles.
    Returns:
        The dims of `x`; `x` itself for 0.
    Raises:
        TypeError: `p` is not a number.
        DimError: `x` has no such dimension.
        ValueError: `p` is not in ``[0, 1)``.
    Source: clab/dynet, ``dynet/nodes-dropout.cc``.
    Examples:
        >>> x = dy.dropout_dim(dy.ones((2, 100)), 0, 0.5)
        >>> print(np.unique(x.npvalue(), axis=1))
        [[0. 2.]
         [0. 2.]]
    """
    name = "dropout_dim"
    graph = graph_of(name, x)
    axis = axis_of(name, "d", d, x.full_dim)
    p = rate(name, p)
    if not p:
        return x
    return graph.add(DROPOUT_DIM_OP, (x,), (axis,), p)


@op(
    inputs="x",
    runtime="stddev:f k",
    dim=same,
    accept=_deviation,
    usual={"stddev": real(0, above=True)},
    idle=True,
)
def noise(x, stddev: Number, key):
    """Independent normal numbers added, of mean 0 and standard deviation `stddev`.

    Args:
        x: any dims.
        stddev: the standard deviation. Run-time: a new one never recompiles.
    Returns:
        The dims of `x`; `x` itself for 0.
    Raises:
        TypeError: `stddev` is not a number.
        ValueError: it is negative.
    Source: clab/dynet, ``dynet/nodes-random.cc``.
    Examples:
        >>> x = dy.noise(dy.constant(10000, 7), 0.5).npvalue()
        >>> print(x.mean().round(1), x.std().round(1))
        7.0 0.5
    """
    draws = jax.random.normal(jax.random.wrap_key_data(key), x.shape, x.dtype)
    return x + stddev * draws
