"""A step of an LSTM: its sum, gates, cell and output, made at once where that is known.

Most of what it takes to tag a sentence in Python is making these nodes. Where a step
like this one has been made before, what follows from what it reads is looked up once.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

from dynetjax.core.expression import Expression
from dynetjax.ops.declare import function
from dynetjax.ops.gates import (
    activation,
    coupled_cell,
    coupled_gates,
    coupled_output,
    gated_output,
    lstm_cell,
)
from dynetjax.ops.linear import affine_transform

Two = Callable[[Expression, Expression], Expression]


@dataclass(frozen=True, eq=False)
class LSTMCell:
    """A kind of LSTM, by the functions that make its nodes.

    Attributes:
        activate: gates of the sum ``b + W_x x + W_h h``.
        cell: the next cell, of gates and the cell before.
        output: of gates and the next cell.
        step: all of it, of W_x, W_h, b, x, h, c: the next cell and output.
    """

    activate: Callable[[Expression], Expression]
    cell: Two
    output: Two
    step: Callable[..., tuple[Expression, Expression]] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "step", function(6)(self._step))

    def _step(
        self,
        W_x: Expression,
        W_h: Expression,
        b: Expression,
        x: Expression,
        h: Expression,
        c: Expression,
    ) -> tuple[Expression, Expression]:
        """The next cell and output."""
        gates = self.activate(affine_transform([b, W_x, x, W_h, h]))
        cell = self.cell(gates, c)
        return cell, self.output(gates, cell)


COUPLED = LSTMCell(coupled_gates, coupled_cell, coupled_output)


@cache
def vanilla(forget_bias: float) -> LSTMCell:
    """The usual LSTM; `forget_bias` is added to the forget gate."""
    return LSTMCell(activation(forget_bias), lstm_cell, gated_output)
