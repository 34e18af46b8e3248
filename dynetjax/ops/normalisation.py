"""Normalisation of activations and of weights."""

from dynetjax.core.dims import Dim, DimError, Shape
from dynetjax.core.errors import error_text
from dynetjax.core.lazy import jnp
from dynetjax.ops.arguments import order_at_most
from dynetjax.ops.arithmetic import add, cmult
from dynetjax.ops.declare import op

__all__ = ["layer_norm", "weight_norm"]

SMALLEST_DEVIATION = 1e-8  # added to the standard deviation, as in DyNet


def _scaled_and_shifted(name: str, x: Dim, g: Dim, b: Dim) -> Shape:
    order_at_most(name, x, 2)
    scaled = cmult.op.dim(name, g, x)
    return add.op.dim(name, Dim(scaled), b)


@op(inputs="x g b", dim=_scaled_and_shifted)
def layer_norm(x, g, b):
    """Normalisation over all elements (arxiv.org/abs/1607.06450).

        g * (x - mean(x)) / (std(x) + 1e-8) + b

    Args:
        x: a vector or a matrix.
        g: gains; repeated, as `x` is, where a size or the batch is 1.
        b: biases; repeated likewise.
    Returns:
        The larger size in each dimension. Where all elements of `x` are equal it is
        `b`, and the gradient of `x` is NaN.
    Raises:
        DimError: `x` has more than two dimensions, or the sizes or batches do not fit.
    Source: clab/dynet, ``dynet/expr.cc``.
    Examples:
        >>> x, g, b = dy.inputVector([1, 3]), dy.scalarInput(10), dy.scalarInput(5)
        >>> print(dy.layer_norm(x, g, b).npvalue().round(3))
        [-5. 15.]
    """
    centred = x - jnp.mean(x)
    deviation = jnp.sqrt(jnp.mean(jnp.square(centred)))
    scaled = cmult.op.fn(g, centred / (deviation + SMALLEST_DEVIATION))
    return add.op.fn(scaled, b)


def _with_one_gain(name: str, w: Dim, g: Dim) -> Shape:
    if g.size != 1:
        raise DimError(
            error_text(
                f"{name}: g is not one number",
                got=g,
                expected="{1}",
                fix="one gain is for all of w; use cmult for more",
            )
        )
    return w.shape


@op(inputs="w g", dim=_with_one_gain)
def weight_norm(w, g):
    """Weights with a norm of their own (arxiv.org/abs/1602.07868).

        g w / ||w||

    Args:
        w: weights of any dims; the norm is that of all their elements.
        g: the gain, ``{1}``.
    Returns:
        The dims of `w`; NaN where `w` is 0 everywhere.
    Raises:
        DimError: `g` is not one number.
    Source: clab/dynet, ``dynet/nodes-normalization.cc``.
    Examples:
        >>> w, g = dy.inputVector([3, 4]), dy.scalarInput(10)
        >>> print(dy.weight_norm(w, g).npvalue().round(3))
        [6. 8.]
    """
    return w / jnp.sqrt(jnp.sum(jnp.square(w))) * g.reshape(())
