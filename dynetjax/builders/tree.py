"""TreeBuilder: what every builder over trees does around its cell.

A state is made from the states of its children, so trees are built from the leaves up:
node by node with `add_input`, or at once with `build`. What a builder knows of the
current graph is a `TreeSession`, gone after ``renew_cg()``.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, Self, overload

import numpy as np

from dynetjax.builders.base import unsigned
from dynetjax.builders.nested import children_of, post_order
from dynetjax.builders.rnn_state import Vectors, require_operand
from dynetjax.builders.tree_state import Children, TreeSession, TreeState
from dynetjax.core.dims import DimError
from dynetjax.core.errors import error_text
from dynetjax.core.expression import Expression
from dynetjax.core.other_names import KnowsKeywords
from dynetjax.core.reprs import attributes, call_text
from dynetjax.graph import current_graph
from dynetjax.model.collection import ParameterCollection
from dynetjax.model.unique import Whole
from dynetjax.ops.arguments import Int
from dynetjax.ops.inputs import inputTensor
from dynetjax.ops.noise import dropout


class TreeBuilder(KnowsKeywords, Whole):
    """A recursive network of one or more layers; use one of the subclasses."""

    collection_name: ClassVar[str]

    def __init__(
        self, layers: int, input_dim: int, hidden_dim: int, model: ParameterCollection
    ):
        name = self.whoami()
        if not isinstance(model, ParameterCollection):
            raise TypeError(
                error_text(
                    f"{name}: model is no collection",
                    got=f"{model!r} ({type(model).__name__})",
                    expected="a ParameterCollection",
                    fix="pass dy.ParameterCollection()",
                )
            )
        self.layers: int = unsigned(name, "layers", layers)
        self.input_dim: int = unsigned(name, "input_dim", input_dim)
        self.hidden_dim: int = unsigned(name, "hidden_dim", hidden_dim)
        if not self.layers:
            raise _wrong(f"{name}: there are no layers", 0, "1 or more", "layers=1")
        self._collection = model.add_subcollection(self.collection_name)

    @abstractmethod
    def _compute(
        self, session: TreeSession, x: Expression | None, children: Children
    ) -> Vectors:
        """The rows of a node with input `x`."""

    def vectors(self, rows: Vectors) -> Vectors:
        """What `TreeState.s` shows of the rows."""
        return rows

    @abstractmethod
    def get_parameters(self) -> list[list[Any]]:
        """The parameters and tables of each layer, bottom first."""

    @abstractmethod
    def set_dropout(self, p: float) -> None:
        """Drop inputs and outputs of children with probability `p`.

        Masks are drawn once per graph, as those of the builders over sequences.

        Raises:
            ValueError: `p` is not in [0, 1).
        """

    def disable_dropout(self) -> None:
        """Drop nothing."""
        self.set_dropout(0.0)

    @property
    def spec(self) -> tuple[Any, ...]:
        """The arguments of the constructor, without the model."""
        return self.layers, self.input_dim, self.hidden_dim

    @classmethod
    def from_spec(cls, spec: Sequence[Any], model: ParameterCollection) -> Self:
        """A new builder with the `spec` of another one."""
        layers, input_dim, hidden_dim = spec
        return cls(layers, input_dim, hidden_dim, model)

    def __repr__(self) -> str:
        return call_text(self, attributes(self, "layers", "input_dim", "hidden_dim"))

    def whoami(self) -> str:
        """The name of the class."""
        return type(self).__name__

    def param_collection(self) -> ParameterCollection:
        """The builder's own sub-collection."""
        return self._collection

    def initial_state(self, update: bool = True) -> Self:
        """Say whether gradients are to reach the parameters in this graph.

        Only the first call after ``renew_cg()`` counts, and it need not be made: the
        first node says True.

        Returns:
            The builder itself.
        """
        self._session(bool(update))
        return self

    def set_num_elements(self, num: int) -> None:
        """Allow ids below `num` only, in DyNet's form of `add_input`."""
        size = unsigned(f"{self.whoami()}.set_num_elements", "num", num)
        self._session().size = size

    @overload
    def add_input(
        self,
        x: Expression | None,
        *children: TreeState | Sequence[TreeState | None] | None,
    ) -> TreeState: ...

    @overload
    def add_input(
        self, x: Int, ids: Iterable[Int], value: Expression, /
    ) -> Expression: ...

    def add_input(self, x: Any, *children: Any) -> Any:
        """The state of a node with input `x`.

            state = builder.add_input(x, left, right)

        Args:
            x: ``{input_dim}``, ``{input_dim X b}``, or a matrix whose columns are read
                independently; None for a node that has children and no input.
            children: states, in order, or one list of them. Where the cell tells
                places apart, None stands for a child that is not there.
        Returns:
            A `TreeState`; or in DyNet's form, ``add_input(id, [ids], x)``, with ids of
            nodes that were added before, the output as an Expression.
        Raises:
            TypeError: `x` is no Expression, or a child no state.
            ValueError: `x` has another size, something is stale, a child is of another
                builder, there are too many, or an id is not known or taken.
        """
        if isinstance(x, (int, np.integer)):
            return self._add_numbered(int(x), *children)
        if len(children) == 1 and isinstance(children[0], (list, tuple)):
            children = tuple(children[0])
        for child in children:
            self._require_child(child)
        self._require_input(x, children)
        rows = self._compute(self._session(), x, children)
        return TreeState(self, rows, children)

    def transduce(
        self, nodes: Iterable[tuple[Expression | None, Sequence[int]]]
    ) -> list[Expression]:
        """The outputs of all nodes of a tree.

        Args:
            nodes: ``(x, numbers of the children)`` of each, children before parents.
        Raises:
            ValueError: a number is not that of a node before; and as `add_input`.
        """
        states: list[TreeState] = []
        for x, numbers in nodes:
            for k in numbers:
                if not 0 <= k < len(states):
                    raise _wrong(
                        f"{self.whoami()}.transduce: a child does not come before",
                        f"child {k} of node {len(states)}",
                        f"numbers below {len(states)}",
                        "put children first",
                    )
            states.append(self.add_input(x, [states[k] for k in numbers]))
        return [state.output() for state in states]

    def build(
        self,
        tree: Any,
        embed: Callable[[Any], Expression | None],
        inner: Callable[[Any], Expression | None] | None = None,
        children: Callable[[Any], Iterable[Any]] = children_of,
    ) -> TreeState:
        """The state of a whole tree, of any depth.

            builder.build((("the", "cat"), "sat"), lambda word: E[ids[word]])
            builder.build(root, embed, inner=embed)     # words at all nodes

        Args:
            tree: its root. Lists and tuples are nodes without anything of their own,
                so are trees that iterate over their children, as NLTK's; other objects
                may have `children`, an attribute or a method. All else is a leaf.
            embed: the input of a leaf; it is given the node.
            inner: the input of a node with children; None where there is none.
            children: another way to find the children of a node.
        Returns:
            The state of the root. Its `nodes` are those of all nodes, children first,
            each with the node that it belongs to as `node`.
        Raises:
            ValueError: a node is among its own descendants; and as `add_input`.
        """
        made: list[TreeState] = []
        for node, count in post_order(tree, children):
            below = made[len(made) - count :]
            del made[len(made) - count :]
            give = inner if below else embed
            state = self.add_input(give(node) if give else None, below)
            state.node = node
            made.append(state)
        return made[0]

    def _session(self, update: bool = True) -> TreeSession:
        sessions = current_graph().sessions
        session = sessions.get(self)
        if session is None:
            session = sessions[self] = TreeSession(update)
        return session

    def _add_numbered(self, number: int, ids: Iterable[int], x: Expression):
        session, name = self._session(), f"{self.whoami()}.add_input"
        if number in session.states or number < 0 or number >= (session.size or np.inf):
            below = "" if session.size is None else f" and below {session.size}"
            raise _wrong(
                f"{name}: the id will not do",
                number,
                f"an id that no node has, from 0 on{below}",
                "count the nodes",
            )
        ids = list(ids)
        for k in ids:
            if k not in session.states:
                raise _wrong(
                    f"{name}: there is no such child",
                    k,
                    "the id of a node of this graph that was added before",
                    "add children first",
                )
        state = self.add_input(x, [session.states[k] for k in ids])
        session.states[number] = state
        return state.output()

    def _require_child(self, child: Any) -> None:
        if child is None:
            return
        if not isinstance(child, TreeState):
            raise TypeError(
                error_text(
                    f"{self.whoami()}.add_input: a child is no state",
                    got=f"{child!r} ({type(child).__name__})",
                    expected="what add_input or build returned",
                    fix="pass states, not their outputs",
                )
            )
        if child.b() is not self:
            raise _wrong(
                f"{self.whoami()}.add_input: a child is of another builder",
                child.b().param_collection().name(),
                self._collection.name(),
                "build a tree with one builder",
            )
        child.require_current()

    def _require_input(self, x: Any, children: Children) -> None:
        name = f"{self.whoami()}.add_input"
        if x is None:
            if not any(children):
                raise _wrong(
                    f"{name}: a node has neither input nor children",
                    "x = None",
                    "an Expression for every leaf",
                    "let embed return one",
                )
            return
        require_operand(name, x)
        if x.full_dim.shape[0] != self.input_dim:
            raise DimError(
                error_text(
                    f"{name}: x does not fit the builder",
                    got=x.full_dim,
                    expected=f"{{{self.input_dim}}}",
                    fix="build it with the size of the inputs as input_dim",
                )
            )


def present(children: Children) -> Iterator[TreeState]:
    """The children that are there."""
    return (child for child in children if child is not None)


def draw_mask(size: int, p: float, batch: int) -> Expression:
    """0 with probability `p`, else 1 / (1 - p)."""
    return dropout(inputTensor(np.ones((size, batch)), batched=True), p)


def _wrong(problem: str, got: Any, expected: str, fix: str) -> ValueError:
    return ValueError(error_text(problem, got=got, expected=expected, fix=fix))
