"""The standard LSTM."""

from typing import Any

from dynetjax.builders.base import Masks
from dynetjax.builders.lstm_family import LSTMFamily
from dynetjax.builders.masks import MaskedBuilder
from dynetjax.builders.rnn_state import Vectors
from dynetjax.core.expression import Expression
from dynetjax.model.collection import ParameterCollection
from dynetjax.model.parameters import Parameters
from dynetjax.ops.arithmetic import cdiv, cmult
from dynetjax.ops.gates import activation, gated_output, lstm_cell
from dynetjax.ops.moments import mean_elems, std_elems
from dynetjax.ops.noise import rate
from dynetjax.ops.steps import LSTMCell, vanilla


class VanillaLSTMBuilder(MaskedBuilder, LSTMFamily):
    """LSTM with separate input and forget gates and no peepholes.

        i = sigmoid(W_ix x + W_ih h' + b_i)     o = sigmoid(W_ox x + W_oh h' + b_o)
        f = sigmoid(W_fx x + W_fh h' + b_f + forget_bias)
        g = tanh(W_gx x + W_gh h' + b_g)        c = f * c' + i * g;  h = o * tanh(c)

    Per layer, gates stacked in the order i, f, o, g (H hidden, I input size):
        W_x {4H,I} Glorot    W_h {4H,H} Glorot    b {4H} zero

    With `ln_lstm` each product and the cell are layer-normalised (Ba et al.,
    arxiv.org/abs/1607.06450), with mean and deviation of all elements of a:

        LN(a; gain, bias) = gain * (a - mean(a)) / (std(a) + 1e-8) + bias
        z = b + LN(W_x x; gain_x, bias_x) + LN(W_h h'; gain_h, bias_h)
        h = o * tanh(LN(c; gain_c, bias_c))

    Their parameters, gain_h {4H} one, bias_h {4H} zero, gain_x, bias_x likewise,
    gain_c {H} one, bias_c {H} zero, follow those of each layer and belong to `model`
    itself, not to the sub-collection, as in DyNet.

    Args:
        layers: how many LSTMs on top of one another.
        input_dim: size I of the input.
        hidden_dim: size H of the output of every layer.
        model: gets a sub-collection ``vanilla-lstm-builder`` with the parameters.
        ln_lstm: normalise as above.
        forget_bias: added to what the forget gate reads; never stored in b.
    Raises:
        OverflowError: a size is negative.
        TypeError: `model` is no ParameterCollection.
    Source: clab/dynet, ``dynet/lstm.cc``.
    Examples:
        >>> m = dy.ParameterCollection()
        >>> lstm = dy.VanillaLSTMBuilder(2, 4, 8, m)
        >>> state = lstm.initial_state()
        >>> for word in np.eye(4):
        ...     state = state.add_input(dy.inputVector(word))
        >>> print(state.output().dim(), len(state.s()), len(state.h()))
        ((8,), 1) 4 2
        >>> print([p.shape() for p in lstm.get_parameters()[0]])
        [(32, 4), (32, 8), (32,)]
    """

    collection_name = "vanilla-lstm-builder"
    forget_bias: float
    ln_lstm: bool

    def __init__(
        self,
        layers: int,
        input_dim: int,
        hidden_dim: int,
        model: ParameterCollection,
        ln_lstm: bool = False,
        forget_bias: float = 1.0,
    ):
        self.ln_lstm, self.forget_bias = bool(ln_lstm), float(forget_bias)
        self._model = model
        self._norms: list[list[Parameters]] = []
        super().__init__(layers, input_dim, hidden_dim, model)

    @property
    def spec(self) -> tuple[Any, ...]:
        return (*super().spec, self.ln_lstm, self.forget_bias)

    def _add_layer(self, input_size: int) -> list[Parameters]:
        size, add = self.hidden_dim, self._collection.add_parameters
        dims = (4 * size, input_size), (4 * size, size)
        parameters = [*map(add, dims), add((4 * size,), 0)]
        self._add_norms()
        return parameters

    def _add_norms(self) -> None:
        """Make the gains and biases of a layer, if it is normalised."""
        if self.ln_lstm:
            size, add = self.hidden_dim, self._model.add_parameters
            sizes = 4 * size, 4 * size, size
            self._norms.append([add((n,), v) for n in sizes for v in (1, 0)])

    def all_parameters(self) -> list[list[Parameters]]:
        if not self.ln_lstm:
            return self._parameters
        return [a + b for a, b in zip(self._parameters, self._norms, strict=True)]

    def _prepared(self, layers: list[Vectors], update: bool) -> list[Vectors]:
        if not self.ln_lstm:
            return layers
        norms = [tuple(p.expr(update) for p in layer) for layer in self._norms]
        return [a + b for a, b in zip(layers, norms, strict=True)]

    def set_dropouts(self, d: float, d_r: float) -> None:
        """Set the dropout rates one by one.

        Args:
            d: of the input of each layer.
            d_r: of the output of the step before, where the gates read it.
        Raises:
            ValueError: a rate is not in [0, 1).
        """
        self._rates = rate("set_dropouts", d), rate("set_dropouts", d_r)

    def _kind(self) -> LSTMCell | None:
        plain = not self.ln_lstm and not any(self._rates)
        return vanilla(self.forget_bias) if plain else None

    def _step(
        self,
        layer: int,
        parameters: Vectors,
        masks: Masks | None,
        x: Expression,
        previous: Vectors | None,
    ) -> tuple[Expression, Expression]:
        if masks:
            x = self._drop(masks, layer, 0, x)
        old_c, old_h = previous or [self._nothing(x)] * 2
        if masks and previous:
            old_h = self._drop(masks, layer, 1, old_h)
        if self.ln_lstm:
            before = old_h if previous else None
            return self._normalised(parameters, x, before, old_c)
        return vanilla(self.forget_bias).step(*parameters, x, old_h, old_c)

    def _normalised(
        self, parameters: Vectors, x: Expression, h: Expression | None, c: Expression
    ) -> tuple[Expression, Expression]:
        W_x, W_h, b, gain_h, bias_h, gain_x, bias_x, gain_c, bias_c = parameters
        z = b + _layer_norm(W_x * x, gain_x, bias_x)
        if h is not None:
            z += _layer_norm(W_h * h, gain_h, bias_h)
        gates = activation(self.forget_bias)(z)
        c = lstm_cell(gates, c)
        return c, gated_output(gates, _layer_norm(c, gain_c, bias_c))


def _layer_norm(a: Expression, gain: Expression, bias: Expression) -> Expression:
    return cmult(gain, cdiv(a - mean_elems(a), std_elems(a) + 1e-8)) + bias
