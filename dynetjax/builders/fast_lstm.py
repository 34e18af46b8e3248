"""The LSTM with coupled gates and no peepholes."""

import warnings

from dynetjax.builders.base import Masks
from dynetjax.builders.coupled_lstm import stacked_gates
from dynetjax.builders.lstm_family import LSTMFamily
from dynetjax.builders.rnn_state import Vectors
from dynetjax.core.errors import error_text
from dynetjax.core.expression import Expression
from dynetjax.model.parameters import Parameters
from dynetjax.ops.noise import rate
from dynetjax.ops.steps import COUPLED, LSTMCell


class FastLSTMBuilder(LSTMFamily):
    """LSTM whose forget gate is 1 - i, without peepholes.

        i = sigmoid(W_ix x + W_ih h' + b_i)
        o = sigmoid(W_ox x + W_oh h' + b_o)
        g = tanh(W_cx x + W_ch h' + b_c)
        c = c' + i * (g - c')                         that is, (1 - i) * c' + i * g
        h = o * tanh(c)

    Per layer, in the order of `get_parameters` (H hidden, I input size):
        W_ix {H,I}  W_ih {H,H}  W_ic {H,1}  b_i {H}
        W_ox {H,I}  W_oh {H,H}  W_oc {H,1}  b_o {H}
        W_cx {H,I}  W_ch {H,H}  b_c {H}
    Matrices start as GlorotInitializer leaves them, biases at zero. W_ic and W_oc were
    to be peepholes; DyNet has them and does not use them, so its models load here.

    There is no dropout, as in DyNet, where a rate has no effect.

    Args:
        layers: how many LSTMs on top of one another.
        input_dim: size I of the input.
        hidden_dim: size H of the output of every layer.
        model: gets a sub-collection ``fast-lstm-builder`` with the parameters.
    Raises:
        OverflowError: a size is negative.
        TypeError: `model` is no ParameterCollection.
    Source: clab/dynet, ``dynet/fast-lstm.cc``.
    Examples:
        >>> m = dy.ParameterCollection()
        >>> E, lstm = m.add_lookup_parameters((50, 4)), dy.FastLSTMBuilder(1, 4, 8, m)
        >>> batches = [E.batch([7, 1, 2]), E.batch([9, 5, 2])]  # three sentences
        >>> first, last = lstm.initial_state().transduce(batches)
        >>> print(last.dim(), dy.sum_batches(dy.squared_norm(last)).dim())
        ((8,), 3) ((1,), 1)
    """

    collection_name = "fast-lstm-builder"

    def _add_layer(self, input_size: int) -> list[Parameters]:
        size, add = self.hidden_dim, self._collection.add_parameters
        shapes = (size, input_size), (size, size), (size, 1)
        with_peephole = [*shapes, (size,)] * 2
        dims = [*with_peephole, *shapes[:2], (size,)]
        return [add(dim, 0 if len(dim) == 1 else None) for dim in dims]

    def set_dropout(self, p: float) -> None:
        """Has no effect.

        Raises:
            ValueError: `p` is not in [0, 1).
        Warns:
            RuntimeWarning: `p` is more than 0.
        """
        if rate("set_dropout", p):
            warnings.warn(
                error_text(
                    "set_dropout: a FastLSTMBuilder drops nothing",
                    got=p,
                    expected="0, or another builder",
                    fix="use CoupledLSTMBuilder, or drop inputs and outputs yourself",
                ),
                RuntimeWarning,
                stacklevel=2,
            )

    def disable_dropout(self) -> None:
        """Nothing is dropped in any case."""

    def _prepared(self, layers: list[Vectors], update: bool) -> list[Vectors]:
        return [stacked_gates(p) for p in layers]

    def _kind(self) -> LSTMCell:
        return COUPLED

    def _step(
        self,
        layer: int,
        parameters: Vectors,
        masks: Masks | None,
        x: Expression,
        previous: tuple[Expression, ...] | None,
    ) -> tuple[Expression, Expression]:
        c, h = previous or [self._nothing(x)] * 2
        return COUPLED.step(*parameters, x, h, c)
