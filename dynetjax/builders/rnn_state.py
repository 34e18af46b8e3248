"""RNNState: a point in a sequence, from which it can be continued, several times."""

from collections.abc import Iterable
from typing import Any, Protocol

from dynetjax.core.dims import DimError
from dynetjax.core.errors import error_text
from dynetjax.core.expression import Expression, stale
from dynetjax.core.reprs import counted
from dynetjax.graph import ComputationGraph, current_graph
from dynetjax.model.unique import Unique

Vectors = tuple[Expression, ...]


class Builder(Protocol):
    """What a state asks of its builder; see `RNNBuilder`."""

    def advance(self, vectors: Vectors, x: Expression) -> Vectors:
        """The vectors of the state after reading `x`; none stand for no state."""

    def advance_all(self, vectors: Vectors, xs: list[Expression]) -> list[Vectors]:
        """The same after each of `xs`."""

    def advance_with(self, vectors: Vectors, x: Expression, aux: Expression) -> Vectors:
        """The same where every layer reads `aux`, too."""

    def shown(self, vectors: Vectors) -> Expression:
        """The output of a state that has read an input."""

    def outputs(self, vectors: Vectors) -> Vectors:
        """Those of the vectors that are outputs of layers."""

    def with_outputs(self, vectors: Vectors, given: Vectors) -> Vectors:
        """The vectors with other outputs."""

    def with_state(self, vectors: Vectors, given: Vectors) -> Vectors:
        """The vectors that `RNNState.set_s` asks for."""

    def misfit(
        self,
        vectors: Vectors,
        xs: Vectors,
        error: DimError,
        aux: Expression | None = None,
    ) -> DimError:
        """What to raise where a step has raised `error`."""


def stale_state(name: str) -> ValueError:
    """The error for what belongs to an earlier graph."""
    return ValueError(
        error_text(
            f"{name}: the state is stale",
            got="a state made before renew_cg()",
            expected="a state of the current graph",
            fix="call initial_state() after renew_cg()",
        )
    )


class RNNState(Unique):
    """What a builder has read so far; made by `initial_state` and `add_input`.

    States do not change: every `add_input` to the same state starts a branch.
    All methods but `output`, `prev` and `b` raise ValueError after ``renew_cg()``.

    Examples:
        >>> lstm = dy.VanillaLSTMBuilder(1, 2, 3, dy.ParameterCollection())
        >>> start = lstm.initial_state()
        >>> state = start.add_input(dy.inputVector([1, 2]))
        >>> one, other = [state.add_input(dy.inputVector(v)) for v in ([3, 4], [5, 6])]
        >>> print(one.prev() is state is other.prev(), start.output())
        True None
        >>> print(one.output().dim(), len(one.s()), one.s()[-1] is one.h()[0])
        ((3,), 1) 2 True
    """

    __slots__ = ("_builder", "_graph", "_output", "_prev", "vectors")

    def __init__(
        self,
        builder: Builder,
        vectors: Vectors,
        prev: "RNNState | None",
        output: Expression | None,
        graph: ComputationGraph | None = None,
    ):
        self._builder = builder
        self._prev = prev
        self._graph = current_graph() if graph is None else graph
        self._output = output
        self.vectors: Vectors = vectors

    def __repr__(self) -> str:
        if not self._graph.live:
            return "RNNState (stale)"
        return f"RNNState after {steps_before(self)} of {self._builder!r}"

    def add_input(self, x: Expression) -> "RNNState":
        """The state after reading `x`.

        Args:
            x: ``{input_dim}``, ``{input_dim X b}``, or a matrix whose columns are
                read independently.
        Raises:
            TypeError: `x` is no Expression.
            ValueError: it is None, stale or of another size; or this state is stale.
        """
        if not self._graph.live:
            raise stale_state("add_input")
        builder = self._builder
        try:
            vectors = builder.advance(self.vectors, x)
        except DimError as error:
            raise builder.misfit(self.vectors, (x,), error) from None
        return RNNState(builder, vectors, self, builder.shown(vectors), self._graph)

    def add_auxiliary_input(self, x: Expression, aux: Expression) -> "RNNState":
        """The state after reading `x`, with `aux` read by every layer beside it.

        Args:
            x: as for `add_input`.
            aux: ``{hidden_dim}``, say an earlier output; never dropped.
        Raises:
            TypeError: `x` or `aux` is no Expression.
            ValueError: one is None, stale or of another size; this state is stale; or
                the builder is no SimpleRNNBuilder with ``support_lags=True``.
        """
        self._require_current("add_auxiliary_input")
        builder = self._builder
        try:
            vectors = builder.advance_with(self.vectors, x, aux)
        except DimError as error:
            raise builder.misfit(self.vectors, (x,), error, aux) from None
        return RNNState(builder, vectors, self, builder.shown(vectors))

    def add_inputs(self, xs: Iterable[Expression]) -> "list[RNNState]":
        """The states after each of `xs`; raises as `add_input`."""
        self._require_current("add_inputs")
        states, state, builder = [], self, self._builder
        for vectors in self._all(list(xs)):
            shown = builder.shown(vectors)
            state = RNNState(builder, vectors, state, shown, self._graph)
            states.append(state)
        return states

    def transduce(self, xs: Iterable[Expression]) -> list[Expression]:
        """The outputs after each of `xs`; raises as `add_input`."""
        self._require_current("transduce")
        builder = self._builder
        return [*map(builder.shown, self._all(list(xs)))]

    def _all(self, xs: list[Expression]) -> list[Vectors]:
        """The vectors after each of `xs`."""
        try:
            return self._builder.advance_all(self.vectors, xs)
        except DimError as error:
            raise self._builder.misfit(self.vectors, tuple(xs), error) from None

    def output(self) -> Expression | Any:
        """The output of the top layer, dropped out where a GRU drops; None at first."""
        return self._output

    def h(self) -> Vectors:
        """The output of each layer, bottom first; empty before the first input."""
        self._require_current("h")
        return self._builder.outputs(self.vectors)

    def s(self) -> Vectors:
        """All vectors of the state: for an LSTM the cells, then the outputs."""
        self._require_current("s")
        return self.vectors

    def prev(self) -> "RNNState | None":
        """The state this one was made from; None for the first."""
        return self._prev

    def b(self) -> Builder:
        """The builder."""
        return self._builder

    def set_h(self, es: Iterable[Expression] | None = None) -> "RNNState":
        """A state with these outputs, one per layer, and the cells of this one.

        Raises:
            ValueError: there are not as many as layers, or one is stale.
        """
        self._require_current("set_h")
        given = self._current("set_h", es)
        vectors = self._builder.with_outputs(self.vectors, given)
        return RNNState(self._builder, vectors, self, vectors[-1])

    def set_s(self, es: Iterable[Expression] | None = None) -> "RNNState":
        """A state with these vectors, in the order of `s`.

        An LSTM also takes the cells only: its outputs are those of this state.

        Raises:
            ValueError: their number does not fit, or one is stale.
        """
        self._require_current("set_s")
        given = self._current("set_s", es)
        vectors = self._builder.with_state(self.vectors, given)
        return RNNState(self._builder, vectors, self, vectors[-1])

    def _require_current(self, name: str) -> None:
        if not self._graph.live:
            raise stale_state(name)

    def _current(self, name: str, es: Iterable[Any] | None) -> Vectors:
        return tuple(require_operand(name, e) for e in es or ())


def steps_before(state: Any) -> str:
    """How many states there are before this one."""
    count = 0
    while (state := state.prev()) is not None:
        count += 1
    return counted(count, "step")


def require_operand(name: str, x: Any) -> Expression:
    """`x`, if it is an expression of this graph."""
    if not isinstance(x, Expression):
        wrong = ValueError if x is None else TypeError
        raise wrong(
            error_text(
                f"{name}: it is no Expression",
                got=f"{x!r} ({type(x).__name__})",
                expected="an Expression of the current graph",
                fix="wrap arrays with inputTensor",
            )
        )
    if not x.is_live:
        raise ValueError(stale("operand"))
    return x


class StackedRNNState:
    """Several states, each reading the output of the one before.

    Args:
        states: a list of RNNState, the one that reads the input first.
        prev: what `prev` returns.
    Examples:
        >>> m = dy.ParameterCollection()
        >>> below, above = dy.GRUBuilder(1, 2, 5, m), dy.SimpleRNNBuilder(1, 5, 3, m)
        >>> stack = dy.StackedRNNState([below.initial_state(), above.initial_state()])
        >>> stack = stack.add_inputs([dy.zeros(2), dy.ones(2)])[-1]
        >>> print(stack.output().dim(), [h[-1].dim() for h in stack.h()])
        ((3,), 1) [((5,), 1), ((3,), 1)]
    """

    def __init__(self, states: list[RNNState], prev: "StackedRNNState | None" = None):
        if not isinstance(states, list):
            raise TypeError(
                error_text(
                    "StackedRNNState: states is no list",
                    got=type(states).__name__,
                    expected="a list of RNNState",
                    fix="list(...)",
                )
            )
        self._states = states
        self._prev = prev

    def __repr__(self) -> str:
        of = ", ".join(repr(state.b()) for state in self._states)
        return f"StackedRNNState after {steps_before(self)} of {of}"

    def add_input(self, x: Expression) -> "StackedRNNState":
        """The states after `x` went through all of them."""
        states = []
        for state in self._states:
            state = state.add_input(x)
            states.append(state)
            x = state.output()
        return StackedRNNState(states, self)

    def add_inputs(self, xs: Iterable[Expression]) -> "list[StackedRNNState]":
        """The states after each of `xs`."""
        stacks, stack = [], self
        for x in xs:
            stack = stack.add_input(x)
            stacks.append(stack)
        return stacks

    def output(self) -> Expression | Any:
        """The output of the last state."""
        return self._states[-1].output()

    def h(self) -> list[Vectors]:
        """`RNNState.h` of each."""
        return [state.h() for state in self._states]

    def s(self) -> list[Vectors]:
        """`RNNState.s` of each."""
        return [state.s() for state in self._states]

    def prev(self) -> "StackedRNNState | None":
        """The stack this one was made from."""
        return self._prev
