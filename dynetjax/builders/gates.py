"""What an LSTM makes of its gates, as one operation each.

A step of an LSTM has two vectors that others read, its cell and its output. Two nodes
for them instead of a dozen make a step so much quicker to build. The gates come before
their activations, stacked in the order i, f, o, g.
"""

from collections.abc import Callable
from functools import cache

import jax
import jax.numpy as jnp

from dynetjax.dims import Dim, Shape
from dynetjax.expression import Expression
from dynetjax.ops.declare import op


def _quarter(name: str, gates: Dim, *others: Dim) -> Shape:
    del name, others
    size, *columns = gates.shape
    return (size // 4, *columns)


def _parts(gates):
    return jnp.split(gates, 4)


@op(inputs="gates", dim=_quarter)
def first_cell(gates):
    """The cell after the first input: ``sigmoid(i) tanh(g)``."""
    i, _, _, g = _parts(gates)
    return jax.nn.sigmoid(i) * jnp.tanh(g)


@cache
def next_cell(forget_bias: float) -> Callable[[Expression, Expression], Expression]:
    """The function for cells that follow on others."""

    @op(inputs="gates c", dim=_quarter)
    def lstm_cell(gates, c):
        """The next cell: ``sigmoid(f + forget_bias) c + sigmoid(i) tanh(g)``."""
        i, f, _, g = _parts(gates)
        kept = jax.nn.sigmoid(f + forget_bias) * c
        return kept + jax.nn.sigmoid(i) * jnp.tanh(g)

    return lstm_cell


@op(inputs="gates c", dim=_quarter)
def gated_output(gates, c):
    """The output: ``sigmoid(o) tanh(c)``; `c` may have been normalised."""
    _, _, o, _ = _parts(gates)
    return jax.nn.sigmoid(o) * jnp.tanh(c)
