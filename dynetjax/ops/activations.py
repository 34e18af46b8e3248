"""Activation functions, number by number.

At a kink the derivative is DyNet's, named in the docstring.
"""

from dynetjax.core.dims import Dim, DimError, Shape, is_vector_like
from dynetjax.core.errors import error_text
from dynetjax.core.lazy import jax, jnp, lax
from dynetjax.ops.arguments import Number, one_number
from dynetjax.ops.declare import op, real
from dynetjax.ops.elementwise import same

__all__ = [
    "elu",
    "log_sigmoid",
    "logistic",
    "rectify",
    "selu",
    "silu",
    "softsign",
]


SELU_SCALE = 1.0507009873554805
SELU_ALPHA = 1.6732632423543773


def same_vector(name: str, x: Dim) -> Shape:
    """The dims of `x`, which must be a vector."""
    if not is_vector_like(x.shape):
        raise DimError(
            error_text(
                f"{name}: x is not a vector",
                got=x,
                expected="{n} or {n,1}",
                fix="reshape x to a vector",
            )
        )
    return x.shape


@op(inputs="x", dim=same)
def logistic(x):
    """Logistic sigmoid.

        1 / (1 + e^-x)

    Args:
        x: any dims.
    Returns:
        The dims of `x`.
    Source: clab/dynet, ``dynet/nodes-activations.cc``.
    Examples:
        >>> print(dy.logistic(dy.inputVector([0, 1, 9])).npvalue().round(3))
        [0.5   0.731 1.   ]
    """
    return lax.logistic(x)


@op(inputs="x", dim=same)
def log_sigmoid(x):
    """Logarithm of the logistic sigmoid, exact for large |x| too.

        -log(1 + e^-x)

    Args:
        x: any dims.
    Returns:
        The dims of `x`.
    Source: clab/dynet, ``dynet/nodes-arith-unary.cc``.
    Examples:
        >>> print(dy.log_sigmoid(dy.inputVector([-100, 0, 1])).npvalue().round(3))
        [-100.      -0.693   -0.313]
    """
    return jax.nn.log_sigmoid(x)


@op(inputs="x", dim=same)
def rectify(x):
    """Rectifier; its derivative at 0 is 0.

        max(x, 0)

    Args:
        x: any dims.
    Returns:
        The dims of `x`.
    Source: clab/dynet, ``dynet/nodes-activations.cc``.
    Examples:
        >>> dy.rectify(dy.inputVector([-2, 0, 3])).value()
        [0.0, 0.0, 3.0]
    """
    return jax.nn.relu(x)


@op(
    inputs="x",
    runtime="alpha:f",
    dim=same,
    accept=one_number,
    usual={"alpha": real()},
)
def elu(x, alpha: Number = 1.0):
    """Exponential linear unit; its derivative at 0 is `alpha`.

        x if x > 0 else alpha * (e^x - 1)

    Args:
        x: any dims.
        alpha: a number. Run-time: a new alpha never recompiles.
    Returns:
        The dims of `x`.
    Raises:
        TypeError: `alpha` is not a number.
    Source: clab/dynet, ``dynet/nodes-activations.cc``.
    Examples:
        >>> x = dy.inputVector([-20, 0, 2])
        >>> print(dy.elu(x, alpha=0.5).npvalue().round(3))
        [-0.5  0.   2. ]
    """
    return jnp.where(x > 0, x, alpha * _expm1_below_zero(x))


@op(inputs="x", dim=same)
def selu(x):
    """Scaled exponential linear unit (arxiv.org/abs/1706.02515).

        1.0507 * (x if x > 0 else 1.67326 * (e^x - 1))

    Args:
        x: any dims.
    Returns:
        The dims of `x`.
    Source: clab/dynet, ``dynet/nodes-activations.cc``.
    Examples:
        >>> print(dy.selu(dy.inputVector([-20, 0, 1])).npvalue().round(3))
        [-1.758  0.     1.051]
    """
    return SELU_SCALE * jnp.where(x > 0, x, SELU_ALPHA * _expm1_below_zero(x))


def _expm1_below_zero(x):
    # The branch that is not taken must stay finite: 0 * inf is NaN in its gradient.
    return jnp.expm1(jnp.where(x > 0, 0, x))


@op(
    inputs="x",
    runtime="beta:f",
    dim=same,
    accept=one_number,
    usual={"beta": real()},
)
def silu(x, beta: Number = 1.0):
    """Sigmoid-weighted linear unit (arxiv.org/abs/1710.05941), also called swish.

        x / (1 + e^(-beta x))

    Args:
        x: any dims.
        beta: a number. Run-time: a new beta never recompiles.
    Returns:
        The dims of `x`.
    Raises:
        TypeError: `beta` is not a number.
    Source: clab/dynet, ``dynet/nodes-activations.cc``.
    Examples:
        >>> x = dy.inputVector([-1, 0, 1])
        >>> print(dy.silu(x).npvalue().round(3))
        [-0.269  0.     0.731]
        >>> print(dy.silu(x, beta=2).npvalue().round(3))
        [-0.119  0.     0.881]
    """
    return x * lax.logistic(beta * x)


@op(inputs="x", dim=same_vector)
def softsign(x):
    """Softsign.

        x / (1 + |x|)

    Args:
        x: a vector, ``{n X b}`` or ``{n,1 X b}``.
    Returns:
        The dims of `x`.
    Raises:
        DimError: `x` is not a vector.
    Source: clab/dynet, ``dynet/nodes-activations.cc``.
    Examples:
        >>> print(dy.softsign(dy.inputVector([-1, 0, 3])).npvalue().round(3))
        [-0.5   0.    0.75]
    """
    return x / (1 + jnp.abs(x))
