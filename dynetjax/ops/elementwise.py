"""Mathematical functions, number by number.

Where a derivative is infinite or undefined, the docstring says what it is.
"""

from typing import Any

from dynetjax.core.dims import Dim, Shape
from dynetjax.core.lazy import jnp, lax
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


def same(name: str, x: Dim, *static: Any) -> Shape:
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
    Examples:
        >>> print(dy.sin(dy.inputVector([0, np.pi / 6])).npvalue().round(3))
        [0.  0.5]
    """
    return lax.sin(x)


@op(inputs="x", dim=same)
def cos(x):
    """Cosine.

        cos(x)

    Args:
        x: any dims.
    Returns:
        The dims of `x`.
    Source: clab/dynet, ``dynet/nodes-trig.cc``.
    Examples:
        >>> print(dy.cos(dy.inputVector([0, np.pi / 3])).npvalue().round(3))
        [1.  0.5]
    """
    return lax.cos(x)


@op(inputs="x", dim=same)
def tan(x):
    """Tangent.

        tan(x)

    Args:
        x: any dims.
    Returns:
        The dims of `x`.
    Source: clab/dynet, ``dynet/nodes-trig.cc``.
    Examples:
        >>> print(dy.tan(dy.inputVector([0, np.pi / 4])).npvalue().round(3))
        [0. 1.]
    """
    return lax.tan(x)


@op(inputs="x", dim=same)
def asin(x):
    """Inverse sine.

        asin(x)

    Args:
        x: any dims.
    Returns:
        The dims of `x`; NaN outside [-1, 1].
    Source: clab/dynet, ``dynet/nodes-trig.cc``.
    Examples:
        >>> x = dy.asin(dy.inputVector([0, 0.5, 1]))
        >>> print(np.degrees(x.npvalue()).round(3))
        [ 0. 30. 90.]
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
    Examples:
        >>> x = dy.acos(dy.inputVector([0, 0.5, 1]))
        >>> print(np.degrees(x.npvalue()).round(3))
        [90. 60.  0.]
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
    Examples:
        >>> x = dy.atan(dy.inputVector([-1, 0, 1]))
        >>> print(np.degrees(x.npvalue()).round(3))
        [-45.   0.  45.]
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
    Examples:
        >>> print(dy.sinh(dy.inputVector([0, np.log(2)])).npvalue().round(3))
        [0.   0.75]
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
    Examples:
        >>> print(dy.cosh(dy.inputVector([0, np.log(2)])).npvalue().round(3))
        [1.   1.25]
    """
    return jnp.cosh(x)


@op(inputs="x", dim=same)
def tanh(x):
    """Hyperbolic tangent.

        (e^x - e^-x) / (e^x + e^-x)

    Args:
        x: any dims.
    Returns:
        The dims of `x`.
    Source: clab/dynet, ``dynet/nodes-trig.cc``.
    Examples:
        >>> print(dy.tanh(dy.inputVector([0, np.log(2), 9])).npvalue().round(3))
        [0.  0.6 1. ]
    """
    return lax.tanh(x)


@op(inputs="x", dim=same)
def asinh(x):
    """Inverse hyperbolic sine.

        log(x + sqrt(x^2 + 1))

    Args:
        x: any dims.
    Returns:
        The dims of `x`.
    Source: clab/dynet, ``dynet/nodes-trig.cc``.
    Examples:
        >>> x = dy.asinh(dy.inputVector([0, 0.75]))
        >>> print(np.exp(x.npvalue()).round(3))
        [1. 2.]
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
    Examples:
        >>> x = dy.acosh(dy.inputVector([1, 1.25]))
        >>> print(np.exp(x.npvalue()).round(3))
        [1. 2.]
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
    Examples:
        >>> x = dy.atanh(dy.inputVector([0, 0.6]))
        >>> print(np.exp(x.npvalue()).round(3))
        [1. 2.]
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
    Examples:
        >>> print(dy.exp(dy.inputVector([0, 1, np.log(5)])).npvalue().round(3))
        [1.    2.718 5.   ]
    """
    return lax.exp(x)


@op(inputs="x", dim=same)
def log(x):
    """Natural logarithm.

        log(x)

    Args:
        x: any dims.
    Returns:
        The dims of `x`; -inf at 0, NaN below.
    Source: clab/dynet, ``dynet/nodes-arith-unary.cc``.
    Examples:
        >>> print(dy.log(dy.inputVector([0, 1, np.e])).npvalue().round(3))
        [-inf   0.   1.]
    """
    return lax.log(x)


@op(inputs="x", dim=same)
def sqrt(x):
    """Square root.

        sqrt(x)

    Args:
        x: any dims.
    Returns:
        The dims of `x`; NaN below 0; the derivative at 0 is infinite.
    Source: clab/dynet, ``dynet/nodes-arith-unary.cc``.
    Examples:
        >>> print(dy.sqrt(dy.inputVector([0, 4, 9])).npvalue().round(3))
        [0. 2. 3.]
    """
    return lax.sqrt(x)


@op(inputs="x", dim=same)
def square(x):
    """Square.

        x^2

    Args:
        x: any dims.
    Returns:
        The dims of `x`.
    Source: clab/dynet, ``dynet/nodes-arith-unary.cc``.
    Examples:
        >>> dy.square(dy.inputVector([-3, 2])).value()
        [9.0, 4.0]
    """
    return lax.square(x)


@op(inputs="x", dim=same)
def cube(x):
    """Cube.

        x^3

    Args:
        x: any dims.
    Returns:
        The dims of `x`.
    Source: clab/dynet, ``dynet/nodes-arith-unary.cc``.
    Examples:
        >>> dy.cube(dy.inputVector([-1, 2, 3])).value()
        [-1.0, 8.0, 27.0]
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
    Examples:
        >>> print(dy.erf(dy.inputVector([0, 1, 9])).npvalue().round(3))
        [0.    0.843 1.   ]
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
    Examples:
        >>> x = dy.lgamma(dy.inputVector([1, 2, 3, 4, 5]))
        >>> print(np.exp(x.npvalue()).round(2))
        [ 1.  1.  2.  6. 24.]
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
    Examples:
        >>> dy.abs(dy.inputVector([-3, 0, 2])).value()
        [3.0, 0.0, 2.0]
    """
    return x * lax.sign(x)  # jnp.abs has slope 1 at 0
