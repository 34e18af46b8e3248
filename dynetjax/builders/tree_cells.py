"""What a cell of a tree LSTM makes of its products, as one operation.

A node is one row, its cell above its output, ``[c; h]``: what the loop over the levels
of trees both reads and writes is one array then, which XLA does not copy. Gates are
stacked in the order i, f_1 .. f_n, o, u. Leaves have operations of their own, so that
they stay out of the loop.
"""

from collections.abc import Sequence

from dynetjax.core.dims import Dim, Shape
from dynetjax.core.expression import Expression
from dynetjax.core.lazy import jax, jnp
from dynetjax.core.registry import Op
from dynetjax.graph import current_graph


def _row(name: str, z: Dim, *others) -> Shape:
    """The dims of ``[c; h]``, given those of the biases, which come last."""
    del name
    biases = [other for other in others if isinstance(other, Dim)]
    return (2 * biases[-1].shape[0], *z.shape[1:])


def _side_by_side(name: str, *dims_and_flag) -> Shape:
    *rows, cells_too = dims_and_flag
    del name
    size = sum(row.shape[0] for row in rows)
    return (size if cells_too else size // 2, *rows[0].shape[1:])


def _column(b, z):
    """A bias, to be added to every column."""
    return b.reshape(-1, *[1] * (z.ndim - 1))


def _ended(c, o):
    return jnp.concatenate([c, o * jnp.tanh(c)])


def _leaf(z, b_i, b_o, b_u):
    """All gates of a node without children but f, which has nothing to forget."""
    size = len(b_i)
    i = jax.nn.sigmoid(z[:size] + _column(b_i, z))
    o = jax.nn.sigmoid(z[-2 * size : -size] + _column(b_o, z))
    return _ended(i * jnp.tanh(z[-size:] + _column(b_u, z)), o)


def _placed(of_x, of_children, *rows_and_biases, forget_bias: float):
    *rows, b_i, b_f, b_o, b_u = rows_and_biases
    z = of_x + of_children
    biases = b_i, *[b_f + forget_bias] * len(rows), b_o, b_u
    i, *forget, o, u = [
        part + _column(b, z)
        for part, b in zip(jnp.split(z, 3 + len(rows)), biases, strict=True)
    ]
    c = jax.nn.sigmoid(i) * jnp.tanh(u)
    for f, row in zip(forget, rows, strict=True):
        c = c + jax.nn.sigmoid(f) * jnp.split(row, 2)[0]
    return _ended(c, jax.nn.sigmoid(o))


def _beside(*rows, cells_too: bool):
    cells, outputs = zip(*[jnp.split(row, 2) for row in rows], strict=True)
    return jnp.concatenate([*outputs, *(cells if cells_too else ())])


def _with_forget(row, of_child):
    return jnp.concatenate([row, of_child])


def _with_forget_dim(name: str, row: Dim, of_child: Dim) -> Shape:
    del name
    return (row.shape[0] + of_child.shape[0], *row.shape[1:])


def _together(of_x, *rows_and_bias, forget_bias: float):
    *rows, b_f = rows_and_bias
    start = of_x + _column(b_f, of_x) + forget_bias
    children = [jnp.split(row, 3) for row in rows]
    c = sum(jax.nn.sigmoid(start + f_k) * c_k for c_k, _, f_k in children)
    return jnp.concatenate([c, sum(h_k for _, h_k, _ in children)])


def _for_rows(U):
    return jnp.concatenate([jnp.zeros_like(U), U], axis=1)


def _twice_as_wide(name: str, U: Dim) -> Shape:
    del name
    return (U.shape[0], 2 * U.shape[1])


def _summed(of_x, of_children, sums, b_i, b_o, b_u):
    parts = jnp.split(of_x + of_children, 3)
    i, o, u = [z + _column(b, z) for z, b in zip(parts, (b_i, b_o, b_u), strict=True)]
    c = jax.nn.sigmoid(i) * jnp.tanh(u) + jnp.split(sums, 2)[0]
    return _ended(c, jax.nn.sigmoid(o))


def _op(name: str, fn, dim, *static: str) -> Op:
    return Op(name, fn, dim, static=static, internal=True)


LEAF = _op("leaf_of_tree", _leaf, _row)
PLACED = _op("node_of_tree", _placed, _row, "forget_bias")
SUMMED = _op("node_of_child_sum_tree", _summed, _row)
BESIDE = _op("children", _beside, _side_by_side, "cells_too")
FOR_ROWS = _op("for_rows", _for_rows, _twice_as_wide)
WITH_FORGET = _op("with_forget", _with_forget, _with_forget_dim)
TOGETHER = _op("children_together", _together, _row, "forget_bias")


def leaf(
    z: Expression, b_i: Expression, b_o: Expression, b_u: Expression
) -> Expression:
    """``[c; h]`` of a node without children; `z` may have rows for f."""
    return current_graph().add(LEAF, (z, b_i, b_o, b_u))


def beside(rows: list[Expression], cells_too: bool) -> Expression:
    """``[h_1; ..; h_n]``, and with `cells_too` ``[..; c_1; ..; c_n]`` below."""
    return current_graph().add(BESIDE, tuple(rows), (cells_too,))


def placed(
    of_x: Expression,
    of_children: Expression,
    rows: Sequence[Expression],
    biases: Sequence[Expression],
    forget_bias: float,
) -> Expression:
    """``[c; h]`` of a node with a forget gate for each of its children's places."""
    operands = of_x, of_children, *rows, *biases
    return current_graph().add(PLACED, operands, (forget_bias,))


def for_rows(U: Expression) -> Expression:
    """``[0 U]``: what U is for h, for rows ``[c; h]``."""
    return current_graph().add(FOR_ROWS, (U,))


def with_forget(row: Expression, of_child: Expression) -> Expression:
    """``[c; h; U_f h]``: what a parent in a child-sum tree reads."""
    return current_graph().add(WITH_FORGET, (row, of_child))


def together(
    of_x: Expression, rows: list[Expression], b_f: Expression, forget_bias: float
) -> Expression:
    """``[sum f_k c_k; sum h_k]`` of children with rows ``[c; h; U_f h]``."""
    return current_graph().add(TOGETHER, (of_x, *rows, b_f), (forget_bias,))


def summed(
    of_x: Expression,
    of_children: Expression,
    sums: Expression,
    b_i: Expression,
    b_o: Expression,
    b_u: Expression,
) -> Expression:
    """``[c; h]`` of a node, given the sums over its children."""
    return current_graph().add(SUMMED, (of_x, of_children, sums, b_i, b_o, b_u))
