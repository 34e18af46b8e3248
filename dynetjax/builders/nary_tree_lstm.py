"""DyNet's LSTM over trees of any arity, with peepholes."""

from collections.abc import Sequence
from typing import Any, Self

from dynetjax.builders.base import unsigned
from dynetjax.builders.placed_tree_lstm import PlacedTreeLSTM, PlacedWeights
from dynetjax.builders.whole import whole
from dynetjax.core.dims import Dim, Shape
from dynetjax.core.errors import error_text
from dynetjax.core.lazy import jnp
from dynetjax.core.registry import Op
from dynetjax.graph import current_graph
from dynetjax.model.collection import ParameterCollection
from dynetjax.model.initializers import GlorotInitializer
from dynetjax.model.lookup import LookupParameters
from dynetjax.ops.shaping import concatenate


class NaryTreeLSTMBuilder(PlacedTreeLSTM):
    """LSTM over trees with matrices for each of N places among the children.

    For a node with input x and children 1..n, with e(j) = min(j, N), so that all
    children from the N-th on share the last place:

        i   = sigmoid(W_i x + sum_j (U_i[e(j)] h_j + V_i[e(j)] c_j) + b_i)
        f_k = sigmoid(W_f x + sum_j (U_f[e(j),e(k)] h_j + V_f[e(j),e(k)] c_j) + b_f + 1)
        o   = sigmoid(W_o x + sum_j (U_o[e(j)] h_j + V_o[e(j)] c_j) + b_o)
        u   = tanh(W_c x + sum_j U_c[e(j)] h_j + b_c)
        c   = i * u + sum_k f_k * c_k;  h = o * tanh(c)

    It is not quite that of Tai et al., which BinaryTreeLSTMBuilder is: the cells of the
    children go into the gates.

    Per layer, in the order of `get_parameters` (H hidden, I input size):
        W_i {H,I}  U_i N x {H,H}    V_i N x {H,H}    b_i {H}
        W_f {H,I}  U_f N^2 x {H,H}  V_f N^2 x {H,H}  b_f {H}
        W_o {H,I}  U_o N x {H,H}    V_o N x {H,H}    b_o {H}
        W_c {H,I}  U_c N x {H,H}    b_c {H}
    U and V are lookup parameters; row ``j N + k``, both from 0, of U_f and V_f goes
    from child j to the forget gate of child k. Matrices start as GlorotInitializer
    leaves them, those of tables one by one; biases at zero. The 1 of the forget gates
    is not stored.

    The tables are used whole: their gradients are dense, and an update changes rows of
    places that no node of the graph had, too, where its rule does so without a
    gradient (momentum).

    Args:
        N: how many places.
        layers: how many LSTMs on top of one another; the next reads h of the same node.
        input_dim: size I of the input.
        hidden_dim: size H of the output of every layer.
        model: gets a sub-collection ``nary-tree-lstm-builder`` with the parameters.
    Raises:
        OverflowError: a size is negative.
        TypeError: `model` is no ParameterCollection.
        ValueError: `N` or `layers` is 0.
    Source: clab/dynet, ``dynet/treelstm.cc``.
    Examples:
        >>> m = dy.ParameterCollection()
        >>> E = m.add_lookup_parameters((9, 4))
        >>> trees = dy.NaryTreeLSTMBuilder(2, 1, 4, 5, m)
        >>> she, him = trees.add_input(E[1]), trees.add_input(E[4])
        >>> saw = trees.add_input(E[3], she, him)
        >>> print(saw.output().dim(), saw.children() == (she, him))
        ((5,), 1) True
    """

    collection_name = "nary-tree-lstm-builder"
    forget_bias: float = 1.0
    peepholes = True

    def __init__(
        self,
        N: int,
        layers: int,
        input_dim: int,
        hidden_dim: int,
        model: ParameterCollection,
    ):
        self.N = unsigned(self.whoami(), "N", N)
        if not self.N:
            raise ValueError(
                error_text(
                    f"{self.whoami()}: N is 0",
                    got=N,
                    expected="1 or more",
                    fix="N is the number of places that children have",
                )
            )
        super().__init__(layers, input_dim, hidden_dim, model)

    @property
    def spec(self) -> tuple[Any, ...]:
        return (self.N, *super().spec)

    @classmethod
    def from_spec(cls, spec: Sequence[Any], model: ParameterCollection) -> Self:
        N, layers, input_dim, hidden_dim = spec
        return cls(N, layers, input_dim, hidden_dim, model)

    def _add_layer(self, input_size: int) -> list[Any]:
        H, N = self.hidden_dim, self.N
        own, glorot = self._collection, GlorotInitializer(is_lookup=True)

        def gate(*rows: int) -> list[Any]:
            W = own.add_parameters((H, input_size))
            tables = [own.add_lookup_parameters((n, H, H), glorot) for n in rows]
            return [W, *tables, own.add_parameters((H,), 0)]

        return [*gate(N, N), *gate(N * N, N * N), *gate(N, N), *gate(N)]

    def _weights(self, layer: int, update: bool) -> PlacedWeights:
        W_i, U_i, V_i, b_i, W_f, U_f, V_f, b_f, W_o, U_o, V_o, b_o, W_c, U_c, b_c = [
            whole(p, update) if isinstance(p, LookupParameters) else p.expr(update)
            for p in self._parameters[layer]
        ]
        tables = U_i, V_i, U_f, V_f, U_o, V_o, U_c
        return PlacedWeights(
            concatenate([W_i, *[W_f] * self.N, W_o, W_c]),
            current_graph().add(OF_CHILDREN, tables),
            (b_i, b_f, b_o, b_c),
        )


def _block_dim(name: str, *tables: Dim) -> Shape:
    del name
    N, H, _ = tables[0].shape
    return ((3 + N) * H, 2 * N * H)


def _of_children(U_i, V_i, U_f, V_f, U_o, V_o, U_c):
    """All matrices of the children, as one."""
    N, H, _ = U_i.shape

    def gate(tables):  # [N,H,H], by child -> {H,NH}
        return jnp.moveaxis(tables, 0, 1).reshape(H, N * H)

    def forget(tables):  # [N*N,H,H], by child and gate -> {NH,NH}
        by_both = tables.reshape(N, N, H, H)
        return jnp.transpose(by_both, (1, 2, 0, 3)).reshape(N * H, N * H)

    of_h = jnp.concatenate([gate(U_i), forget(U_f), gate(U_o), gate(U_c)])
    of_c = jnp.concatenate([gate(V_i), forget(V_f), gate(V_o), jnp.zeros((H, N * H))])
    return jnp.concatenate([of_h, of_c], axis=1)


OF_CHILDREN = Op("tree_weights", _of_children, _block_dim, internal=True)
