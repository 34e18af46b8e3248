"""Tree LSTMs whose children have places.

Of N places the last takes all children from the N-th on: a matrix that is applied to
each of them, and summed, is that matrix applied to their sum. So a cell reads N
vectors, however many children there are, and zeros for those that are not: leaves and
inner nodes of any arity run one program.
"""

from typing import Any, NamedTuple

from dynetjax.builders.tree_cells import beside, leaf, placed
from dynetjax.builders.tree_family import Drop, Rows, TreeLSTMFamily
from dynetjax.core.expression import Expression
from dynetjax.ops.linear import matmul
from dynetjax.ops.rows import esum


class PlacedWeights(NamedTuple):
    """One layer in one graph; rows go by gate: i, f_1 .. f_N, o, u.

    Attributes:
        of_x: ``{(3+N)H,I}``, for the input.
        of_children: ``{(3+N)H,NH}`` for h_1 .. h_N; with peepholes ``{(3+N)H,2NH}``,
            for c_1 .. c_N after these.
        biases: b_i, b_f, b_o, b_u, each ``{H}``.
    """

    of_x: Expression
    of_children: Expression
    biases: tuple[Expression, ...]


class PlacedTreeLSTM(TreeLSTMFamily):
    """What NaryTreeLSTMBuilder and BinaryTreeLSTMBuilder share."""

    N: int
    forget_bias: float
    peepholes = False

    def _step(
        self, weights: Any, x: Expression, below: Rows, zeros: Expression, drop: Drop
    ) -> Expression:
        del drop
        of_x, (b_i, _, b_o, b_u) = matmul(weights.of_x, x), weights.biases
        if not any(below):
            return leaf(of_x, b_i, b_o, b_u)
        places = self._by_place(below, zeros)
        of_children = matmul(weights.of_children, beside(places, self.peepholes))
        return placed(of_x, of_children, places, weights.biases, self.forget_bias)

    def _by_place(self, rows: Rows, zeros: Expression) -> list[Expression]:
        """For each place the sum of the children there."""
        last = self.N - 1
        places = [[row] for row in rows[:last]]
        places += [[]] * (last - len(places))
        return [_total(place, zeros) for place in [*places, rows[last:]]]


def _total(rows: Rows, zeros: Expression) -> Expression:
    present = [row for row in rows if row is not None]
    return esum(present) if present else zeros
