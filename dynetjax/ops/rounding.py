"""Functions without a derivative, and what stands in for it.

`gradient_mode` is "zero_gradient", or "straight_through_gradient": the result's
gradient goes to `x` as it is (arxiv.org/abs/1308.3432).
"""

from dynetjax.core.dims import Dim, DimError, Shape
from dynetjax.core.errors import error_text
from dynetjax.core.lazy import at_first_call, jax, jnp, lax
from dynetjax.ops.declare import op
from dynetjax.ops.elementwise import same

__all__ = [
    "argmax",
    "ceil",
    "floor",
    "round",
]


GRADIENT_MODES = ("zero_gradient", "straight_through_gradient")


def _gradient_mode(name, dims, mode):
    del dims
    if not isinstance(mode, str):
        raise TypeError(
            error_text(
                f"{name}: gradient_mode is not a string",
                got=f"{mode!r} ({type(mode).__name__})",
                expected=" or ".join(GRADIENT_MODES),
                fix="name the mode",
            )
        )
    if mode not in GRADIENT_MODES:
        raise ValueError(
            error_text(
                f"{name}: there is no such gradient_mode",
                got=repr(mode),
                expected=" or ".join(GRADIENT_MODES),
                fix="name one of the modes",
            )
        )
    return (mode,), None, 1


@at_first_call(lambda f: jax.custom_jvp(f))
def _straight_through(x, y):
    """The value of `y` with the derivative of `x`."""
    del x
    return y


_straight_through.defjvp(lambda primals, tangents: (primals[1], tangents[0]))


def _with_gradient(mode: str, x, y):
    return lax.stop_gradient(y) if mode == "zero_gradient" else _straight_through(x, y)


@op(inputs="x", dim=same, accept=_gradient_mode)
def round(x, gradient_mode: str):
    """Nearest integer; halves go away from zero.

    Args:
        x: any dims.
        gradient_mode: "zero_gradient", or "straight_through_gradient" for that of x.
    Returns:
        The dims of `x`.
    Raises:
        TypeError: `gradient_mode` is not a string.
        ValueError: there is no such mode.
    Source: clab/dynet, ``dynet/nodes-rounding.cc``.
    Examples:
        >>> dy.round(dy.inputVector([-2.5, 0.4, 0.5]), "zero_gradient").value()
        [-3.0, 0.0, 1.0]
    """
    y = lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO)
    return _with_gradient(gradient_mode, x, y)


@op(inputs="x", dim=same, accept=_gradient_mode)
def ceil(x, gradient_mode: str):
    """Smallest integer that is not less.

    Args:
        x: any dims.
        gradient_mode: "zero_gradient", or "straight_through_gradient" for that of x.
    Returns:
        The dims of `x`.
    Raises:
        TypeError: `gradient_mode` is not a string.
        ValueError: there is no such mode.
    Source: clab/dynet, ``dynet/nodes-rounding.cc``.
    Examples:
        >>> dy.ceil(dy.inputVector([-1.5, 0.2, 2]), "zero_gradient").value()
        [-1.0, 1.0, 2.0]
    """
    return _with_gradient(gradient_mode, x, jnp.ceil(x))


@op(inputs="x", dim=same, accept=_gradient_mode)
def floor(x, gradient_mode: str):
    """Largest integer that is not greater.

    Args:
        x: any dims.
        gradient_mode: "zero_gradient", or "straight_through_gradient" for that of x.
    Returns:
        The dims of `x`.
    Raises:
        TypeError: `gradient_mode` is not a string.
        ValueError: there is no such mode.
    Source: clab/dynet, ``dynet/nodes-rounding.cc``.
    Examples:
        >>> p = dy.Model().add_parameters(1, init=2.7)
        >>> y = dy.floor(5 * p, "straight_through_gradient")
        >>> y.backward()
        >>> print(y.value(), p.grad_as_array())
        13.0 [5.]
    """
    return _with_gradient(gradient_mode, x, jnp.floor(x))


def _plain_vector(name: str, x: Dim, *static) -> Shape:
    del static
    if len(x.shape) != 1:
        raise DimError(
            error_text(
                f"{name}: x is not a vector",
                got=x,
                expected="{n} or {n X b}",
                fix="reshape x to a vector",
            )
        )
    return x.shape


@op(inputs="x", dim=_plain_vector, accept=_gradient_mode)
def argmax(x, gradient_mode: str):
    """One-hot vector of the first maximum, per batch element.

    Args:
        x: a vector, ``{n X b}``.
        gradient_mode: "zero_gradient", or "straight_through_gradient" for that of x.
    Returns:
        ``{n X b}``: 1 at the maximum, 0 elsewhere.
    Raises:
        DimError: `x` is not a vector.
        TypeError: `gradient_mode` is not a string.
        ValueError: there is no such mode.
    Source: clab/dynet, ``dynet/nodes-argmax.cc``.
    Examples:
        >>> dy.argmax(dy.inputVector([1, 5, 2, 5]), "zero_gradient").value()
        [0.0, 1.0, 0.0, 0.0]
    """
    one_hot = (lax.iota(jnp.int32, x.shape[0]) == jnp.argmax(x)).astype(x.dtype)
    return _with_gradient(gradient_mode, x, one_hot)
