"""What recurrent cells make of their gates, as one operation each.

A step of an LSTM has three values that others read: its gates, its cell and its output.
Three nodes for them instead of a dozen make a step so much quicker to build. What the
gates are made of is stacked, so that one product with x and one with h serve them all:
i, f, o, g in a vanilla LSTM, i, g, o where f is 1 - i, and z, r in a GRU.
"""

from collections.abc import Callable
from functools import cache

import numpy as np

from dynetjax.core.dims import Dim, Shape
from dynetjax.core.expression import Expression
from dynetjax.core.lazy import jnp, lax
from dynetjax.core.registry import Op
from dynetjax.graph import current_graph
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


@cache
def activation(forget_bias: float) -> Callable[[Expression], Expression]:
    """The function that activates gates; `forget_bias` is added to the forget gate."""

    @op(inputs="z", dim=same, tells=True)
    def lstm_gates(z):
        """``sigmoid(i), sigmoid(f + forget_bias), sigmoid(o), tanh(g)``.

        As sigmoid(x) is 0.5 tanh(0.5 x) + 0.5, one tanh serves all of them.
        """
        scale = _for_each(z, 0.5, 0.5, 0.5, 1.0)
        start = _for_each(z, 0.0, 0.5 * forget_bias, 0.0, 0.0)
        return scale * lax.tanh(scale * z + start) + _for_each(z, 0.5, 0.5, 0.5, 0.0)

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
    return o * lax.tanh(c)


STACK = Op(
    "stack",
    lambda *xs: jnp.concatenate(xs),
    lambda _, *xs: (sum(x.shape[0] for x in xs), *xs[0].shape[1:]),
    internal=True,
)


def stacked(*parameters: Expression) -> Expression:
    """Parameters on top of one another, made once for all steps of a graph."""
    return current_graph().add(STACK, parameters)


def _of_cell(name: str, gates: Dim, c: Dim) -> Shape:
    del name, gates
    return c.shape


def _two_thirds(name: str, z: Dim, p: Dim) -> Shape:
    del name, z
    size, *columns = p.shape
    return (2 * size, *columns)


@op(inputs="z p", dim=_two_thirds)
def coupled_input(z, p):
    """``sigmoid(i + p), tanh(g)``, where `p` is a peephole's."""
    i, g, _ = jnp.split(z, 3)
    return jnp.concatenate([lax.logistic(i + p), lax.tanh(g)])


@op(inputs="z", dim=same, tells=True)
def coupled_gates(z):
    """``sigmoid(i), tanh(g), sigmoid(o)``."""
    i, g, o = jnp.split(z, 3)
    return jnp.concatenate([lax.logistic(i), lax.tanh(g), lax.logistic(o)])


@op(inputs="gates c", dim=_of_cell)
def coupled_cell(gates, c):
    """The next cell: ``c + i (g - c)``."""
    i, g = gates[: len(c)], gates[len(c) : 2 * len(c)]
    return c + i * (g - c)


@op(inputs="z p", dim=_of_cell, tells=True)
def output_gate(z, p):
    """``sigmoid(o + p)``, where `p` is a peephole's."""
    return lax.logistic(z[2 * len(p) :] + p)


@op(inputs="gates c", dim=_of_cell, tells=True)
def coupled_output(gates, c):
    """The output: ``o tanh(c)``, where o is the last gate."""
    return gates[len(gates) - len(c) :] * lax.tanh(c)


@op(inputs="z", dim=same, tells=True)
def gru_gates(z):
    """``sigmoid(z), sigmoid(r)``."""
    return lax.logistic(z)


@op(inputs="gates h", dim=_of_cell)
def reset(gates, h):
    """``r h``, what a GRU keeps of its output."""
    return gates[len(h) :] * h


def _of_output(name: str, gates: Dim, u: Dim, h: Dim) -> Shape:
    del name, gates, u
    return h.shape


@op(inputs="gates u h", dim=_of_output)
def gru_output(gates, u, h):
    """The output: ``h + z (tanh(u) - h)``."""
    return h + gates[: len(h)] * (lax.tanh(u) - h)
