"""RNNBuilder: what every recurrent builder does around its cell.

What a builder knows of the current graph (its parameters there, the first state,
dropout masks) is a `Session`: one per graph, gone after ``renew_cg()``. Graphs
belong to threads, so several threads may use one builder.
"""

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import numpy as np

from dynetjax.builders.state import RNNState, Vectors, require_operand, stale_state
from dynetjax.errors import explain
from dynetjax.expression import Expression
from dynetjax.graph import current_graph
from dynetjax.model.collection import ParameterCollection
from dynetjax.model.parameters import Parameters
from dynetjax.model.unique import Unique
from dynetjax.ops.arithmetic import cmult
from dynetjax.ops.inputs import inputTensor
from dynetjax.ops.noise import dropout, rate

Masks = list[tuple[Expression | None, ...]]


class Session:
    """A builder in one graph.

    Attributes:
        layers: per layer, its parameters as expressions; constant ones where the
            first ``initial_state`` had update=False.
        root: the state before any input.
        masks: dropout masks by batch size; per layer one for each rate.
    """

    def __init__(self, builder: "RNNBuilder", update: bool):
        self.layers = [
            tuple(p.expr(update) for p in layer) for layer in builder.all_parameters()
        ]
        self.root = RNNState(builder, (), None)
        self.masks: dict[int, Masks] = {}

    def revert(self, nodes: int) -> None:
        """Forget masks that were drawn after the first `nodes` nodes of the graph."""
        self.masks = {
            size: masks
            for size, masks in self.masks.items()
            if all(m is None or m.index < nodes for layer in masks for m in layer)
        }


class RNNBuilder(Unique):
    """A recurrent network of one or more layers; use one of the subclasses.

    Layer 1 reads the input, every other layer the output of the one below.
    """

    collection_name: ClassVar[str]
    rate_names: ClassVar[tuple[str, ...]] = ("d", "d_h")

    def __init__(
        self, layers: int, input_dim: int, hidden_dim: int, model: ParameterCollection
    ):
        if not isinstance(model, ParameterCollection):
            raise TypeError(
                explain(
                    f"{self.whoami()}: model is no collection",
                    got=f"{model!r} ({type(model).__name__})",
                    expected="a ParameterCollection",
                    fix="pass dy.ParameterCollection()",
                )
            )
        self.layers = _unsigned(self.whoami(), "layers", layers)
        self.input_dim = _unsigned(self.whoami(), "input_dim", input_dim)
        self.hidden_dim = _unsigned(self.whoami(), "hidden_dim", hidden_dim)
        self._collection = model.add_subcollection(self.collection_name)
        self._rates = [0.0] * len(self.rate_names)
        self._parameters: list[list[Parameters]] = []
        for layer in range(self.layers):
            self._parameters.append(self._add_layer(self._input_size(layer)))

    @abstractmethod
    def _add_layer(self, input_size: int) -> list[Parameters]:
        """Make the parameters of one layer, in the order of `get_parameters`."""

    @abstractmethod
    def advance(self, vectors: Vectors, x: Expression) -> Vectors:
        """The vectors of the state after reading `x`; none stand for no state."""

    @abstractmethod
    def outputs(self, vectors: Vectors) -> Vectors:
        """Those of the vectors that are outputs of layers."""

    @abstractmethod
    def with_outputs(self, vectors: Vectors, given: Vectors) -> Vectors:
        """The vectors with other outputs."""

    @abstractmethod
    def with_state(self, vectors: Vectors, given: Vectors) -> Vectors:
        """The vectors that `RNNState.set_s` asks for."""

    @property
    def spec(self) -> tuple:
        """The arguments of the constructor, without the model."""
        return self.layers, self.input_dim, self.hidden_dim

    @classmethod
    def from_spec(cls, spec: Sequence, model: ParameterCollection) -> "RNNBuilder":
        """A new builder with the `spec` of another one."""
        layers, input_dim, hidden_dim, *others = spec
        return cls(layers, input_dim, hidden_dim, model, *others)

    def whoami(self) -> str:
        """The name of the class."""
        return type(self).__name__

    def param_collection(self) -> ParameterCollection:
        """The builder's own sub-collection."""
        return self._collection

    def get_parameters(self) -> list[list[Parameters]]:
        """The parameters of each layer, bottom first."""
        return [list(layer) for layer in self._parameters]

    def get_parameter_expressions(self) -> list[list[Expression]]:
        """The same as expressions; constant ones under ``update=False``.

        Raises:
            ValueError: `initial_state` was not called in this graph, or there are no
                layers.
        """
        session = self._session("get_parameter_expressions")
        if not session.layers:
            raise ValueError(
                explain(
                    "get_parameter_expressions: the builder has no layers",
                    got="layers=0",
                    expected="at least one layer",
                    fix="build it with more layers",
                )
            )
        counts = [len(layer) for layer in self._parameters]
        return [
            list(layer[:count])
            for layer, count in zip(session.layers, counts, strict=True)
        ]

    def all_parameters(self) -> list[list[Parameters]]:
        """What each layer computes with; `get_parameters` may show fewer."""
        return self._parameters

    def initial_state(
        self, vecs: Iterable[Expression] | None = None, update: bool = True
    ) -> RNNState:
        """The state before any input, or one with the vectors `vecs`.

        Args:
            vecs: what `RNNState.set_s` takes; None for no state at all.
            update: False lets no gradient reach the builder's parameters. Only the
                first call after ``renew_cg()`` counts, as in DyNet.
        Raises:
            ValueError: the number of vectors does not fit, or one is stale.
        """
        sessions = current_graph().sessions
        session = sessions.get(self)
        if session is None:
            session = sessions[self] = Session(self, bool(update))
        return session.root if vecs is None else session.root.set_s(vecs)

    def initial_state_from_raw_vectors(
        self, vecs: Iterable[Any], update: bool = True
    ) -> RNNState:
        """As `initial_state`, from arrays or lists of numbers."""
        return self.initial_state([inputTensor(v) for v in vecs], update)

    def set_dropout(self, p: float) -> None:
        """Drop inputs and recurrent vectors with probability `p`.

        The masks are those of Gal & Ghahramani (arxiv.org/abs/1512.05287): drawn once
        per graph, the same at every step, and other ones for each batch element; what
        stays is divided by 1 - p.

        Raises:
            ValueError: `p` is not in [0, 1).
        """
        self._rates = [rate("set_dropout", p)] * len(self.rate_names)

    def disable_dropout(self) -> None:
        """Drop nothing."""
        self._rates = [0.0] * len(self.rate_names)

    def set_dropout_masks(self, batch_size: int = 1) -> None:
        """Draw new masks, to be used from here on in this graph.

        Args:
            batch_size: 1 to share them among the elements of a batch.
        Raises:
            ValueError: `initial_state` was not called in this graph.
        """
        session = self._session("set_dropout_masks")
        size = _unsigned("set_dropout_masks", "batch_size", batch_size)
        session.masks = {size: self._draw_masks(size)}

    def _session(self, name: str) -> Session:
        session = current_graph().sessions.get(self)
        if session is None:
            raise stale_state(name)
        return session

    def _input_size(self, layer: int) -> int:
        return self.hidden_dim if layer else self.input_dim

    def _accept(self, x: Any) -> tuple[Session, Masks | None]:
        """What `advance` needs to read `x`: the session, and masks if any rate is."""
        require_operand("add_input", x)
        session = self._session("add_input")
        if not self.layers:
            raise ValueError(
                explain(
                    "add_input: the builder has no layers",
                    got="layers=0",
                    expected="at least one layer",
                    fix="build it with more layers",
                )
            )
        if not any(self._rates):
            return session, None
        batch = x.full_dim.batch
        masks = session.masks.get(batch) or session.masks.get(1)
        if masks is None:
            masks = session.masks[batch] = self._draw_masks(batch)
        return session, masks

    def _draw_masks(self, batch: int) -> Masks:
        """One mask per layer and rate: of the layer's input, then of its size."""
        sizes = [
            (self._input_size(layer), *[self.hidden_dim] * (len(self._rates) - 1))
            for layer in range(self.layers)
        ]
        return [
            tuple(map(_draw_mask, of_layer, self._rates, [batch] * len(of_layer)))
            for of_layer in sizes
        ]

    def _drop(
        self, masks: Masks | None, layer: int, which: int, x: Expression
    ) -> Expression:
        """`x` under the mask of rate `which`, if that rate is on."""
        mask = masks[layer][which] if masks and self._rates[which] else None
        return x if mask is None else cmult(x, mask)


def _draw_mask(size: int, p: float, batch: int) -> Expression | None:
    """0 with probability `p`, else 1 / (1 - p); None where nothing is dropped."""
    if not p:
        return None
    return dropout(inputTensor(np.ones((size, batch)), batched=True), p)


def _unsigned(owner: str, name: str, value: Any) -> int:
    number = int(value)
    if number < 0:
        raise OverflowError(
            explain(
                f"{owner}: {name} is negative",
                got=value,
                expected="0 or more",
                fix=f"check {name}",
            )
        )
    return number
