"""The LSTM with coupled input and forget gates."""

from dynetjax.builders.base import Masks
from dynetjax.builders.lstm_family import LSTMFamily
from dynetjax.builders.masks import MaskedBuilder
from dynetjax.builders.rnn_state import Vectors
from dynetjax.core.expression import Expression
from dynetjax.model.parameters import Parameters
from dynetjax.ops.gates import (
    coupled_cell,
    coupled_input,
    coupled_output,
    output_gate,
    stacked,
)
from dynetjax.ops.linear import affine_transform
from dynetjax.ops.noise import rate


def stacked_gates(parameters: Vectors) -> Vectors:
    """``W_x, W_h, b`` of the gates i, g, o; `parameters` has those of i, o, g."""
    i, o, g = parameters[:4], parameters[4:8], parameters[8:]
    return tuple(stacked(i[k], g[k], o[k]) for k in (0, 1, -1))


class CoupledLSTMBuilder(MaskedBuilder, LSTMFamily):
    """LSTM whose forget gate is 1 - i, with full peephole matrices.

        i = sigmoid(W_ix x + W_ih h' + W_ic c' + b_i)
        g = tanh(W_cx x + W_ch h' + b_c)
        c = c' + i * (g - c')                         that is, (1 - i) * c' + i * g
        o = sigmoid(W_ox x + W_oh h' + W_oc c + b_o)
        h = o * tanh(c)

    Per layer, in the order of `get_parameters` (H hidden, I input size):
        W_ix {H,I}  W_ih {H,H}  W_ic {H,H}  b_i {H}
        W_ox {H,I}  W_oh {H,H}  W_oc {H,H}  b_o {H}
        W_cx {H,I}  W_ch {H,H}  b_c {H}
    Matrices start as GlorotInitializer leaves them, biases at zero; no forget bias is
    added anywhere.

    `LSTMBuilder` is this class, as DyNet's documentation has it. Its Python release
    2.1 made that name an alias of VanillaLSTMBuilder instead.

    Args:
        layers: how many LSTMs on top of one another.
        input_dim: size I of the input.
        hidden_dim: size H of the output of every layer.
        model: gets a sub-collection ``lstm-builder`` with the parameters.
    Raises:
        OverflowError: a size is negative.
        TypeError: `model` is no ParameterCollection.
    Source: clab/dynet, ``dynet/lstm.cc``.
    Examples:
        >>> m = dy.ParameterCollection()
        >>> lstm = dy.LSTMBuilder(1, 4, 8, m)
        >>> state = lstm.initial_state()
        >>> for _ in range(3):
        ...     state = state.add_input(dy.ones(4))
        >>> cell, output = state.s()
        >>> print(cell.dim(), output is state.output(), m.parameter_count())
        ((8,), 1) True 440
    """

    collection_name = "lstm-builder"
    _rates: tuple[float, ...] = (0.0, 0.0, 0.0)

    def _add_layer(self, input_size: int) -> list[Parameters]:
        size, add = self.hidden_dim, self._collection.add_parameters
        shapes = (size, input_size), (size, size), (size, size)
        with_peephole = [*shapes, (size,)] * 2
        dims = [*with_peephole, *shapes[:2], (size,)]
        return [add(dim, 0 if len(dim) == 1 else None) for dim in dims]

    def set_dropouts(self, d: float, d_r: float, d_c: float | None = None) -> None:
        """Set the dropout rates one by one.

        Args:
            d: of the input of each layer.
            d_r: of the output of the step before, where the gates read it.
            d_c: of the cell, where the peepholes read it; `d_r` if None.
        Raises:
            ValueError: a rate is not in [0, 1).
        """
        rates = d, d_r, d_r if d_c is None else d_c
        self._rates = tuple(rate("set_dropouts", p) for p in rates)

    def _prepared(self, layers: list[Vectors], update: bool) -> list[Vectors]:
        return [(*stacked_gates(p), p[2], p[6]) for p in layers]

    def _step(
        self,
        layer: int,
        parameters: Vectors,
        masks: Masks | None,
        x: Expression,
        previous: Vectors | None,
    ) -> tuple[Expression, Expression]:
        W_x, W_h, b, W_ic, W_oc = parameters
        if masks:
            x = self._drop(masks, layer, 0, x)
        old_c, old_h = read_c, read_h = previous or [self._nothing(x)] * 2
        if masks and previous:
            read_h = self._drop(masks, layer, 1, old_h)
            read_c = self._drop(masks, layer, 2, old_c)
        z = affine_transform([b, W_x, x, W_h, read_h])
        c = coupled_cell(coupled_input(z, W_ic * read_c), old_c)
        read_c = self._drop(masks, layer, 2, c) if masks else c
        return c, coupled_output(output_gate(z, W_oc * read_c), c)


LSTMBuilder = CoupledLSTMBuilder
