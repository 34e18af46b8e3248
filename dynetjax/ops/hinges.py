"""Hinge losses: by how much other scores come too close to those of the right class."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from dynetjax.core.dims import Dim, DimError, Shape
from dynetjax.core.errors import error_text
from dynetjax.core.expression import Expression
from dynetjax.core.lazy import jax, jnp, lax
from dynetjax.core.registry import INPUT, Op
from dynetjax.ops.arguments import (
    Int,
    Ints,
    Number,
    axis_of,
    index_below,
    indices_below,
    number_from,
    one_per_element,
)
from dynetjax.ops.declare import op, real
from dynetjax.ops.losses import (
    USUAL_CLASS,
    classes_of,
    new_class,
    not_batched,
    picked,
    scores_to_loss,
)
from dynetjax.ops.operands import graph_of

__all__ = ["hinge", "hinge_batch", "hinge_dim"]


def _class_and_margin(name, dims, v, m):
    scores_to_loss(name, dims[0])
    not_batched(name, dims[0], "use hinge_batch")
    chosen = index_below(name, "v", v, dims[0].shape[0])
    return (), (chosen, number_from(name, "m", m, 0)), 1


def _new_class(dim: Dim, data: Any, value: Any, x: Dim) -> Any:
    old, margin = data
    return new_class(dim, old, value, x), margin


@op(
    inputs="x",
    runtime="v:i m:f",
    dim=scores_to_loss,
    accept=_class_and_margin,
    reset=_new_class,
    usual={"v": USUAL_CLASS, "m": real(0, floats=True)},
)
def hinge(x, v: Int, m: Number = 1.0):
    """Margin by which scores come too close to that of class `v`, or exceed it.

        sum_{j != v} max(0, x_j - x_v + m)

    Args:
        x: scores, ``{n}``.
        v: gold class, ``0 <= v < n``; `.set_index(v)` changes it. Run-time: a new v
            never recompiles.
        m: the margin. Run-time.
    Returns:
        ``{1}``. Exactly on the margin the gradient is 0.
    Raises:
        DimError: `x` has more than one dimension, or is batched.
        ValueError: `v` is out of range, or `m` negative.
        OverflowError: `v` is negative.
    Source: clab/dynet, ``dynet/nodes-hinge.cc``.
    Examples:
        >>> x = dy.inputVector([3, 1, 2.5])
        >>> dy.hinge(x, 0).value()
        0.5
        >>> dy.hinge(x, 0, m=0.5).value()
        0.0
    """
    x = x.reshape(-1)
    violations = jax.nn.relu(x - picked(x, v) + m)
    others = lax.iota(jnp.int32, x.size) != v
    return jnp.sum(jnp.where(others, violations, 0)).reshape(1)


def hinge_batch(x: Expression, vs: Ints, m: Number = 1.0) -> Expression:
    """`hinge` with one class per batch element.

    Args:
        x: scores, ``{n X b}``.
        vs: b gold classes. Run-time: new ones never recompile.
        m: the margin. Run-time.
    Returns:
        ``{1 X b}``: one loss per batch element, not their sum.
    Raises:
        TypeError: `vs` is not a sequence of numbers.
        DimError: `x` has more than one dimension.
        ValueError: one of `vs` is out of range, there are not b of them, or `m` is
            negative.
        OverflowError: one is negative.
    Source: clab/dynet, ``dynet/nodes-hinge.cc``.
    Examples:
        >>> x = dy.inputTensor([[3, 0], [1, 2]], batched=True)
        >>> dy.hinge_batch(x, [0, 0]).value()
        [0.0, 3.0]
    """
    name = "hinge_batch"
    graph = graph_of(name, x)
    classes = classes_of(name, x.full_dim, vs)
    data = (classes, number_from(name, "m", m, 0))
    return graph.add(hinge.op, (x,), (), data, len(classes))


def _lines(name: str, x: Dim, ids: Dim, d: int) -> Shape:
    """One loss for each column of a matrix (`d` = 0), or each row (`d` = 1)."""
    del name, ids
    return (x.shape[1 - d],)


def _of_lines(x, ids, m, *, d):
    x = jnp.moveaxis(x, d, 0)  # classes, lines
    gold = lax.broadcasted_iota(jnp.float32, x.shape, 0) == ids
    scores = jnp.sum(jnp.where(gold, x, 0), axis=0)
    violations = jax.nn.relu(x - scores + m)
    return jnp.sum(jnp.where(gold, 0, violations), axis=0)


IDS_OP = Op("classes of hinge_dim", form=INPUT, internal=True)
HINGE_DIM_OP = Op("hinge_dim", _of_lines, _lines, static=("d",), runtime="f")


def hinge_dim(
    x: Expression, v: Ints | Sequence[Ints], d: int = 0, m: Number = 1.0
) -> Expression:
    """`hinge` of every column of a matrix, or of every row.

        sum_{i != v_j} max(0, x_ij - x_{v_j,j} + m)

    Args:
        x: scores, a matrix ``{n,k X b}``; with ``d=1``, ``{k,n X b}``.
        v: k gold classes for all batch elements, or a list of b such lists. Run-time:
            new ones never recompile.
        d: the dimension that the classes are along.
        m: the margin. Run-time.
    Returns:
        ``{k X b}``. Exactly on the margin the gradient is 0.
    Raises:
        TypeError: `v` is not a sequence of numbers.
        DimError: `x` is not a matrix, or has no dimension `d`.
        ValueError: one of `v` is out of range, there are not k of them, or `m` is
            negative.
        OverflowError: one is negative.
    Source: clab/dynet, ``dynet/nodes-hinge.cc``.
    Examples:
        >>> x = dy.inputTensor([[3, 0], [1, 2]])
        >>> dy.hinge_dim(x, [0, 0]).value()
        [0.0, 3.0]
        >>> dy.hinge_dim(x, [0, 0], d=1).value()
        [0.0, 2.0]
    """
    name = HINGE_DIM_OP.name
    graph = graph_of(name, x)
    dim = x.full_dim
    if len(dim.shape) != 2:
        raise DimError(
            error_text(
                f"{name}: x is not a matrix of scores",
                got=dim,
                expected="{n,k} or {n,k X b}",
                fix="use hinge for a vector",
            )
        )
    axis = axis_of(name, "d", d, dim)
    margin = number_from(name, "m", m, 0)
    ids = _class_of_each_line(name, v, dim, axis)
    given = graph.add_rows(IDS_OP, (), ids.shape[1:], ids, len(ids))
    return graph.add(HINGE_DIM_OP, (x, given), (axis,), margin)


def _class_of_each_line(name: str, v: Any, x: Dim, d: int) -> np.ndarray:
    """``[1, k]`` classes, or ``[b, k]`` where each batch element has its own."""
    every = [v]
    if isinstance(v, (list, tuple)) and v and isinstance(v[0], (list, tuple)):
        one_per_element(name, "v", v, x.batch)
        every = list(v)
    classes, lines = x.shape[d], x.shape[1 - d]
    gold = [indices_below(name, "v", ids, classes) for ids in every]
    if any(len(ids) != lines for ids in gold):
        raise ValueError(
            error_text(
                f"{name}: v does not fit the matrix",
                got=f"{[len(ids) for ids in gold]} classes, x = {x}, d = {d}",
                expected=f"{lines} classes, one per {'row' if d else 'column'}",
                fix="d is the dimension that the classes are along",
            )
        )
    return np.array(gold, np.float32)
