"""Contractions of a tensor with vectors, and circular convolution of two vectors."""

import numpy as np

from dynetjax.core.dims import Dim, Shape, is_vector_like
from dynetjax.core.lazy import jnp
from dynetjax.core.precision import PRECISION
from dynetjax.ops.arguments import misfit
from dynetjax.ops.declare import op

__all__ = [
    "circ_conv",
    "circ_corr",
    "contract3d_1d",
    "contract3d_1d_1d",
    "contract3d_1d_1d_bias",
    "contract3d_1d_bias",
]


def _is_vector_of(y: Dim, size: int) -> bool:
    return is_vector_like(y.shape) and y.size == size


def _without_last(name: str, x: Dim, y: Dim, *bias: Dim) -> Shape:
    """``{a,b,k}``, ``{k}`` -> ``{a,b}``; a bias has the dims of the result."""
    if len(x.shape) != 3 or not _is_vector_of(y, x.shape[2]):
        fix = "y goes with the last dimension of x"
        raise misfit(name, (x, y), "{a,b,k} and {k}", fix)
    return _with_bias(name, x.shape[:2], bias)


def _first_only(name: str, x: Dim, y: Dim, z: Dim, *bias: Dim) -> Shape:
    """``{a,b,k}``, ``{k}``, ``{b}`` -> ``{a}``; a bias has the dims of the result."""
    if (
        len(x.shape) != 3
        or not _is_vector_of(y, x.shape[2])
        or not _is_vector_of(z, x.shape[1])
    ):
        fix = "y goes with the last dimension of x, z with the middle one"
        raise misfit(name, (x, y, z), "{a,b,k}, {k} and {b}", fix)
    return _with_bias(name, x.shape[:1], bias)


def _with_bias(name: str, shape: Shape, bias: tuple[Dim, ...]) -> Shape:
    if any(b.shape != shape for b in bias):
        fix = "b is added to the result, and is not repeated"
        raise misfit(name, bias, f"b of dims {Dim(shape)}", fix)
    return shape


def _over_last(x, y):
    return jnp.tensordot(x, y.reshape(-1), axes=1, precision=PRECISION.of_products)


def _over_two(x, y, z):
    return jnp.dot(_over_last(x, y), z.reshape(-1), precision=PRECISION.of_products)


@op(inputs="x y", dim=_without_last, contraction=True)
def contract3d_1d(x, y):
    """A tensor of three dimensions times a vector, over the last of them.

        sum_k x_ijk y_k

    Args:
        x: a tensor ``{a,b,k X n}``.
        y: a vector ``{k X n}``.
    Returns:
        ``{a,b X n}``.
    Raises:
        DimError: `x` has not three dimensions, or `y` is no vector of the last size.
    Source: clab/dynet, ``dynet/nodes-contract.cc``.
    Examples:
        >>> x = dy.inputTensor(np.arange(8).reshape(2, 2, 2))
        >>> y = dy.inputVector([0, 1])
        >>> print(dy.contract3d_1d(x, y).npvalue())
        [[1. 3.]
         [5. 7.]]
    """
    return _over_last(x, y)


@op(inputs="x y b", dim=_without_last, contraction=True)
def contract3d_1d_bias(x, y, b):
    """A tensor of three dimensions times a vector, over the last, and a bias.

        sum_k x_ijk y_k + b_ij

    Args:
        x: a tensor ``{a,b,k X n}``.
        y: a vector ``{k X n}``.
        b: a matrix ``{a,b X n}``.
    Returns:
        ``{a,b X n}``.
    Raises:
        DimError: `x` has not three dimensions, `y` is no vector of the last size, or
            `b` has not the dims of the result.
    Source: clab/dynet, ``dynet/nodes-contract.cc``.
    Examples:
        >>> x = dy.inputTensor(np.arange(8).reshape(2, 2, 2))
        >>> y, b = dy.inputVector([0, 1]), dy.inputTensor([[10, 20], [30, 40]])
        >>> print(dy.contract3d_1d_bias(x, y, b).npvalue())
        [[11. 23.]
         [35. 47.]]
    """
    return _over_last(x, y) + b


@op(inputs="x y z", dim=_first_only, contraction=True)
def contract3d_1d_1d(x, y, z):
    """A tensor of three dimensions times two vectors, over the last and the middle.

        sum_jk x_ijk y_k z_j

    Args:
        x: a tensor ``{a,b,k X n}``.
        y: a vector ``{k X n}``.
        z: a vector ``{b X n}``.
    Returns:
        ``{a X n}``.
    Raises:
        DimError: `x` has not three dimensions, or a vector has not the size of the
            dimension that it goes with.
    Source: clab/dynet, ``dynet/nodes-contract.cc``.
    Examples:
        >>> x = dy.inputTensor(np.arange(8).reshape(2, 2, 2))
        >>> y, z = dy.inputVector([0, 1]), dy.inputVector([1, 0])
        >>> dy.contract3d_1d_1d(x, y, z).value()
        [1.0, 5.0]
    """
    return _over_two(x, y, z)


@op(inputs="x y z b", dim=_first_only, contraction=True)
def contract3d_1d_1d_bias(x, y, z, b):
    """A tensor times two vectors, over the last dimension and the middle, and a bias.

        sum_jk x_ijk y_k z_j + b_i

    Args:
        x: a tensor ``{a,b,k X n}``.
        y: a vector ``{k X n}``.
        z: a vector ``{b X n}``.
        b: a vector ``{a X n}``.
    Returns:
        ``{a X n}``.
    Raises:
        DimError: `x` has not three dimensions, a vector has not the size of the
            dimension that it goes with, or `b` has not the dims of the result.
    Source: clab/dynet, ``dynet/nodes-contract.cc``.
    Examples:
        >>> x = dy.inputTensor(np.arange(8).reshape(2, 2, 2))
        >>> y, z = dy.inputVector([0, 1]), dy.inputVector([1, 0])
        >>> b = dy.inputVector([100, 200])
        >>> dy.contract3d_1d_1d_bias(x, y, z, b).value()
        [101.0, 205.0]
    """
    return _over_two(x, y, z) + b


def _equal_vectors(name: str, u: Dim, v: Dim) -> Shape:
    if len(u.shape) != 1 or u.shape != v.shape:
        raise misfit(name, (u, v), "two vectors {d}", "reshape or pad one of them")
    return u.shape


@op(inputs="u v", dim=_equal_vectors, contraction=True)
def circ_conv(u, v):
    """Circular convolution.

        y_k = sum_i u_i v_((k - i) mod d)

    Args:
        u: a vector ``{d X b}``.
        v: a vector of the same length.
    Returns:
        ``{d X b}``.
    Raises:
        DimError: the operands are not vectors of one length.
    Source: clab/dynet, ``dynet/nodes-conv.cc``.
    Examples:
        >>> u, v = dy.inputVector([0, 1, 0]), dy.inputVector([1, 2, 3])
        >>> print(dy.circ_conv(u, v).npvalue().round(3))
        [3. 1. 2.]
    """
    k = np.arange(len(u))
    return jnp.matmul(v[(k[:, None] - k) % len(u)], u, precision=PRECISION.of_products)


@op(inputs="u v", dim=_equal_vectors, contraction=True)
def circ_corr(u, v):
    """Circular correlation.

        y_k = sum_i u_i v_((i + k) mod d)

    Args:
        u: a vector ``{d X b}``.
        v: a vector of the same length.
    Returns:
        ``{d X b}``.
    Raises:
        DimError: the operands are not vectors of one length.
    Source: clab/dynet, ``dynet/nodes-conv.cc``.
    Examples:
        >>> u, v = dy.inputVector([0, 1, 0]), dy.inputVector([1, 2, 3])
        >>> print(dy.circ_corr(u, v).npvalue().round(3))
        [2. 3. 1.]
    """
    k = np.arange(len(u))
    return jnp.matmul(v[(k[:, None] + k) % len(u)], u, precision=PRECISION.of_products)
