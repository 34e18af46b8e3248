"""Networks that read a sequence from both ends."""

from collections.abc import Callable, Sequence
from typing import Any, Self

from dynetjax.builders.base import RNNBuilder, unsigned
from dynetjax.builders.rnn_state import RNNState
from dynetjax.core.dims import DimError
from dynetjax.core.errors import error_text
from dynetjax.core.expression import Expression
from dynetjax.core.other_names import KnowsKeywords
from dynetjax.core.reprs import call_text
from dynetjax.model.collection import ParameterCollection
from dynetjax.model.unique import Whole
from dynetjax.ops.shaping import concatenate

Layers = list[tuple[RNNBuilder, RNNBuilder]]


class BiRNNBuilder(KnowsKeywords, Whole):
    """Layers of two builders each, of which one reads forward and one backward.

    In a layer, both read the whole sequence, and the result at position t is

        [F_t; B_t]      F has read x_0 .. x_t, B has read x_n .. x_t

    which the next layer reads. Every call reads a sequence of its own.

    Each builder has one layer and outputs of ``hidden_dim / 2``; those of the first
    layer read ``input_dim`` numbers, the others ``hidden_dim``. In the sub-collection
    ``birnn``, the forward builder of a layer comes before the backward one.

    Args:
        num_layers: how many layers.
        input_dim: size of the input.
        hidden_dim: size of the output, an even number.
        model: gets a sub-collection ``birnn``.
        rnn_builder_factory: makes a builder of (layers, input size, output size,
            collection): a builder class, or any function.
        builder_layers: the pairs of builders, where they are there already; no other
            argument counts then but `model`.
    Attributes:
        spec: all arguments but `model`.
        model: the sub-collection.
        builder_layers: the pairs of builders, first layer first.
    Raises:
        AssertionError: `num_layers` is not positive, or `hidden_dim` not even.
        TypeError: `model` is no ParameterCollection.
    Source: clab/dynet, ``python/_dynet.pyx``.
    Examples:
        >>> m = dy.ParameterCollection()
        >>> E = m.add_lookup_parameters((50, 4))
        >>> birnn = dy.BiRNNBuilder(1, 4, 6, m, dy.VanillaLSTMBuilder)
        >>> one = birnn.transduce([E[3], E[1], E[4]])
        >>> other = birnn.transduce([E[3], E[1], E[5]])
        >>> same = np.isclose(one[0].npvalue(), other[0].npvalue(), atol=1e-5)
        >>> print(len(one), one[0].dim(), same)
        3 ((6,), 1) [ True  True  True False False False]
    """

    def __init__(
        self,
        num_layers: int,
        input_dim: int,
        hidden_dim: int,
        model: ParameterCollection,
        rnn_builder_factory: Callable[..., Any],
        builder_layers: Layers | None = None,
    ):
        _require_collection(model)
        if builder_layers is None:
            _require_sizes(num_layers, hidden_dim)
        self.spec: tuple[int, int, int, Callable[..., Any], Layers | None] = (
            num_layers,
            input_dim,
            hidden_dim,
            rnn_builder_factory,
            builder_layers,
        )
        self.model: ParameterCollection = model.add_subcollection("birnn")
        self.builder_layers: Layers = builder_layers or []
        if builder_layers is None:
            whole = unsigned("BiRNNBuilder", "hidden_dim", hidden_dim)
            first = unsigned("BiRNNBuilder", "input_dim", input_dim)
            for layer in range(int(num_layers)):
                args = 1, whole if layer else first, whole // 2, self.model
                forward = rnn_builder_factory(*args)
                self.builder_layers.append((forward, rnn_builder_factory(*args)))

    @classmethod
    def from_spec(cls, spec: Sequence[Any], model: ParameterCollection) -> Self:
        """A new builder with the `spec` of another one."""
        num_layers, input_dim, hidden_dim, factory, layers = spec
        return cls(num_layers, input_dim, hidden_dim, model, factory, layers)

    def __repr__(self) -> str:
        pairs = self.builder_layers
        if not pairs:
            return call_text(self, {})
        (below, _), (above, _) = pairs[0], pairs[-1]
        sizes = {
            "num_layers": len(pairs),
            "input_dim": below.input_dim,
            "hidden_dim": 2 * above.hidden_dim,
        }
        return call_text(self, sizes | {"rnn_builder_factory": type(below)})

    def whoami(self) -> str:
        """The name of the class."""
        return type(self).__name__

    def param_collection(self) -> ParameterCollection:
        """The sub-collection; it is `model`, too."""
        return self.model

    def set_dropout(self, p: float) -> None:
        """`set_dropout` of every builder."""
        for builder in self._builders():
            builder.set_dropout(p)

    def disable_dropout(self) -> None:
        """`disable_dropout` of every builder."""
        for builder in self._builders():
            builder.disable_dropout()

    def add_inputs(self, es: Sequence[Expression]) -> list[tuple[RNNState, RNNState]]:
        """The states of the last layer's builders at every position.

        Args:
            es: a sequence of expressions; empty for an empty list.
        Returns:
            pairs: the first state has read all up to the position, the second all
            from the end down to it.
        Raises:
            TypeError: `es` is no sequence.
            ValueError: an expression is stale or of another size.
        """
        backward = _reversed("add_inputs", es)
        try:
            for forward_builder, backward_builder in self.builder_layers[:-1]:
                es = _layer(forward_builder, backward_builder, es, backward)
                backward = es[::-1]
            forward_builder, backward_builder = self.builder_layers[-1]
            ahead = forward_builder.initial_state().add_inputs(es)
            behind = backward_builder.initial_state().add_inputs(backward)
        except DimError as error:
            raise DimError(f"{self.whoami()}: {error}") from None
        return list(zip(ahead, reversed(behind), strict=True))

    def transduce(self, es: Sequence[Expression]) -> list[Expression]:
        """The outputs of the last layer, ``{hidden_dim}``, one per position.

        Raises:
            TypeError: `es` is no sequence.
            ValueError: an expression is stale or of another size.
        """
        try:
            for forward_builder, backward_builder in self.builder_layers:
                backward = _reversed("transduce", es)
                es = _layer(forward_builder, backward_builder, es, backward)
        except DimError as error:
            raise DimError(f"{self.whoami()}: {error}") from None
        return list(es)

    def _builders(self) -> list[RNNBuilder]:
        return [builder for pair in self.builder_layers for builder in pair]


def _layer(
    forward: RNNBuilder,
    backward: RNNBuilder,
    es: Sequence[Expression],
    reversed_es: list[Expression],
) -> list[Expression]:
    ahead = forward.initial_state().transduce(es)
    behind = backward.initial_state().transduce(reversed_es)
    behind.reverse()
    return [concatenate([f, b]) for f, b in zip(ahead, behind, strict=True)]


def _reversed(name: str, es: Any) -> list[Expression]:
    try:
        return list(reversed(es))
    except TypeError:
        raise TypeError(
            error_text(
                f"{name}: what is to be read from both ends is no sequence",
                got=type(es).__name__,
                expected="a list or tuple of expressions",
                fix="list(...)",
            )
        ) from None


def _require_collection(model: Any) -> None:
    if not isinstance(model, ParameterCollection):
        raise TypeError(
            error_text(
                "BiRNNBuilder: model is no collection",
                got=f"{model!r} ({type(model).__name__})",
                expected="a ParameterCollection",
                fix="pass dy.ParameterCollection()",
            )
        )


def _require_sizes(num_layers: Any, hidden_dim: Any) -> None:
    if num_layers <= 0 or hidden_dim % 2:
        raise AssertionError(
            error_text(
                "BiRNNBuilder: the sizes will not do",
                got=f"num_layers={num_layers}, hidden_dim={hidden_dim}",
                expected="at least one layer, and an even hidden_dim",
                fix="each direction gives half of hidden_dim",
            )
        )
