"""The Child-Sum Tree-LSTM of Tai et al."""

from collections.abc import Sequence
from typing import Any, Self

from dynetjax.builders.tree_cells import for_rows, leaf, summed, together, with_forget
from dynetjax.builders.tree_family import Drop, Rows, TreeLSTMFamily
from dynetjax.core.expression import Expression
from dynetjax.model.collection import ParameterCollection
from dynetjax.ops.linear import matmul
from dynetjax.ops.rows import esum
from dynetjax.ops.shaping import concatenate

GROUPS = (2, 4, 16)  # children that are read together


class ChildSumTreeLSTMBuilder(TreeLSTMFamily):
    """LSTM over trees whose children have no order: Tai et al. 2015, section 3.1.

    For a node with input x and any number of children k:

        h'  = sum_k h_k
        i   = sigmoid(W_i x + U_i h' + b_i)
        f_k = sigmoid(W_f x + U_f h_k + b_f + forget_bias)
        o   = sigmoid(W_o x + U_o h' + b_o)
        u   = tanh(W_u x + U_u h' + b_u)
        c   = i * u + sum_k f_k * c_k;  h = o * tanh(c)

    Per layer, in the order of `get_parameters` (H hidden, I input size):
        W_i {H,I}  U_i {H,H}  b_i {H}      W_f {H,I}  U_f {H,H}  b_f {H}
        W_o {H,I}  U_o {H,H}  b_o {H}      W_u {H,I}  U_u {H,H}  b_u {H}
    Matrices start as GlorotInitializer leaves them, biases at zero.

    Args:
        layers: how many LSTMs on top of one another; the next reads h of the same node.
        input_dim: size I of the input.
        hidden_dim: size H of the output of every layer.
        model: gets a sub-collection ``child-sum-tree-lstm-builder``.
        forget_bias: added to what the forget gates read; never stored in b_f. The
            paper has none.
    Raises:
        OverflowError: a size is negative.
        TypeError: `model` is no ParameterCollection.
        ValueError: `layers` is 0.
    Source: arxiv.org/abs/1503.00075, equations 2 to 8.
    Examples:
        >>> m = dy.ParameterCollection()
        >>> E = m.add_lookup_parameters((9, 4))
        >>> trees = dy.ChildSumTreeLSTMBuilder(1, 4, 5, m)
        >>> one = trees.build((1, 2, 3), lambda word: E[word]).output().npvalue()
        >>> for tree in (3, 1, 2), (3, 1, 4):
        ...     other = trees.build(tree, lambda word: E[word]).output().npvalue()
        ...     print(tree, np.allclose(other, one, atol=1e-5))
        (3, 1, 2) True
        (3, 1, 4) False
    """

    collection_name = "child-sum-tree-lstm-builder"
    parts = 3

    def __init__(
        self,
        layers: int,
        input_dim: int,
        hidden_dim: int,
        model: ParameterCollection,
        forget_bias: float = 0.0,
    ):
        self.forget_bias: float = float(forget_bias)
        super().__init__(layers, input_dim, hidden_dim, model)

    @property
    def spec(self) -> tuple[Any, ...]:
        return (*super().spec, self.forget_bias)

    @classmethod
    def from_spec(cls, spec: Sequence[Any], model: ParameterCollection) -> Self:
        layers, input_dim, hidden_dim, forget_bias = spec
        return cls(layers, input_dim, hidden_dim, model, forget_bias)

    def _add_layer(self, input_size: int) -> list[Any]:
        H, add = self.hidden_dim, self._collection.add_parameters
        shapes = [(H, input_size), (H, H), (H,)] * 4
        return [add(shape, 0 if len(shape) == 1 else None) for shape in shapes]

    def _weights(self, layer: int, update: bool) -> Any:
        W_i, U_i, b_i, W_f, U_f, b_f, W_o, U_o, b_o, W_u, U_u, b_u = [
            p.expr(update) for p in self._parameters[layer]
        ]
        W, U = concatenate([W_i, W_o, W_u]), concatenate([U_i, U_o, U_u])
        return W, for_rows(U), W_f, for_rows(U_f), b_f, (b_i, b_o, b_u)

    def _step(
        self, weights: Any, x: Expression, below: Rows, zeros: Expression, drop: Drop
    ) -> Expression:
        W, U, W_f, U_f, b_f, biases = weights
        of_x, children = matmul(W, x), [row for row in below if row is not None]
        if children:
            f_of_x = matmul(W_f, x)
            groups = [
                together(f_of_x, group, b_f, self.forget_bias)
                for group in _groups(children, zeros)
            ]
            sums = esum(groups)
            row = summed(of_x, matmul(U, sums), sums, *biases)
        else:
            row = leaf(of_x, *biases)
        return with_forget(row, matmul(U_f, drop(row)))


def _groups(rows: list[Expression], zeros: Expression) -> list[list[Expression]]:
    """The rows in groups of few sizes, filled up with zeros."""
    size = next((n for n in GROUPS if n >= len(rows)), GROUPS[-1])
    filled = rows + [zeros] * (-len(rows) % size)
    return [filled[k : k + size] for k in range(0, len(filled), size)]
