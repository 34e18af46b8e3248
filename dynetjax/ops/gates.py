"""What an LSTM makes of its gates, as one operation each.

A step of an LSTM has three values that others read: its gates, its cell and its output.
Three nodes for them instead of a dozen make a step so much quicker to build. The gates
are stacked in the order i, f, o, g.
"""

from collections.abc import Callable
from functools import cache

import jax.numpy as jnp
import numpy as np

from dynetjax.dims import Dim, Shape
from dynetjax.expression import Expression
from dynetjax.ops.declare import op
from dynetjax.ops.elementwise import same


def _quarter(name: str, gates: Dim, *others: Dim) -> Shape:
    del name, others
    size, *columns = gates.shape
    return (size // 4, *columns)


def _parts(gates):
    return jnp.split(gates, 4)


def _for_each(gates, *of_gate: float):
    """A number for every row of `gates`, given those of i, f, o and g."""
    numbers = np.repeat(np.array(of_gate, gates.dtype), len(gates) // 4)
    return numbers.reshape(-1, *[1] * (gates.ndim - 1))


def _slope(gates):
    """The derivative of `lstm_gates`, number by number, by its result."""
    scale = _for_each(gates, 0.5, 0.5, 0.5, 1.0)
    return scale**2 - (gates - _for_each(gates, 0.5, 0.5, 0.5, 0.0)) ** 2


@cache
def activation(forget_bias: float) -> Callable[[Expression], Expression]:
    """The function that activates gates; `forget_bias` is added to the forget gate."""

    @op(inputs="z", dim=same, slope=_slope, tells=True)
    def lstm_gates(z):
        """``sigmoid(i), sigmoid(f + forget_bias), sigmoid(o), tanh(g)``.

        As sigmoid(x) is 0.5 tanh(0.5 x) + 0.5, one tanh serves all of them.
        """
        scale = _for_each(z, 0.5, 0.5, 0.5, 1.0)
        start = _for_each(z, 0.0, 0.5 * forget_bias, 0.0, 0.0)
        return scale * jnp.tanh(scale * z + start) + _for_each(z, 0.5, 0.5, 0.5, 0.0)

    return lstm_gates


@op(inputs="gates c", dim=_quarter)
def lstm_cell(gates, c):
    """The next cell: ``f c + i g``."""
    i, f, _, g = _parts(gates)
    return f * c + i * g


@op(inputs="gates c", dim=_quarter, tells=True)
def gated_output(gates, c):
    """The output: ``o tanh(c)``; `c` may have been normalised."""
    _, _, o, _ = _parts(gates)
    return o * jnp.tanh(c)
