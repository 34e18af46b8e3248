"""The gated recurrent unit."""

from dynetjax.builders.base import Masks
from dynetjax.builders.output_family import OutputFamily
from dynetjax.builders.rnn_state import Vectors
from dynetjax.core.expression import Expression
from dynetjax.model.parameters import Parameters
from dynetjax.ops.gates import gru_gates, gru_output, reset, stacked
from dynetjax.ops.linear import affine_transform
from dynetjax.ops.noise import dropout, rate


class GRUBuilder(OutputFamily):
    """The gated recurrent unit of Cho et al. (arxiv.org/abs/1406.1078).

        z = sigmoid(W_zx x + W_zh h' + b_z)
        r = sigmoid(W_rx x + W_rh h' + b_r)
        u = tanh(W_hx x + W_hh (r * h') + b_h)
        h = (1 - z) * h' + z * u

    Per layer, in the order of `get_parameters` (H hidden, I input size):
        W_zx {H,I}  W_zh {H,H}  b_z {H}
        W_rx {H,I}  W_rh {H,H}  b_r {H}
        W_hx {H,I}  W_hh {H,H}  b_h {H}
    Matrices start as GlorotInitializer leaves them, biases at zero.

    Args:
        layers: how many units on top of one another.
        input_dim: size I of the input.
        hidden_dim: size H of the output of every layer.
        model: gets a sub-collection ``gru-builder`` with the parameters.
    Raises:
        OverflowError: a size is negative.
        TypeError: `model` is no ParameterCollection.
    Source: clab/dynet, ``dynet/gru.cc``.
    Examples:
        >>> m = dy.ParameterCollection()
        >>> E, gru = m.add_lookup_parameters((50, 4)), dy.GRUBuilder(2, 4, 8, m)
        >>> for sentence in [3, 1, 4], [1, 5]:
        ...     outputs = gru.initial_state().transduce([E[word] for word in sentence])
        ...     print(len(outputs), outputs[-1].dim())
        3 ((8,), 1)
        2 ((8,), 1)
    """

    collection_name = "gru-builder"
    _rate = 0.0

    def _add_layer(self, input_size: int) -> list[Parameters]:
        size, add = self.hidden_dim, self._collection.add_parameters
        dims = [(size, input_size), (size, size), (size,)] * 3
        return [add(dim, 0 if len(dim) == 1 else None) for dim in dims]

    def set_dropout(self, p: float) -> None:
        """Drop the inputs of all layers, and the output, with probability `p`.

        Other builders keep a mask for a whole graph; this one draws at every step, and
        never drops h'. `output` and `transduce` give the top layer's output under a
        mask, `h` and `s` as it is.

        Raises:
            ValueError: `p` is not in [0, 1).
        """
        self._rate = rate("set_dropout", p)

    def disable_dropout(self) -> None:
        self._rate = 0.0

    def shown(self, vectors: Vectors) -> Expression:
        return dropout(vectors[-1], self._rate) if self._rate else vectors[-1]

    def _prepared(self, layers: list[Vectors], update: bool) -> list[Vectors]:
        return [(*(stacked(p[k], p[3 + k]) for k in range(3)), *p[6:]) for p in layers]

    def _step(
        self,
        layer: int,
        parameters: Vectors,
        masks: Masks | None,
        x: Expression,
        previous: Expression | None,
    ) -> Expression:
        W_x, W_h, b, W_hx, W_hh, b_h = parameters
        if self._rate:
            x = dropout(x, self._rate)
        h = self._nothing(x) if previous is None else previous
        gates = gru_gates(affine_transform([b, W_x, x, W_h, h]))
        u = affine_transform([b_h, W_hx, x, W_hh, reset(gates, h)])
        return gru_output(gates, u, h)
