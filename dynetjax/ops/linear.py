"""Linear algebra: matrix products, affine maps, inner products."""

from typing import Any

from dynetjax.core.dims import Dim, Shape, pad, trim
from dynetjax.core.expression import Expression
from dynetjax.core.lazy import jnp, lax
from dynetjax.core.precision import PRECISION
from dynetjax.core.registry import Op
from dynetjax.core.tables import remembers
from dynetjax.graph import ComputationGraph
from dynetjax.ops.arguments import misfit, one_batch
from dynetjax.ops.declare import function, op
from dynetjax.ops.operands import operands

__all__ = [
    "affine_transform",
    "colwise_add",
    "dot_product",
    "inverse",
    "logdet",
    "trace_of_product",
]

MANY = 1024  # classes, or gates


def _product_shape(name: str, x: Dim, y: Dim) -> Shape:
    """``{m,k}`` times ``{k}`` or ``{k,n}``; ``{m}`` is ``{m,1}``."""
    m, k, *more = pad(x.shape, 2)
    rows, n, *too_many = pad(y.shape, 2)
    if more or too_many or k != rows:
        raise misfit(
            name,
            [x, y],
            "{m,k} times {k} or {k,n}",
            "use cmult for element-wise products, transpose for the other side",
        )
    return (m,) if len(y.shape) == 1 else (m, n)


def _column_in_rows(
    graph: ComputationGraph, operands: tuple[Any, ...]
) -> tuple[Any, ...]:
    """A parameter that is a column has rows, like the vectors it stands in for."""
    x, y = operands
    return operands if x.lanes or y.lanes else (x, *graph.with_rows((y,)))


@op(
    inputs="x y",
    dim=_product_shape,
    contraction=True,
    compose=_column_in_rows,
)
def matmul(x, y):
    """Matrix product, ``x * y``.

        sum_k x_ik y_kj

    Args:
        x: a matrix ``{m,k X b}``; ``{m}`` is ``{m,1}``.
        y: a matrix ``{k,n X b}`` or a vector ``{k X b}``.
    Returns:
        ``{m,n X b}``, or ``{m X b}`` where `y` is a vector.
    Raises:
        DimError: the inner sizes differ, or an operand has more than two dimensions.
    Source: clab/dynet, ``dynet/nodes-matrixmultiply.cc``.
    """
    return lax.dot(x.reshape(pad(x.shape, 2)), y, precision=PRECISION.of_products)


def _sum_shape(name: str, bias: Dim, *products: Dim) -> Shape:
    """The dims of the products; a bias of one column fits any number of them."""
    m, n = pad(products[0].shape, 2)
    if any(pad(product.shape, 2) != (m, n) for product in products):
        raise misfit(
            name,
            products,
            "products W * x of the same dims",
            "check the rows of the W and the columns of the x",
        )
    if pad(trim(bias.shape), 2) not in ((m, n), (m, 1)):
        raise misfit(
            name,
            [bias, products[0]],
            f"a bias of {m} rows, and 1 column or {n}",
            "give b as many rows as W has",
        )
    return (m,) if n == 1 else (m, n)


def _bias_and_products(bias, *products):
    """The sum of all. Scores of many classes are added up as vectors.

    Where a softmax follows, XLA's loops over columns of one number take four times as
    long. Gates of an LSTM are quicker as columns: as vectors they would take the place
    of a product, and XLA makes no vector code of what is written where it is read.
    """
    m, n = pad(products[0].shape, 2)
    if n == 1 and m > MANY and len(products) == 1:
        return products[0].reshape(m) + bias.reshape(m)
    total = sum((p.reshape(m, n) for p in products[1:]), products[0].reshape(m, n))
    total = total + bias.reshape(m, -1)
    return total.reshape(m) if n == 1 else total


def _products(
    graph: ComputationGraph, exprs: tuple[Any, ...]
) -> tuple[Expression, ...]:
    """The bias, and the products that are added to it."""
    bias, *pairs = exprs
    products = zip(pairs[::2], pairs[1::2], strict=True)
    return (bias, *[graph.part(matmul.op, pair) for pair in products])


AFFINE_OP = Op(
    "affine_transform",
    _bias_and_products,
    _sum_shape,
    compose=_products,
    takes_turns=True,
)


@function()
def affine_transform(exprs: list[Expression]) -> Expression:
    """A bias and any number of matrix products.

        b + W1 x1 + W2 x2 + ...

    Args:
        exprs: the list ``[b, W1, x1, W2, x2, ...]``; `b` has the rows of the W, and
            is added to every column if it has one.
    Returns:
        The dims of ``W1 * x1``; a single column becomes a vector. ``[b]`` gives b.
    Raises:
        TypeError: `exprs` is not a list of expressions.
        ValueError: its length is even.
        DimError: the dims or batches do not fit.
    Source: clab/dynet, ``dynet/nodes-affinetransform.cc``.
    Examples:
        >>> b, x = dy.inputVector([1, 2]), dy.inputVector([1, 10])
        >>> W = dy.inputTensor([[1, 2], [3, 4]])
        >>> dy.affine_transform([b, W, x]).value()
        [22.0, 45.0]
    """
    graph = operands("affine_transform", exprs)
    if len(exprs) == 1:
        return exprs[0]
    _check_affine(*[x.full_dim for x in exprs])
    return graph.add(AFFINE_OP, tuple(exprs))


@remembers
def _check_affine(*dims: Dim) -> None:
    """Raise what is wrong with the list, and not with one of its products."""
    name = AFFINE_OP.name
    if len(dims) % 2 == 0:
        raise misfit(name, dims, "[b, W1, x1, ...]", "pair each W with an x")
    pairs = zip(dims[1::2], dims[2::2], strict=True)
    _sum_shape(name, dims[0], *[Dim(_product_shape(name, *p)) for p in pairs])
    one_batch(name, list(dims))


def _same_dims(name: str, x: Dim, y: Dim) -> Shape:
    if x.shape != y.shape:
        raise misfit(name, [x, y], "the same dims", "reshape one of them")
    return (1,)


@op(inputs="x y", dim=_same_dims)
def dot_product(x, y):
    """Inner product of two tensors of the same dims.

        sum_i x_i y_i

    Args:
        x: any dims.
        y: the dims of `x`.
    Returns:
        ``{1 X b}``.
    Raises:
        DimError: the dims differ, in their number too.
    Source: clab/dynet, ``dynet/nodes-similarities.cc``.
    Examples:
        >>> dy.dot_product(dy.inputVector([1, 2, 3]), dy.inputVector([4, 5, 6])).value()
        32.0
    """
    return jnp.sum(x * y).reshape(1)


@op(inputs="x y", dim=_same_dims)
def trace_of_product(x, y):
    """Trace of ``x * transpose(y)``.

        sum_ij x_ij y_ij

    Args:
        x: any dims.
        y: the dims of `x`.
    Returns:
        ``{1 X b}``.
    Raises:
        DimError: the dims differ.
    Source: clab/dynet, ``dynet/nodes-linalg.cc``.
    Examples:
        >>> x = dy.inputTensor([[1, 2], [3, 4]])
        >>> y = dy.inputTensor([[1, 10], [0, 0]])
        >>> dy.trace_of_product(x, y).value()
        21.0
    """
    return jnp.sum(x * y).reshape(1)


def _matrix_and_column(name: str, x: Dim, y: Dim) -> Shape:
    if len(x.shape) != 2 or trim(y.shape) != trim((x.shape[0],)):
        raise misfit(name, [x, y], "{m,n} and {m}", "reshape y to a column")
    return x.shape


@op(inputs="x y", dim=_matrix_and_column)
def colwise_add(x, y):
    """A vector added to every column of a matrix.

        x_ij + y_i

    Args:
        x: a matrix ``{m,n X b}``.
        y: a vector ``{m X b}`` or ``{m,1 X b}``.
    Returns:
        ``{m,n X b}``.
    Raises:
        DimError: `x` is not a matrix, or `y` not a column of it.
    Source: clab/dynet, ``dynet/nodes-arith-sum.cc``.
    Examples:
        >>> x = dy.inputTensor([[1, 2, 3], [4, 5, 6]])
        >>> print(dy.colwise_add(x, dy.inputVector([10, 20])).npvalue())
        [[11. 12. 13.]
         [24. 25. 26.]]
    """
    return x + y.reshape(-1, 1)


def _square(name: str, x: Dim) -> Shape:
    m, n, *more = pad(x.shape, 2)
    if m != n or more:
        raise misfit(name, [x], "a square matrix", "check the rows and columns")
    return x.shape


@op(inputs="x", dim=_square)
def inverse(x):
    """Inverse of a square matrix; infinite or NaN where there is none.

    Args:
        x: a square matrix ``{n,n X b}``.
    Returns:
        ``{n,n X b}``.
    Raises:
        DimError: `x` is not square.
    Source: clab/dynet, ``dynet/nodes-linalg.cc``.
    Examples:
        >>> x = dy.inputTensor([[2, 1], [1, 1]])
        >>> print(dy.inverse(x).npvalue().round(3))
        [[ 1. -1.]
         [-1.  2.]]
    """
    return jnp.linalg.inv(x.reshape(pad(x.shape, 2))).reshape(x.shape)


def _square_to_number(name: str, x: Dim) -> Shape:
    _square(name, x)
    return (1,)


@op(inputs="x", dim=_square_to_number)
def logdet(x):
    """Natural logarithm of a determinant; NaN where it is negative.

        log(det(x))

    Args:
        x: a square matrix ``{n,n X b}``.
    Returns:
        ``{1 X b}``.
    Raises:
        DimError: `x` is not square.
    Source: clab/dynet, ``dynet/nodes-linalg.cc``.
    Examples:
        >>> x = dy.inputTensor([[3, 1], [1, 2]])
        >>> print(np.exp(dy.logdet(x).npvalue()).round(3))
        [5.]
    """
    sign, log_of_size = jnp.linalg.slogdet(x.reshape(pad(x.shape, 2)))
    return jnp.where(sign < 0, jnp.nan, log_of_size).reshape(1)
