"""A tree builder that reads a node and its children with one LSTM."""

from typing import Any

from dynetjax.builders.rnn_state import Vectors
from dynetjax.builders.tree import Children, TreeBuilder, TreeSession, present
from dynetjax.builders.vanilla_lstm import VanillaLSTMBuilder
from dynetjax.core.errors import error_text
from dynetjax.core.expression import Expression
from dynetjax.model.collection import ParameterCollection


class UnidirectionalTreeLSTMBuilder(TreeBuilder):
    """The output of an LSTM over a node's input and its children's outputs.

        h(node) = LSTM(x, h(child_1), .., h(child_n)), from the state before any input

    Only the output of the top layer goes up, not the cell. The parameters are those of
    a VanillaLSTMBuilder (layers, input_dim, hidden_dim), in a sub-collection of its own
    within this builder's.

    Args:
        layers: of the LSTM.
        input_dim: size of the inputs, the same as `hidden_dim`, since inputs and
            outputs of children are read alike.
        hidden_dim: size of the output of every layer.
        model: gets a sub-collection ``unidirectional-tree-lstm-builder``.
    Raises:
        OverflowError: a size is negative.
        TypeError: `model` is no ParameterCollection.
        ValueError: `input_dim` is not `hidden_dim`, or `layers` is 0.
    Source: clab/dynet, ``dynet/treelstm.cc``.
    Examples:
        >>> m = dy.ParameterCollection()
        >>> E = m.add_lookup_parameters((9, 4))
        >>> trees = dy.UnidirectionalTreeLSTMBuilder(1, 4, 4, m)
        >>> nodes = [(E[1], []), (E[4], []), (E[3], [0, 1])]  # children come first
        >>> outputs = trees.transduce(nodes)
        >>> print(len(outputs), outputs[-1].dim())
        3 ((4,), 1)
    """

    collection_name = "unidirectional-tree-lstm-builder"

    def __init__(
        self, layers: int, input_dim: int, hidden_dim: int, model: ParameterCollection
    ):
        super().__init__(layers, input_dim, hidden_dim, model)
        require_one_size(self)
        self._lstm = VanillaLSTMBuilder(
            self.layers, self.input_dim, self.hidden_dim, self._collection
        )

    def get_parameters(self) -> list[list[Any]]:
        """The parameters of each layer of the LSTM, bottom first."""
        return list(self._lstm.get_parameters())

    def set_dropout(self, p: float) -> None:
        """As `VanillaLSTMBuilder.set_dropout`."""
        self._lstm.set_dropout(p)

    def _compute(
        self, session: TreeSession, x: Expression | None, children: Children
    ) -> Vectors:
        read = [] if x is None else [x]
        read += [child.output() for child in present(children)]
        return self._lstm.initial_state(update=session.update).add_inputs(read)[-1].h()


def require_one_size(builder: TreeBuilder) -> None:
    """Check that inputs are as large as outputs.

    Raises:
        ValueError: they are not.
    """
    if builder.input_dim != builder.hidden_dim:
        raise ValueError(
            error_text(
                f"{builder.whoami()}: input_dim is not hidden_dim",
                got=f"input_dim={builder.input_dim}, hidden_dim={builder.hidden_dim}",
                expected="one size, as one LSTM reads inputs and outputs of children",
                fix="bring the inputs to hidden_dim with an affine_transform",
            )
        )
