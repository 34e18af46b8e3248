"""TreeState: a node of a tree, with all that is below it."""

from collections.abc import Sequence
from typing import Any, Protocol

from dynetjax.builders.nested import post_order
from dynetjax.builders.rnn_state import Vectors
from dynetjax.core.errors import error_text
from dynetjax.core.expression import Expression
from dynetjax.core.reprs import counted
from dynetjax.model.collection import ParameterCollection
from dynetjax.model.unique import Unique


class Builder(Protocol):
    """What a state asks of its builder; see `TreeBuilder`."""

    layers: int

    def vectors(self, rows: Vectors) -> Vectors:
        """What `TreeState.s` shows of the rows."""

    def param_collection(self) -> ParameterCollection:
        """The builder's own sub-collection."""


class TreeState(Unique):
    """A node of a tree, with all that is below it; made by `add_input` and `build`.

    Attributes:
        rows: what the builder computed, by layer.
        node: of a tree given to `build`, the node; else None.
    """

    __slots__ = ("_builder", "_children", "_vectors", "node", "rows")
    rows: Vectors

    def __init__(self, builder: "Builder", rows: Vectors, children: tuple[Any, ...]):
        self._builder, self.rows, self._children = builder, rows, children
        self._vectors: Vectors = ()
        self.node: Any = None

    def __repr__(self) -> str:
        if not self.rows[-1].is_live:
            return "TreeState (stale)"
        return f"TreeState of {counted(len(self.nodes()), 'node')} by {self._builder!r}"

    def output(self) -> Expression:
        """The output of the top layer."""
        return self.s()[-1]

    def h(self) -> Vectors:
        """The output of each layer, bottom first."""
        return self.s()[-self._builder.layers :]

    def s(self) -> Vectors:
        """All vectors: the cells of all layers, if parents see them; then the outputs.

        Raises:
            ValueError: the state is stale.
        """
        self.require_current()
        if not all(v.is_live for v in self._vectors) or not self._vectors:
            self._vectors = self._builder.vectors(self.rows)
        return self._vectors

    def require_current(self) -> None:
        """Check that the state belongs to the current graph.

        Raises:
            ValueError: it was made before ``renew_cg()``, or cut by ``cg_revert()``.
        """
        if not self.rows[-1].is_live:
            raise ValueError(
                error_text(
                    "the state of a tree is stale",
                    got="a state made before renew_cg(), or cut by cg_revert()",
                    expected="a state of the current graph",
                    fix="build the tree again",
                )
            )

    def children(self) -> "tuple[TreeState | None, ...]":
        """The states that this one was made from, in order."""
        return self._children

    def b(self) -> "Builder":
        """The builder."""
        return self._builder

    def nodes(self) -> "list[TreeState]":
        """This state and all below it, children first."""
        ordered = post_order(self, lambda s: [c for c in s.children() if c is not None])
        return [state for state, _ in ordered]


Children = Sequence[TreeState | None]


class TreeSession:
    """A builder in one graph.

    Attributes:
        update: whether gradients reach the builder's parameters.
        made: what was made of the parameters; filled by the builder.
        states: by id, in DyNet's form of `add_input`.
        size: how many ids there are, if that was said.
    """

    def __init__(self, update: bool):
        self.update = update
        self.made: dict[Any, Any] = {}
        self.states: dict[int, TreeState] = {}
        self.size: int | None = None

    def revert(self) -> None:
        """Forget what was cut from the graph."""
        self.made.clear()
        kept = {k: s for k, s in self.states.items() if s.rows[-1].is_live}
        self.states = kept
