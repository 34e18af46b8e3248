"""A transformation of all parameters at once, taken apart into rules of numbers.

JAX's account of a transformation tells whether what becomes of a number follows from
its own gradient, value and state, and from numbers that all have in common: counts,
a learning rate, the norm of all gradients. Then the executor in C++ can run it.
Parameters that it does the same to have the same rule.
"""

import functools
import itertools
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dynetjax.core.lazy import jax, jnp
from dynetjax.engine.native.lowering.arithmetic import NUMBER_BY_NUMBER
from dynetjax.engine.native.lowering.arrays import NotCoveredError
from dynetjax.engine.native.lowering.lower import read
from dynetjax.trainers.rules import RuleOfOne

COMMON = np.int32, np.float32  # types of numbers that all have in common


class Apart(NamedTuple):
    """What a transformation does.

    Attributes:
        rules: of each parameter, by name.
        owners: of each array of the state, in order: the name of the parameter that it
            belongs to; None for a number that all have in common.
    """

    rules: dict[str, RuleOfOne]
    owners: list[str | None]


@functools.lru_cache(maxsize=64)
def taken_apart(
    update: Callable[..., Any],
    structure: Any,
    leaves: tuple[Any, ...],
    tree: tuple[tuple[str, Any], ...],
) -> Apart | None:
    """A transformation as rules of numbers; None if it is not of such.

    Args:
        update: ``(gradients, state, values, *, step, learning_rate)`` to ``(changes,
            state)``, of which gradients, values and changes are dicts by name.
        structure, leaves: of its state: shapes and types of the arrays.
        tree: the same of the parameters, by name.
    """
    try:
        return _taken_apart(update, structure, leaves, dict(tree))
    except NotCoveredError:
        return None


def _taken_apart(
    update: Callable[..., Any],
    structure: Any,
    leaves: tuple[Any, ...],
    tree: dict[str, Any],
) -> Apart:
    state = jax.tree.leaves_with_path(jax.tree.unflatten(structure, leaves))
    owners = [_owner(path, leaf, tree) for path, leaf in state]
    names = [*tree]

    def run(step, rate, gradients, values, leaves):
        by_name = [dict(zip(names, x, strict=True)) for x in (gradients, values)]
        state = jax.tree.unflatten(structure, leaves)
        numbers = {"step": step, "learning_rate": rate}
        changes, state = update(by_name[0], state, by_name[1], **numbers)
        return [changes[n] for n in names], jax.tree.leaves(state)

    one, arrays = jax.ShapeDtypeStruct((), np.float32), [*tree.values()]
    closed = jax.make_jaxpr(run)(one, one, arrays, arrays, leaves)
    types = [x.dtype for x in (*arrays, *leaves)]
    if [x.dtype for x in closed.out_avals] != types:
        raise NotCoveredError("results of other types than what they are for")
    account = Account(names)
    places = {name: itertools.count() for name in (*names, None)}
    given = [account.node("step"), account.node("rate")]
    given += [account.node("gradient", name) for name in names]
    given += [account.node("values", name) for name in names]
    given += [account.node("state", owner, next(places[owner])) for owner in owners]
    results = read(
        closed.jaxpr, closed.consts, given, account.constant, account.equation
    )
    changes, new = results[: len(names)], results[len(names) :]
    shared = [x for x, owner in zip(new, owners, strict=True) if owner is None]
    kinds = [x.dtype.kind for x, name in zip(leaves, owners, strict=True) if not name]
    rules = {}
    for name, change in zip(names, changes, strict=True):
        own = [x for x, owner in zip(new, owners, strict=True) if owner == name]
        rules[name] = account.rule(name, [change, *own], shared, kinds)
    return Apart(rules, owners)


def name_in(path: tuple[Any, ...], names: Container[str]) -> str | None:
    """Which of some names the path of a part of the state has, if it has one."""
    keys = [k.key for k in path if isinstance(k, jax.tree_util.DictKey)]
    return next((key for key in keys if key in names), None)


def _owner(path: tuple[Any, ...], leaf: Any, tree: dict[str, Any]) -> str | None:
    """The parameter that a part of the state belongs to.

    Raises:
        NotCoveredError: it is of another shape or type.
    """
    name = name_in(path, tree)
    if name is None:
        right = leaf.shape == () and leaf.dtype in COMMON
    else:
        right = leaf.shape == tree[name].shape and leaf.dtype == np.float32
    if not right:
        raise NotCoveredError(f"state of shape {leaf.shape} and type {leaf.dtype}")
    return name


@dataclass(frozen=True, eq=False)
class Node:
    """A result: as many numbers as a parameter has, or one that all have in common.

    Attributes:
        place: among all, in the order in which they are computed.
        what: the name of a primitive, or what is given.
        owner: the name of the parameter; None for a number in common.
        detail: which state it is; a constant's value; an equation of the jaxpr.
        operands: what it is computed of.
    """

    place: int
    what: str
    owner: str | None
    detail: Any
    operands: Sequence["Node"]

    @property
    def is_zero(self) -> bool:
        """Whether it is 0 for certain."""
        if self.what == "square":
            return self.operands[0].is_zero
        return self.what == "constant" and not self.detail

    @property
    def is_square_of_gradient(self) -> bool:
        """Whether it is a gradient by itself."""
        factors = [*self.operands]
        if self.what == "square" or (
            self.what == "integer_pow" and self.detail.params["y"] == 2
        ):
            factors *= 2
        elif self.what != "mul":
            return False
        return factors[0] is factors[1] and factors[0].what == "gradient"


class Account:
    """All that a transformation computes."""

    def __init__(self, names: list[str]):
        self._names = frozenset(names)
        self._count = itertools.count()

    def node(
        self,
        what: str,
        owner: str | None = None,
        detail: Any = None,
        operands: Sequence[Node] = (),
    ) -> Node:
        """The next one."""
        return Node(next(self._count), what, owner, detail, operands)

    def constant(self, value: Any) -> Node:
        """What is always the same."""
        if np.shape(value):
            raise NotCoveredError("an array that is always the same")
        return self.node("constant", detail=value)

    def equation(self, equation: Any, operands: list[Node]) -> list[Node]:
        """The result of an equation of the jaxpr."""
        name = equation.primitive.name
        if len(equation.outvars) != 1:
            raise NotCoveredError(name)
        shape = equation.outvars[0].aval.shape
        owners = {x.owner for x in operands} - {None}
        if name == "broadcast_in_dim" and not owners:
            return operands
        if name == "reduce_sum" and not shape and operands[0].is_square_of_gradient:
            return [self.node("squares", detail=frozenset(owners))]
        if name == "add":
            joined = self._sum(*operands)
            if joined is not None:
                return [joined]
        is_common = shape == () and not owners
        if len(owners) > 1 or not (is_common or name in NUMBER_BY_NUMBER):
            raise NotCoveredError(name)
        owner = next(iter(owners), None)
        return [self.node(name, owner, equation, operands)]

    def _sum(self, a: Node, b: Node) -> Node | None:
        """A sum that can be told at once: with 0, or of squares of gradients."""
        if a.is_zero or b.is_zero:
            return b if a.is_zero else a
        if a.what == b.what == "squares" and not a.detail & b.detail:
            return self.node("squares", detail=a.detail | b.detail)
        return None

    def rule(
        self, name: str, own: list[Node], shared: list[Node], kinds: list[str]
    ) -> RuleOfOne:
        """What becomes of a parameter.

        Args:
            own: its change, then its state.
            shared: the state in common.
            kinds: of the latter: "f" or "i".
        Raises:
            NotCoveredError: something else matters.
        """
        nodes = _reached([*own, *shared])
        for x in nodes:
            if x.owner not in (None, name) or (
                x.what == "squares" and x.detail != self._names
            ):
                raise NotCoveredError("numbers of other parameters")
        if any(x.owner is not None for x in shared):
            raise NotCoveredError("a state in common that belongs to one parameter")
        places = {x: k for k, x in enumerate(nodes)}
        steps = [(*_told(x), *[places[y] for y in x.operands]) for x in nodes]
        return RuleOfOne(
            steps=(*steps, tuple([places[x] for x in (*own, *shared)])),
            states=len(own) - 1,
            common=("f", *kinds),
            run=functools.partial(_run, nodes, own, shared),
        )


def _reached(results: Iterable[Node]) -> list[Node]:
    """All that results follow from, in order."""
    found: dict[Node, None] = {}
    rest = [*results]
    while rest:
        node = rest.pop()
        if node not in found:
            found[node] = None
            rest += node.operands
    return sorted(found, key=lambda x: x.place)


def _told(node: Node) -> tuple[Any, ...]:
    """What a node is, whoever it belongs to."""
    common = node.owner is None
    if node.what == "constant":
        return node.detail.dtype.str, node.detail.tobytes()
    if not node.operands:
        return node.what, common, None if node.what == "squares" else node.detail
    params = node.detail.params
    return node.what, common, str({k: params[k] for k in sorted(params)})


def _run(
    nodes: list[Node],
    own: list[Node],
    shared: list[Node],
    step: Any,
    rate: Any,
    squares: Any,
    *given: Any,
) -> Any:
    """See `RuleOfOne.run`."""
    common, (gradient, values, *state) = given[: len(shared)], given[len(shared) :]
    inputs = {"step": step, "rate": rate, "squares": squares}
    inputs |= {"gradient": gradient, "values": values}
    made: dict[Node, Any] = {}
    for x in nodes:
        if x.operands:
            operands = [made[y] for y in x.operands]
            if x.owner is not None:
                operands = [jnp.broadcast_to(y, gradient.shape) for y in operands]
            made[x] = x.detail.primitive.bind(*operands, **x.detail.params)
        elif x.what == "constant":
            made[x] = x.detail
        elif x.what == "state":
            made[x] = (common if x.owner is None else state)[x.detail]
        else:
            made[x] = inputs[x.what]
    vectors = [jnp.broadcast_to(made[x], gradient.shape) for x in own]
    return *vectors, *[made[x] for x in shared]
