"""Several rows, columns or strides of an expression."""

from typing import Any

from dynetjax.core.dims import Dim, DimError, Shape
from dynetjax.core.errors import error_text
from dynetjax.core.expression import Expression
from dynetjax.core.lazy import jnp, lax
from dynetjax.core.registry import Op
from dynetjax.core.tables import remembers
from dynetjax.ops.arguments import Ints, indices_below
from dynetjax.ops.arrays import listed
from dynetjax.ops.operands import graph_of
from dynetjax.ops.rows import pick_batch_elems
from dynetjax.ops.shaping import concatenate, concatenate_cols, pick, transpose

__all__ = ["select_cols", "select_rows", "strided_select"]


def _stacked(name: str, *dims_and_shape) -> Shape:
    del name
    return dims_and_shape[-1]


STACK_OP = Op(
    "select_rows",
    lambda *rows, shape: jnp.stack(rows).reshape(shape),
    _stacked,
    static=("shape",),
)


def select_rows(x: Expression, rs: Ints) -> Expression:
    """Some rows, in any order.

    Args:
        x: any dims.
        rs: row numbers from 0 on; repeats are allowed. Run-time; of vectors and
            matrices their number is, too.
    Returns:
        The dims of `x` with ``len(rs)`` rows.
    Raises:
        TypeError: `rs` is not a sequence of numbers.
        ValueError: it is empty, or a number is out of range.
        OverflowError: a number is negative.
    Source: clab/dynet, ``dynet/nodes-select.cc``.
    Examples:
        >>> x = dy.inputTensor([[1, 2, 3], [4, 5, 6]])
        >>> print(dy.select_rows(x, [1, 0, 1]).npvalue())
        [[4. 5. 6.]
         [1. 2. 3.]
         [4. 5. 6.]]
    """
    graph = graph_of("select_rows", x)
    shape = x.full_dim.shape
    chosen = _not_empty("select_rows", "rs", rs, shape[0])
    rows = [pick(x, r) for r in chosen]
    if len(shape) == 1:
        return concatenate(rows)
    if len(shape) == 2:  # of matrices, it is the number of columns that may vary
        return transpose(concatenate_cols(rows))
    return graph.add(STACK_OP, tuple(rows), ((len(rows), *shape[1:]),))


def select_cols(x: Expression, cs: Ints) -> Expression:
    """Some columns of a matrix, in any order.

    Args:
        x: a matrix ``{m,n X b}``.
        cs: column numbers from 0 on; repeats are allowed. Run-time, but not how many.
    Returns:
        ``{m,len(cs) X b}``.
    Raises:
        TypeError: `cs` is not a sequence of numbers.
        DimError: `x` is not a matrix.
        ValueError: `cs` is empty, or a number is out of range.
        OverflowError: a number is negative.
    Source: clab/dynet, ``dynet/nodes-select.cc``.
    Examples:
        >>> x = dy.inputTensor([[1, 2, 3], [4, 5, 6]])
        >>> print(dy.select_cols(x, [2, 0]).npvalue())
        [[3. 1.]
         [6. 4.]]
    """
    graph_of("select_cols", x)
    dim = x.full_dim
    if len(dim.shape) != 2:
        raise DimError(
            error_text(
                "select_cols: x is not a matrix",
                got=dim,
                expected="{m,n} or {m,n X b}",
                fix="reshape x to a matrix",
            )
        )
    chosen = _not_empty("select_cols", "cs", cs, dim.shape[1])
    return concatenate_cols([pick(x, c, 1) for c in chosen])


def _not_empty(name: str, argument: str, values: Any, size: int) -> list[int]:
    chosen = indices_below(name, argument, values, size)
    if not chosen:
        raise ValueError(
            error_text(
                f"{name}: {argument} is empty",
                got=values,
                expected="at least one number",
                fix="leave the expression out",
            )
        )
    return chosen


def _strided_shape(name: str, x: Dim, slices: tuple[Any, ...]) -> Shape:
    del name, x
    return tuple([len(range(*part)) for part in slices])


def _strided(x, *, slices):
    start, stop, step = zip(*slices, strict=True)
    return lax.slice(x, start, stop, step)


STRIDED_OP = Op("strided_select", _strided, _strided_shape, static=("slices",))


def strided_select(
    x: Expression, strides: list[int], range_from: list[int], range_to: list[int]
) -> Expression:
    """Every so many indices of each dimension, and of the batch.

    Args:
        x: any dims.
        strides: the step in each dimension, and then in the batch.
        range_from: the first index in each.
        range_to: the one after the last in each. Where a list ends early, steps are 1
            and ranges are whole. Those of the dimensions are part of the program.
    Returns:
        As many dimensions as `x`, of ``ceil((to - from) / stride)``.
    Raises:
        TypeError: one of the lists is not a list of ints.
        ValueError: a step is below 1, a range is empty or outside `x`.
    Source: clab/dynet, ``dynet/nodes-select.cc``.
    Examples:
        >>> x = dy.inputTensor([[1, 2, 3], [4, 5, 6]])
        >>> print(dy.strided_select(x, [1, 2], [0, 0], [2, 3]).npvalue())
        [[1. 3.]
         [4. 6.]]
        >>> print(x[0:2, 0:3:2].npvalue())
        [[1. 3.]
         [4. 6.]]
    """
    graph = graph_of("strided_select", x)
    dim = x.full_dim
    given = _ints(strides), _ints(range_from), _ints(range_to)
    *parts, rows = _strides(dim, *given)
    result = graph.add(STRIDED_OP, (x,), (tuple(parts),))
    if rows == (0, dim.batch, 1):
        return result
    return pick_batch_elems(result, list(range(*rows)))


def _ints(values: Any) -> tuple[int, ...]:
    values = listed(values)
    try:
        if isinstance(values, (list, tuple)):
            return tuple([int(value) for value in values])
    except (TypeError, ValueError):
        pass
    raise TypeError(
        error_text(
            "strided_select: a range is not a list of ints",
            got=f"{values!r} ({type(values).__name__})",
            expected="a list of ints",
            fix="pass three lists: strides, range_from, range_to",
        )
    )


@remembers
def _strides(dim: Dim, *given: tuple[int, ...]) -> list[tuple[int, int, int]]:
    """``(from, to, stride)`` of every dimension, and of the batch."""
    sizes = (*dim.shape, dim.batch)
    if max(map(len, given)) > len(sizes):
        raise _bad_range(dim, f"{max(map(len, given))} ranges")
    strides, starts, stops = (
        values + default[len(values) :]
        for values, default in zip(
            given, ((1,) * len(sizes), (0,) * len(sizes), sizes), strict=True
        )
    )
    parts = list(zip(starts, stops, strides, strict=True))
    for (start, stop, stride), size in zip(parts, sizes, strict=True):
        if stride < 1 or not 0 <= start < stop <= size:
            raise _bad_range(dim, f"{start}:{stop}:{stride} of {size}")
    return parts


def _bad_range(dim: Dim, got: str) -> DimError:
    return DimError(
        error_text(
            "strided_select: a range is empty or outside x",
            got=f"{got}, x = {dim}",
            expected="0 <= from < to <= size, stride >= 1, batch last",
            fix="count from 0; negative bounds are not supported",
        )
    )
