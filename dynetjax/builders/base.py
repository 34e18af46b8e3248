"""RNNBuilder: what every recurrent builder does around its cell.

What a builder knows of the current graph (its parameters there, the first state,
dropout masks) is a `Session`: one per graph, gone after ``renew_cg()``. Graphs
belong to threads, so several threads may use one builder.
"""

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from dynetjax.builders.rnn_state import RNNState, Vectors, require_operand, stale_state
from dynetjax.core.dims import DimError, trim
from dynetjax.core.errors import error_text
from dynetjax.core.expression import Expression
from dynetjax.core.other_names import KnowsKeywords
from dynetjax.core.reprs import attributes, call_text
from dynetjax.graph import current_graph
from dynetjax.model.collection import ParameterCollection
from dynetjax.model.parameters import Parameters
from dynetjax.model.unique import Whole
from dynetjax.ops.arguments import number
from dynetjax.ops.inputs import inputTensor

Masks = list[tuple[Expression | None, ...]]


class Session:
    """A builder in one graph.

    Attributes:
        root: the state before any input.
        masks: dropout masks by batch size; per layer one for each rate.
    """

    def __init__(self, builder: "RNNBuilder", update: bool):
        self._builder, self._update = builder, update
        self.root: RNNState = RNNState(builder, (), None, None)
        self.masks: dict[int, Masks] = {}

    @cached_property
    def shown(self) -> list[Vectors]:
        """Per layer, what `get_parameter_expressions` shows."""
        return self._builder._expressions(self._update)

    @cached_property
    def layers(self) -> list[Vectors]:
        """Per layer, what a step computes with."""
        return self._builder._prepared(self.shown, self._update)

    def revert(self) -> None:
        """Forget what was cut from the graph."""
        self.masks = {
            size: masks for size, masks in self.masks.items() if not _are_cut(masks)
        }
        for name in "shown", "layers":
            if _are_cut(self.__dict__.get(name, ())):
                del self.__dict__[name]


def _are_cut(layers: Iterable[tuple[Expression | None, ...]]) -> bool:
    """Whether any node is there no more."""
    return not all(e.is_live for layer in layers for e in layer if e is not None)


class RNNBuilder(KnowsKeywords, Whole):
    """A recurrent network of one or more layers; use one of the subclasses.

    Layer 1 reads the input, every other layer the output of the one below.
    """

    collection_name: ClassVar[str]

    def __init__(
        self, layers: int, input_dim: int, hidden_dim: int, model: ParameterCollection
    ):
        if not isinstance(model, ParameterCollection):
            raise TypeError(
                error_text(
                    f"{self.whoami()}: model is no collection",
                    got=f"{model!r} ({type(model).__name__})",
                    expected="a ParameterCollection",
                    fix="pass dy.ParameterCollection()",
                )
            )
        self.layers: int = unsigned(self.whoami(), "layers", layers)
        self.input_dim: int = unsigned(self.whoami(), "input_dim", input_dim)
        self.hidden_dim: int = unsigned(self.whoami(), "hidden_dim", hidden_dim)
        self._collection = model.add_subcollection(self.collection_name)
        self._parameters: list[list[Parameters]] = []
        for layer in range(self.layers):
            self._parameters.append(self._add_layer(self._input_size(layer)))

    @abstractmethod
    def _add_layer(self, input_size: int) -> list[Parameters]:
        """Make the parameters of one layer, in the order of `get_parameters`."""

    @abstractmethod
    def advance(self, vectors: Vectors, x: Expression) -> Vectors:
        """The vectors of the state after reading `x`; none stand for no state."""

    def advance_all(self, vectors: Vectors, xs: list[Expression]) -> list[Vectors]:
        """The same after each of `xs`."""
        states = []
        for x in xs:
            vectors = self.advance(vectors, x)
            states.append(vectors)
        return states

    def advance_with(self, vectors: Vectors, x: Expression, aux: Expression) -> Vectors:
        """The same where every layer reads `aux`, too."""
        raise ValueError(
            error_text(
                "add_auxiliary_input: the builder has no weights for it",
                got=self.whoami(),
                expected="a SimpleRNNBuilder that supports lags",
                fix="build it with support_lags=True, or concatenate aux to the input",
            )
        )

    def shown(self, vectors: Vectors) -> Expression:
        """The output of a state that has read an input."""
        return vectors[-1]

    @abstractmethod
    def outputs(self, vectors: Vectors) -> Vectors:
        """Those of the vectors that are outputs of layers."""

    @abstractmethod
    def with_outputs(self, vectors: Vectors, given: Vectors) -> Vectors:
        """The vectors with other outputs."""

    @abstractmethod
    def with_state(self, vectors: Vectors, given: Vectors) -> Vectors:
        """The vectors that `RNNState.set_s` asks for."""

    def misfit(
        self,
        vectors: Vectors,
        xs: Vectors,
        error: DimError,
        aux: Expression | None = None,
    ) -> DimError:
        """The error for a step whose operands do not fit, in words of the builder.

        Args:
            vectors: of the state that was to read.
            xs: the inputs.
            error: of the operation that has failed.
            aux: what every layer was to read, too.
        """
        for x in xs:
            if x.full_dim.shape[0] != self.input_dim:
                return self._wrong_size("the input", x, "input_dim", self.input_dim)
        others = {f"vector {k} of the state": v for k, v in enumerate(vectors)}
        if aux is not None:
            others["aux"] = aux
        for what, vector in others.items():
            if vector.full_dim.shape[0] != self.hidden_dim:
                return self._wrong_size(what, vector, "hidden_dim", self.hidden_dim)
        return DimError(f"{self.whoami()}: {error}")

    def _wrong_size(self, what: str, x: Expression, name: str, size: int) -> DimError:
        rows = x.full_dim.shape[0]
        numbers = f"{rows} number" if rows == 1 else f"{rows} numbers"
        return DimError(
            error_text(
                f"{self.whoami()}: {what} has {numbers}, {name} is {size}",
                got=x.full_dim,
                expected=f"{{{size}}}, a batch of it, or such columns",
                fix=f"build it with {name}={rows}, or change what it is given",
            )
        )

    @property
    def spec(self) -> tuple[Any, ...]:
        """The arguments of the constructor, without the model."""
        return self.layers, self.input_dim, self.hidden_dim

    @classmethod
    def from_spec(cls, spec: Sequence[Any], model: ParameterCollection) -> Self:
        """A new builder with the `spec` of another one."""
        layers, input_dim, hidden_dim, *others = spec
        return cls(layers, input_dim, hidden_dim, model, *others)

    def __repr__(self) -> str:
        return call_text(self, attributes(self, "layers", "input_dim", "hidden_dim"))

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
        if not self.layers:
            raise self._no_layers("get_parameter_expressions")
        return [list(layer) for layer in session.shown]

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
        self, vecs: Iterable[np.ndarray | list[Any]], update: bool = True
    ) -> RNNState:
        """As `initial_state`, from arrays or lists of numbers."""
        return self.initial_state([inputTensor(v) for v in vecs], update)

    @abstractmethod
    def set_dropout(self, p: float) -> None:
        """Drop with probability `p`; what, and when it is drawn, each builder says."""

    @abstractmethod
    def disable_dropout(self) -> None:
        """Drop nothing."""

    def _expressions(self, update: bool) -> list[Vectors]:
        """The parameters of each layer in the current graph, as users may have them."""
        return [tuple(p.expr(update) for p in layer) for layer in self._parameters]

    def _prepared(self, layers: list[Vectors], update: bool) -> list[Vectors]:
        """The same as a step computes with them."""
        del update
        return layers

    def _session(self, name: str) -> Session:
        session = current_graph().sessions.get(self)
        if session is None:
            raise stale_state(name)
        return session

    def _input_size(self, layer: int) -> int:
        return self.hidden_dim if layer else self.input_dim

    def _accept(self, x: Any, name: str = "add_input") -> tuple[Session, Masks | None]:
        """What a step that reads `x` needs: the session, and masks if any rate is."""
        return self._session_for(x, name), None

    def _session_for(self, x: Any, name: str) -> Session:
        """The session in the graph of `x`, if a step can read that."""
        try:
            if self.layers:
                return x.graph.sessions[self]
        except (AttributeError, KeyError):
            pass
        require_operand(name, x)
        session = self._session(name)
        if not self.layers:
            raise self._no_layers(name)
        return session

    def _no_layers(self, name: str) -> ValueError:
        return ValueError(
            error_text(
                f"{name}: the builder has no layers",
                got="layers=0",
                expected="at least one layer",
                fix="build it with more layers",
            )
        )

    def _nothing(self, x: Expression) -> Expression:
        """The vector of zeros that the first step for `x` goes on from."""
        _, *columns = x.signature.kind.shape
        shape = trim((self.hidden_dim, *columns))
        return current_graph().zeros(shape, max(1, x.lanes))

    def _zeros(self) -> Vectors:
        zeros = np.zeros(self.hidden_dim, np.float32)
        return tuple(inputTensor(zeros) for _ in range(self.layers))

    def _require_count(
        self, name: str, given: Vectors, counts: tuple[int, ...], fix: str
    ) -> None:
        if len(given) not in counts or not given:
            expected = " or ".join(str(n) for n in counts)
            raise ValueError(
                error_text(
                    f"{self.whoami()}.{name}: the number of vectors does not fit",
                    got=len(given),
                    expected=f"{expected}, for {self.layers} layers",
                    fix=fix,
                )
            )


def unsigned(owner: str, name: str, value: Any) -> int:
    """A size as an int, if it is not negative; fractions are cut off."""
    size = int(number(owner, name, value))
    if size < 0:
        raise OverflowError(
            error_text(
                f"{owner}: {name} is negative",
                got=value,
                expected="0 or more",
                fix=f"check {name}",
            )
        )
    return size
