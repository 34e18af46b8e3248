"""The simple recurrent network of Elman."""

from collections.abc import Sequence
from typing import Any, Self

from dynetjax.builders.base import Masks
from dynetjax.builders.masks import MaskedBuilder
from dynetjax.builders.output_family import OutputFamily
from dynetjax.builders.rnn_state import Vectors, require_operand
from dynetjax.core.expression import Expression
from dynetjax.model.collection import ParameterCollection
from dynetjax.model.parameters import Parameters
from dynetjax.ops.elementwise import tanh
from dynetjax.ops.linear import affine_transform
from dynetjax.ops.noise import rate


class SimpleRNNBuilder(MaskedBuilder, OutputFamily):
    """The network whose output is its state.

        h = tanh(W_x x + W_h h' + b)

    With `support_lags`, a state has `add_auxiliary_input` beside `add_input`: a step
    in which each layer also reads a vector, say an output of several steps before. Its
    result is a state like all others.

        h = tanh(W_x x + W_h h' + b + W_l aux)

    Per layer, in the order of `get_parameters` (H hidden, I input size):
        W_x {H,I} Glorot    W_h {H,H} Glorot    b {H} zero
        W_l {H,H} Glorot, only with `support_lags`

    Args:
        layers: how many networks on top of one another.
        input_dim: size I of the input.
        hidden_dim: size H of the output of every layer.
        model: gets a sub-collection ``simple-rnn-builder`` with the parameters.
        support_lags: make W_l; DyNet's has it in C++ only.
    Raises:
        OverflowError: a size is negative.
        TypeError: `model` is no ParameterCollection.
    Source: clab/dynet, ``dynet/rnn.cc``.
    Examples:
        >>> rnn = dy.SimpleRNNBuilder(1, 2, 3, dy.ParameterCollection())
        >>> xs = [dy.inputVector([1, 2]), dy.inputVector([3, 4])]
        >>> h1, h2 = rnn.initial_state().transduce(xs)
        >>> W_x, W_h, b = rnn.get_parameters()[0]
        >>> expected = dy.tanh(W_x * xs[1] + W_h * h1 + b)
        >>> print(h2.dim(), np.allclose(h2.npvalue(), expected.npvalue(), atol=1e-5))
        ((3,), 1) True
    """

    collection_name = "simple-rnn-builder"

    def __init__(
        self,
        layers: int,
        input_dim: int,
        hidden_dim: int,
        model: ParameterCollection,
        *,
        support_lags: bool = False,
    ):
        self.support_lags: bool = bool(support_lags)
        super().__init__(layers, input_dim, hidden_dim, model)

    @property
    def spec(self) -> tuple[Any, ...]:
        return (*super().spec, True) if self.support_lags else super().spec

    @classmethod
    def from_spec(cls, spec: Sequence[Any], model: ParameterCollection) -> Self:
        layers, input_dim, hidden_dim, *lags = spec
        return cls(layers, input_dim, hidden_dim, model, support_lags=any(lags))

    def _add_layer(self, input_size: int) -> list[Parameters]:
        size, add = self.hidden_dim, self._collection.add_parameters
        parameters = [add((size, input_size)), add((size, size)), add((size,), 0)]
        if self.support_lags:
            parameters.append(add((size, size)))
        return parameters

    def set_dropouts(self, d: float, d_h: float) -> None:
        """Set the dropout rates one by one.

        Args:
            d: of the input of each layer.
            d_h: of the output of the step before, where W_h is applied to it.
        Raises:
            ValueError: a rate is not in [0, 1).
        """
        self._rates = rate("set_dropouts", d), rate("set_dropouts", d_h)

    def advance_with(self, vectors: Vectors, x: Expression, aux: Expression) -> Vectors:
        if not self.support_lags:
            return super().advance_with(vectors, x, aux)
        session, masks = self._accept(x, "add_auxiliary_input")
        require_operand("add_auxiliary_input", aux)
        outputs = []
        for layer, parameters in enumerate(session.layers):
            previous = vectors[layer] if vectors else None
            x = self._step(layer, parameters, masks, x, previous, aux)
            outputs.append(x)
        return tuple(outputs)

    def _step(
        self,
        layer: int,
        parameters: Vectors,
        masks: Masks | None,
        x: Expression,
        previous: Expression | None,
        aux: Expression | None = None,
    ) -> Expression:
        W_x, W_h, b, *W_l = parameters
        if masks:
            x = self._drop(masks, layer, 0, x)
        h = self._nothing(x) if previous is None else previous
        if masks and previous:
            h = self._drop(masks, layer, 1, h)
        read = [b, W_x, x, W_h, h]
        if aux is not None:
            read += [*W_l, aux]
        return tanh(affine_transform(read))
