"""Mathematical functions, number by number.

Where a derivative is infinite or undefined, the docstring says what it is.
"""

import jax.numpy as jnp
from jax import lax

from dynetjax.dims import Dim, Shape
from dynetjax.ops.declare import op

__all__ = [
    "abs",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "cos",
    "cosh",
    "cube",
    "erf",
    "exp",
    "lgamma",
    "log",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "tan",
    "tanh",
]


def same(name: str, x: Dim, *static) -> Shape:
    """The dims of `x`."""
    del name, static
    return x.shape


@op(inputs="x", dim=same)
def sin(x):
    """Sine.

        sin(x)

    Args:
        x: any dims.
    Returns:
        The dims of `x`.
    Source: clab/dynet, ``dynet/nodes-trig.cc``.
    """
    return jnp.sin(x)


@op(inputs="x", dim=same)
def cos(x):
    """Cosine.

        cos(x)

    Args:
        x: any dims.
    Returns:
        The dims of `x`.
    Source: clab/dynet, ``dynet/nodes-trig.cc``.
    """
    return jnp.cos(x)


@op(inputs="x", dim=same)
def tan(x):
    """Tangent.

        tan(x)

    Args:
        x: any dims.
    Returns:
        The dims of `x`.
    Source: clab/dynet, ``dynet/nodes-trig.cc``.
    """
    return jnp.tan(x)


@op(inputs="x", dim=same)
def asin(x):
    """Inverse sine.

        asin(x)

    Args:
        x: any dims.
    Returns:
        The dims of `x`; NaN outside [-1, 1].
    Source: clab/dynet, ``dynet/nodes-trig.cc``.
    """
    return jnp.arcsin(x)


@op(inputs="x", dim=same)
def acos(x):
    """Inverse cosine.

        acos(x)

    Args:
        x: any dims.
    Returns:
        The dims of `x`; NaN outside [-1, 1].
    Source: clab/dynet, ``dynet/nodes-trig.cc``.
    """
    return jnp.arccos(x)


@op(inputs="x", dim=same)
def atan(x):
    """Inverse tangent.

        atan(x)

    Args:
        x: any dims.
    Returns:
        The dims of `x`.
    Source: clab/dynet, ``dynet/nodes-trig.cc``.
    """
    return jnp.arctan(x)


@op(inputs="x", dim=same)
def sinh(x):
    """Hyperbolic sine.

        (e^x - e^-x) / 2

    Args:
        x: any dims.
    Returns:
        The dims of `x`.
    Source: clab/dynet, ``dynet/nodes-trig.cc``.
    """
    return jnp.sinh(x)


@op(inputs="x", dim=same)
def cosh(x):
    """Hyperbolic cosine.

        (e^x + e^-x) / 2

    Args:
        x: any dims.
    Returns:
        The dims of `x`.
    Source: clab/dynet, ``dynet/nodes-trig.cc``.
    """
    return jnp.cosh(x)


@op(inputs="x", dim=same, slope=lambda y: 1 - y * y)
def tanh(x):
    """Hyperbolic tangent.

        (e^x - e^-x) / (e^x + e^-x)

    Args:
        x: any dims.
    Returns:
        The dims of `x`.
    Source: clab/dynet, ``dynet/nodes-trig.cc``.
    """
    return jnp.tanh(x)


@op(inputs="x", dim=same)
def asinh(x):
    """Inverse hyperbolic sine.

        log(x + sqrt(x^2 + 1))

    Args:
        x: any dims.
    Returns:
        The dims of `x`.
    Source: clab/dynet, ``dynet/nodes-trig.cc``.
    """
    return jnp.arcsinh(x)


@op(inputs="x", dim=same)
def acosh(x):
    """Inverse hyperbolic cosine.

        log(x + sqrt(x^2 - 1))

    Args:
        x: any dims.
    Returns:
        The dims of `x`; NaN below 1.
    Source: clab/dynet, ``dynet/nodes-trig.cc``.
    """
    return jnp.arccosh(x)


@op(inputs="x", dim=same)
def atanh(x):
    """Inverse hyperbolic tangent.

        log((1 + x) / (1 - x)) / 2

    Args:
        x: any dims.
    Returns:
        The dims of `x`; NaN outside [-1, 1].
    Source: clab/dynet, ``dynet/nodes-trig.cc``.
    """
    return jnp.arctanh(x)


@op(inputs="x", dim=same)
def exp(x):
    """Exponential.

        e^x

    Args:
        x: any dims.
    Returns:
        The dims of `x`.
    Source: clab/dynet, ``dynet/nodes-arith-unary.cc``.
    """
    return jnp.exp(x)


@op(inputs="x", dim=same)
def log(x):
    """Natural logarithm.

        log(x)

    Args:
        x: any dims.
    Returns:
        The dims of `x`; -inf at 0, NaN below.
    Source: clab/dynet, ``dynet/nodes-arith-unary.cc``.
    """
    return jnp.log(x)


@op(inputs="x", dim=same)
def sqrt(x):
    """Square root.

        sqrt(x)

    Args:
        x: any dims.
    Returns:
        The dims of `x`; NaN below 0; the derivative at 0 is infinite.
    Source: clab/dynet, ``dynet/nodes-arith-unary.cc``.
    """
    return jnp.sqrt(x)


@op(inputs="x", dim=same)
def square(x):
    """Square.

        x^2

    Args:
        x: any dims.
    Returns:
        The dims of `x`.
    Source: clab/dynet, ``dynet/nodes-arith-unary.cc``.
    """
    return jnp.square(x)


@op(inputs="x", dim=same)
def cube(x):
    """Cube.

        x^3

    Args:
        x: any dims.
    Returns:
        The dims of `x`.
    Source: clab/dynet, ``dynet/nodes-arith-unary.cc``.
    """
    return x * x * x


@op(inputs="x", dim=same)
def erf(x):
    """Error function.

        2 / sqrt(pi) * integral from 0 to x of e^(-t^2) dt

    Args:
        x: any dims.
    Returns:
        The dims of `x`.
    Source: clab/dynet, ``dynet/nodes-activations.cc``.
    """
    return lax.erf(x)


@op(inputs="x", dim=same)
def lgamma(x):
    """Logarithm of the absolute value of the gamma function.

        log(|Gamma(x)|)

    Args:
        x: any dims.
    Returns:
        The dims of `x`.
    Source: clab/dynet, ``dynet/nodes-arith-unary.cc``.
    """
    return lax.lgamma(x)


@op(inputs="x", dim=same)
def abs(x):
    """Absolute value; its derivative at 0 is 0.

        |x|

    Args:
        x: any dims.
    Returns:
        The dims of `x`.
    Source: clab/dynet, ``dynet/nodes-arith-unary.cc``.
    """
    return x * lax.sign(x)  # jnp.abs has slope 1 at 0
