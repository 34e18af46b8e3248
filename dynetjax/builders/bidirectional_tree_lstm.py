"""A tree builder that reads a node and its children with two LSTMs."""

from typing import Any

from dynetjax.builders.rnn_state import Vectors
from dynetjax.builders.tree import Children, TreeBuilder, TreeSession, present
from dynetjax.builders.unidirectional_tree_lstm import require_one_size
from dynetjax.builders.vanilla_lstm import VanillaLSTMBuilder
from dynetjax.core.errors import error_text
from dynetjax.core.expression import Expression
from dynetjax.model.collection import ParameterCollection
from dynetjax.ops.shaping import concatenate


class BidirectionalTreeLSTMBuilder(TreeBuilder):
    """The outputs of two LSTMs over a node's input and its children's outputs.

        h(node) = [LSTM_f(x, h(child_1), .., h(child_n));
                   LSTM_b(x, h(child_n), .., h(child_1))]

    Both read x first, from the state before any input. Only the output of the top layer
    goes up. The parameters are those of two VanillaLSTMBuilders
    (layers, input_dim, hidden_dim / 2), first that of the children in order, in
    sub-collections of their own within this builder's.

    Args:
        layers: of each LSTM.
        input_dim: size of the inputs, the same as `hidden_dim`.
        hidden_dim: size of the output of every layer of both together.
        model: gets a sub-collection ``bidirectional-tree-lstm-builder``.
    Raises:
        OverflowError: a size is negative.
        TypeError: `model` is no ParameterCollection.
        ValueError: `hidden_dim` is odd, `input_dim` is not `hidden_dim`, or `layers`
            is 0.
    Source: clab/dynet, ``dynet/treelstm.cc``.
    Examples:
        >>> m = dy.ParameterCollection()
        >>> E = m.add_lookup_parameters((9, 4))
        >>> trees = dy.BidirectionalTreeLSTMBuilder(1, 4, 4, m)
        >>> root = trees.build([[1, 2], 3], lambda word: E[word])
        >>> for state in root.nodes():
        ...     print(state.node, state.output().dim())
        1 ((4,), 1)
        2 ((4,), 1)
        [1, 2] ((4,), 1)
        3 ((4,), 1)
        [[1, 2], 3] ((4,), 1)
    """

    collection_name = "bidirectional-tree-lstm-builder"

    def __init__(
        self, layers: int, input_dim: int, hidden_dim: int, model: ParameterCollection
    ):
        super().__init__(layers, input_dim, hidden_dim, model)
        require_one_size(self)
        if self.hidden_dim % 2:
            raise ValueError(
                error_text(
                    f"{self.whoami()}: hidden_dim is odd",
                    got=self.hidden_dim,
                    expected="an even number, half of it for each direction",
                    fix="add one",
                )
            )
        half = self.hidden_dim // 2
        self._forward, self._backward = [
            VanillaLSTMBuilder(self.layers, self.input_dim, half, self._collection)
            for _ in range(2)
        ]

    def get_parameters(self) -> list[list[Any]]:
        """The parameters of each layer: of the forward LSTM, then of the other."""
        both = self._forward.get_parameters(), self._backward.get_parameters()
        return [f + b for f, b in zip(*both, strict=True)]

    def set_dropout(self, p: float) -> None:
        """As `VanillaLSTMBuilder.set_dropout`, for both."""
        self._forward.set_dropout(p)
        self._backward.set_dropout(p)

    def _compute(
        self, session: TreeSession, x: Expression | None, children: Children
    ) -> Vectors:
        first = [] if x is None else [x]
        below = [child.output() for child in present(children)]
        ends = []
        for lstm, order in (self._forward, below), (self._backward, below[::-1]):
            state = lstm.initial_state(update=session.update)
            ends.append(state.add_inputs([*first, *order])[-1].h())
        return tuple(concatenate([f, b]) for f, b in zip(*ends, strict=True))
