"""The N-ary Tree-LSTM of Tai et al. for binary trees."""

from collections.abc import Sequence
from typing import Any, Self

from dynetjax.builders.placed_tree_lstm import PlacedTreeLSTM, PlacedWeights
from dynetjax.builders.rnn_state import Vectors
from dynetjax.builders.tree import Children, TreeSession
from dynetjax.core.errors import error_text
from dynetjax.core.expression import Expression
from dynetjax.model.collection import ParameterCollection
from dynetjax.ops.shaping import concatenate


class BinaryTreeLSTMBuilder(PlacedTreeLSTM):
    """LSTM over binary trees: that of Tai et al. 2015, section 3.2, with N = 2.

    For a node with input x and children l and r, either of which may be None:

        i   = sigmoid(W_i x + U_i [h_l; h_r] + b_i)
        f_l = sigmoid(W_f x + U_fl [h_l; h_r] + b_f + forget_bias)
        f_r = sigmoid(W_f x + U_fr [h_l; h_r] + b_f + forget_bias)
        o   = sigmoid(W_o x + U_o [h_l; h_r] + b_o)
        u   = tanh(W_u x + U_u [h_l; h_r] + b_u)
        c   = i * u + f_l * c_l + f_r * c_r;  h = o * tanh(c)

    Per layer, in the order of `get_parameters` (H hidden, I input size):
        W_i {H,I}  U_i {H,2H}    b_i {H}
        W_f {H,I}  U_f {2H,2H}   b_f {H}      U_fl above U_fr
        W_o {H,I}  U_o {H,2H}    b_o {H}
        W_u {H,I}  U_u {H,2H}    b_u {H}
    Matrices start as GlorotInitializer leaves them, biases at zero.

    Args:
        layers: how many LSTMs on top of one another; the next reads h of the same node.
        input_dim: size I of the input.
        hidden_dim: size H of the output of every layer.
        model: gets a sub-collection ``binary-tree-lstm-builder`` with the parameters.
        forget_bias: added to what the forget gates read; never stored in b_f. The
            paper has none.
    Raises:
        OverflowError: a size is negative.
        TypeError: `model` is no ParameterCollection.
        ValueError: `layers` is 0.
    Source: arxiv.org/abs/1503.00075, equations 9 to 14.
    Examples:
        >>> m = dy.ParameterCollection()
        >>> E = m.add_lookup_parameters((9, 4))
        >>> trees = dy.BinaryTreeLSTMBuilder(1, 4, 5, m)
        >>> root = trees.build(((3, 1), 4), lambda word: E[word])
        >>> left, right = root.children()
        >>> print(root.output().dim(), left.node, right.node)
        ((5,), 1) (3, 1) 4
    """

    collection_name = "binary-tree-lstm-builder"
    N: int = 2

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

        def gate(rows: int) -> list[Any]:
            return [add((H, input_size)), add((rows, 2 * H)), add((H,), 0)]

        return [*gate(H), *gate(2 * H), *gate(H), *gate(H)]

    def _weights(self, layer: int, update: bool) -> PlacedWeights:
        W_i, U_i, b_i, W_f, U_f, b_f, W_o, U_o, b_o, W_u, U_u, b_u = [
            p.expr(update) for p in self._parameters[layer]
        ]
        return PlacedWeights(
            concatenate([W_i, W_f, W_f, W_o, W_u]),
            concatenate([U_i, U_f, U_o, U_u]),
            (b_i, b_f, b_o, b_u),
        )

    def _compute(
        self, session: TreeSession, x: Expression | None, children: Children
    ) -> Vectors:
        if len(children) > 2:
            raise ValueError(
                error_text(
                    f"{self.whoami()}.add_input: there are too many children",
                    got=len(children),
                    expected="at most 2",
                    fix="binarise the tree; ChildSumTreeLSTMBuilder takes any number",
                )
            )
        return super()._compute(session, x, children)
