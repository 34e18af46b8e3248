"""Random numbers, drawn when they are computed, anew for every node and batch element.

They follow from `reset_random_seed`, and stay what they are until the graph is computed
again with ``recalculate=True``.
"""

from dynetjax.core.devices import check_device, on_device
from dynetjax.core.errors import error_text
from dynetjax.core.expression import Expression
from dynetjax.core.lazy import jax, jnp
from dynetjax.core.registry import Op
from dynetjax.graph import current_graph
from dynetjax.ops.arguments import Int, Number, number, number_from
from dynetjax.ops.constants import given_shape, shape_and_batch

__all__ = [
    "random_bernoulli",
    "random_gumbel",
    "random_normal",
    "random_uniform",
]

TINY = 1e-20  # DyNet's least argument of a logarithm


def _normal(mean, stddev, key, *, shape):
    draws = jax.random.normal(jax.random.wrap_key_data(key), shape, jnp.float32)
    return mean + stddev * draws


def _unit(key, shape):
    return jax.random.uniform(jax.random.wrap_key_data(key), shape, jnp.float32)


def _uniform(left, right, key, *, shape):
    # The product may round up to `right`, which is not among them.
    below = jnp.where(right > left, jnp.nextafter(right, left), right)
    return jnp.minimum(left + (right - left) * _unit(key, shape), below)


def _bernoulli(p, scale, key, *, shape):
    return jnp.where(_unit(key, shape) < p, scale, 0.0)


def _gumbel(key, *, shape):
    return -jnp.log(jnp.maximum(-jnp.log(jnp.maximum(_unit(key, shape), TINY)), TINY))


def _op(name: str, fn, numbers: int) -> Op:
    runtime = "f" * numbers + "k"
    return Op(name, fn, given_shape, static=("shape",), runtime=runtime)


NORMAL_OP = _op("random_normal", _normal, 2)
UNIFORM_OP = _op("random_uniform", _uniform, 2)
BERNOULLI_OP = _op("random_bernoulli", _bernoulli, 2)
GUMBEL_OP = _op("random_gumbel", _gumbel, 0)


def _drawn(op: Op, dim, data, batch_size, device) -> Expression:
    check_device(op.name, device)
    shape, batch = shape_and_batch(op.name, dim, batch_size)
    return on_device(current_graph().add(op, (), (shape,), data, batch), device)


def random_normal(
    dim: int | tuple[int, ...],
    mean: Number = 0,
    stddev: Number = 1,
    batch_size: Int = 1,
    device: str = "",
) -> Expression:
    """Independent normal numbers.

    Args:
        dim: an int, or a tuple of sizes.
        mean: their mean. Run-time.
        stddev: their standard deviation. Run-time.
        batch_size: how many batch elements.
        device: "", or the name of a device; see `to_device`.
    Returns:
        `dim`, with a batch of `batch_size`.
    Raises:
        TypeError: `dim` is neither a number nor a tuple, or another argument no number.
        ValueError: `stddev` is negative.
        DimError, OverflowError, RuntimeError: as `zeros`.
    Source: clab/dynet, ``dynet/nodes-random.cc``.
    Examples:
        >>> x = dy.random_normal(10000, mean=5, stddev=0.1).npvalue()
        >>> print(x.shape, x.mean().round(1), x.std().round(1))
        (10000,) 5.0 0.1
    """
    name = NORMAL_OP.name
    data = number(name, "mean", mean), number_from(name, "stddev", stddev, 0)
    return _drawn(NORMAL_OP, dim, data, batch_size, device)


def random_uniform(
    dim: int | tuple[int, ...],
    left: Number,
    right: Number,
    batch_size: Int = 1,
    device: str = "",
) -> Expression:
    """Independent numbers, all of a range equally likely.

    Args:
        dim: an int, or a tuple of sizes.
        left: the least number. Run-time.
        right: what the numbers are below. Run-time.
        batch_size: how many batch elements.
        device: "", or the name of a device; see `to_device`.
    Returns:
        `dim`, with a batch of `batch_size`.
    Raises:
        TypeError: `dim` is neither a number nor a tuple, or another argument no number.
        ValueError: `right` is below `left`.
        DimError, OverflowError, RuntimeError: as `zeros`.
    Source: clab/dynet, ``dynet/nodes-random.cc``.
    Examples:
        >>> x = dy.random_uniform((2, 3), 10, 20).npvalue()
        >>> print(x.shape, (x >= 10).all(), (x < 20).all())
        (2, 3) True True
    """
    name = UNIFORM_OP.name
    low = number(name, "left", left)
    data = low, number_from(name, "right", right, low)
    return _drawn(UNIFORM_OP, dim, data, batch_size, device)


def random_bernoulli(
    dim: int | tuple[int, ...],
    p: Number,
    scale: Number = 1.0,
    batch_size: Int = 1,
    device: str = "",
) -> Expression:
    """Numbers that are `scale` with probability `p`, and else 0.

    Args:
        dim: an int, or a tuple of sizes.
        p: probability of `scale`. Run-time.
        scale: any number. Run-time.
        batch_size: how many batch elements.
        device: "", or the name of a device; see `to_device`.
    Returns:
        `dim`, with a batch of `batch_size`.
    Raises:
        TypeError: `dim` is neither a number nor a tuple, or another argument no number.
        ValueError: `p` is not in ``[0, 1]``.
        DimError, OverflowError, RuntimeError: as `zeros`.
    Source: clab/dynet, ``dynet/nodes-random.cc``.
    Examples:
        >>> sorted(set(dy.random_bernoulli(100, 0.5, scale=3).value()))
        [0.0, 3.0]
    """
    name = BERNOULLI_OP.name
    chance = number(name, "p", p)
    if not 0 <= chance <= 1:
        raise ValueError(
            error_text(
                f"{name}: p is out of range",
                got=chance,
                expected="0 <= p <= 1",
                fix="p is the probability of scale, which is 1 if not given",
            )
        )
    data = chance, number(name, "scale", scale)
    return _drawn(BERNOULLI_OP, dim, data, batch_size, device)


def random_gumbel(
    dim: int | tuple[int, ...],
    mu: Number = 0.0,
    beta: Number = 1.0,
    batch_size: Int = 1,
    device: str = "",
) -> Expression:
    """Independent numbers from the standard Gumbel distribution.

        -log(-log(u)),  u uniform in [0, 1)

    Args:
        dim: an int, or a tuple of sizes.
        mu: 0, and nothing else.
        beta: 1, and nothing else.
        batch_size: how many batch elements.
        device: "", or the name of a device; see `to_device`.
    Returns:
        `dim`, with a batch of `batch_size`.
    Raises:
        TypeError: `dim` is neither a number nor a tuple.
        ValueError: `mu` is not 0, or `beta` not 1.
        DimError, OverflowError, RuntimeError: as `zeros`.
    Source: clab/dynet, ``dynet/nodes-random.cc``.
    Examples:
        >>> print(dy.random_gumbel(100000).npvalue().mean().round(1))
        0.6
        >>> dy.random_gumbel((2, 3), batch_size=4).dim()
        ((2, 3), 4)
    """
    name = GUMBEL_OP.name
    if (number(name, "mu", mu), number(name, "beta", beta)) != (0, 1):
        raise ValueError(
            error_text(
                f"{name}: only the standard distribution is there",
                got=f"mu = {mu}, beta = {beta}",
                expected="mu = 0, beta = 1",
                fix="mu + beta * random_gumbel(dim)",
            )
        )
    return _drawn(GUMBEL_OP, dim, None, batch_size, device)
