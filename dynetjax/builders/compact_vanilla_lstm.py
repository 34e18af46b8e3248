"""The standard LSTM with noise on its weights."""

from dynetjax.builders.base import Masks
from dynetjax.builders.lstm_family import LSTMFamily
from dynetjax.builders.masks import MaskedBuilder
from dynetjax.builders.rnn_state import Vectors
from dynetjax.core.expression import Expression
from dynetjax.model.parameters import Parameters
from dynetjax.ops.arguments import number_from
from dynetjax.ops.noise import noise, rate
from dynetjax.ops.steps import LSTMCell, vanilla


class CompactVanillaLSTMBuilder(MaskedBuilder, LSTMFamily):
    """VanillaLSTMBuilder without its options, and with noise on the weights.

        i = sigmoid(W_ix x + W_ih h' + b_i)     o = sigmoid(W_ox x + W_oh h' + b_o)
        f = sigmoid(W_fx x + W_fh h' + b_f + 1)
        g = tanh(W_gx x + W_gh h' + b_g)        c = f * c' + i * g;  h = o * tanh(c)

    Per layer, gates stacked in the order i, f, o, g (H hidden, I input size):
        W_x {4H,I} Glorot    W_h {4H,H} Glorot    b {4H} zero

    DyNet's takes less memory than its VanillaLSTMBuilder; here both are the same
    nodes, and inputs of all batch sizes and matrices may be mixed.

    Args:
        layers: how many LSTMs on top of one another.
        input_dim: size I of the input.
        hidden_dim: size H of the output of every layer.
        model: gets a sub-collection ``compact-vanilla-lstm-builder``.
    Raises:
        OverflowError: a size is negative.
        TypeError: `model` is no ParameterCollection.
    Source: clab/dynet, ``dynet/lstm.cc``.
    Examples:
        >>> lstm = dy.CompactVanillaLSTMBuilder(1, 2, 3, dy.ParameterCollection())
        >>> lstm.set_weightnoise(0.1)
        >>> x = dy.inputVector([1, 2])
        >>> one, other = [lstm.initial_state().add_input(x).output() for _ in "ab"]
        >>> print(one.dim(), np.allclose(one.npvalue(), other.npvalue()))
        ((3,), 1) False
    """

    collection_name = "compact-vanilla-lstm-builder"
    _deviation = 0.0

    def _add_layer(self, input_size: int) -> list[Parameters]:
        size, add = self.hidden_dim, self._collection.add_parameters
        dims = (4 * size, input_size), (4 * size, size)
        return [*map(add, dims), add((4 * size,), 0)]

    def set_dropouts(self, d: float, d_r: float) -> None:
        """Set the dropout rates one by one.

        Args:
            d: of the input of each layer.
            d_r: of the output of the step before, where the gates read it.
        Raises:
            ValueError: a rate is not in [0, 1).
        """
        self._rates = rate("set_dropouts", d), rate("set_dropouts", d_r)

    def set_weightnoise(self, std: float) -> None:
        """Add normal noise to W_x, W_h and b, drawn anew at every step.

        The elements of a batch read the same noisy weights; the parameters stay as
        they are. (In DyNet 2.1 a step with noise leaves out W_x x and W_h h'.)

        Args:
            std: the standard deviation; 0 for none.
        Raises:
            TypeError: `std` is not a number.
            ValueError: it is negative.
        """
        self._deviation = number_from("set_weightnoise", "std", std, 0)

    def _kind(self) -> LSTMCell | None:
        plain = not self._deviation and not any(self._rates)
        return vanilla(1.0) if plain else None

    def _step(
        self,
        layer: int,
        parameters: Vectors,
        masks: Masks | None,
        x: Expression,
        previous: tuple[Expression, ...] | None,
    ) -> tuple[Expression, Expression]:
        if masks:
            x = self._drop(masks, layer, 0, x)
        c, h = previous or [self._nothing(x)] * 2
        if masks and previous:
            h = self._drop(masks, layer, 1, h)
        if self._deviation:
            parameters = tuple(noise(p, self._deviation) for p in parameters)
        return vanilla(1.0).step(*parameters, x, h, c)
