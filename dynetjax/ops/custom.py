"""Operations that users make of JAX functions."""

from collections.abc import Callable
from typing import Any

from dynetjax.core.dims import Dim, DimError, Shape
from dynetjax.core.errors import error_text
from dynetjax.core.expression import Expression
from dynetjax.core.lazy import jax, jnp
from dynetjax.core.registry import Op
from dynetjax.ops.operands import graph_of


def jax_op(
    fn: Callable[..., Any], dim: Callable[..., Shape] | None = None
) -> Callable[..., Expression]:
    """An operation that computes a JAX function.

        gelu = dynetjax.jax_op(jax.nn.gelu)
        y = gelu(W * x + b)

    Nodes of one such operation are computed together, for all batch elements, and
    differentiated like those of any other. Make it once, not for each sentence: what is
    made anew is compiled anew.

    Args:
        fn: a pure function of one array for each operand, which has the dims of one
            batch element. Its keyword arguments, if any, are hashable, and part of the
            program. A result without dimensions becomes ``{1}``.
        dim: ``(*shapes, **keywords) -> shape`` of the result, to be held to it. Without
            it, `fn` is traced to find out.
    Returns:
        A function of expressions, and of the keyword arguments of `fn`. It raises
        DimError where `fn` does not take these dims, or gives others than promised.
    Examples:
        >>> mix = dy.jax_op(lambda x, y, share: share * x + (1 - share) * y)
        >>> mix(dy.inputVector([4, 8]), dy.inputVector([0, 4]), share=0.75).value()
        [3.0, 7.0]
    """
    name = f"jax_op({getattr(fn, '__name__', type(fn).__name__)})"

    def computed(*xs, given):
        result = jnp.asarray(fn(*xs, **dict(given)), xs[0].dtype)
        return result.reshape(1) if result.ndim == 0 else result

    def shape_of(name: str, *dims_and_given) -> Shape:
        *dims, given = dims_and_given
        shape = _traced(name, lambda *xs: computed(*xs, given=given), dims)
        if dim is not None:
            promised = tuple(dim(*[x.shape for x in dims], **dict(given)))
            _check_promise(name, shape, promised, dims)
        return shape

    operation = Op(name, computed, shape_of, static=("given",))

    def build(*xs: Expression, **static: Any) -> Expression:
        if not xs:
            raise TypeError(f"{name}: there is no operand")
        return graph_of(name, *xs).add(operation, xs, (tuple(sorted(static.items())),))

    build.__name__ = build.__qualname__ = name
    build.__doc__ = fn.__doc__
    return build


def _traced(name: str, fn: Callable[..., Any], dims: list[Dim]) -> Shape:
    """The shape of what `fn` returns for operands of `dims`."""
    try:
        operands = [jax.ShapeDtypeStruct(x.shape, jnp.float32) for x in dims]
        return jax.eval_shape(fn, *operands).shape
    except (TypeError, ValueError) as error:
        raise DimError(
            error_text(
                f"{name}: the function does not take the operands",
                got=", ".join(map(str, dims)),
                expected="arrays of the dims of one batch element, and one array back",
                fix=f"the function says: {error}",
            )
        ) from error


def _check_promise(name: str, shape: Shape, promised: Shape, dims: list[Dim]) -> None:
    if shape != promised:
        raise DimError(
            error_text(
                f"{name}: the result has other dims than promised",
                got=f"{Dim(shape)} for {', '.join(map(str, dims))}",
                expected=Dim(promised),
                fix="correct dim, or leave it out",
            )
        )
