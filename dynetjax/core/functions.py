"""Expressions as functions for JAX: the graph, node by node, without the engine."""

from collections.abc import Callable, Container, Iterable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from dynetjax.core.dims import Shape
from dynetjax.core.errors import error_text
from dynetjax.core.expression import Expression
from dynetjax.core.lazy import jax, jnp, lax
from dynetjax.core.nodes import ZEROS, given_data
from dynetjax.core.registry import GATHER, INPUT, LOOKUP, MAP, OWNERS, PARAMETER, Op
from dynetjax.core.reprs import counted

Array = Any
COLUMN_TYPES = {"i": np.int32, "f": np.float32}  # of columns of runtime data


def to_jax(expr: Expression) -> "JaxFunction":
    """A built expression as a pure function of parameters and inputs.

        f = dynetjax.to_jax(loss)
        gradients = jax.jit(jax.grad(f))(f.parameters, f.inputs)

    It can be used with `jax.jit`, `jax.grad`, `jax.vmap` and all else. Rows of tables,
    classes, indices and other runtime data stay what they are in the expression.

    Args:
        expr: any expression of the current graph.
    Returns:
        See `JaxFunction`.
    Raises:
        RuntimeError: `expr` is stale.
    Examples:
        >>> import jax
        >>> m = dy.ParameterCollection()
        >>> p = m.add_parameters(3, init=2, name="p")
        >>> f = dy.to_jax(dy.squared_norm(p))
        >>> loss, gradients = jax.value_and_grad(f)(f.parameters, f.inputs)
        >>> print(loss, gradients["/p"])
        12.0 [4. 4. 4.]
    """
    return JaxFunction(expr.locate()[1])


class Value(NamedTuple):
    """What a node computes: ``[lanes, *shape]``, or ``[*shape]`` if `lanes` is 0."""

    array: Array
    lanes: int

    @property
    def true_shape(self) -> Shape:
        """The shape of one batch element."""
        shape: Shape = self.array.shape[1:] if self.lanes else self.array.shape
        return shape


class Description(NamedTuple):
    """A node, as it was when the function was made.

    Attributes:
        data: runtime data; of an input, its numbers.
        number: of the node in its graph.
        source: full name of the parameter or table that it reads.
        constant: no gradient reaches that.
    """

    op: Op
    static: tuple[Any, ...]
    data: Any
    number: int
    lanes: int
    source: str | None
    constant: bool

    @property
    def is_input(self) -> bool:
        """Whether its numbers are the user's, and not derived from an argument."""
        return self.op.form == INPUT and not self.op.internal

    def columns(self, keys: Callable[[], Array]) -> list[Array]:
        """Its runtime data, as `computed` takes them.

        Args:
            keys: gives random keys, one for each batch element.
        """
        data = self.data
        if self.op.form != MAP:
            return [] if data is None else [jnp.asarray(data)]
        own = data if isinstance(data, tuple) else () if data is None else (data,)
        typed = zip(own, self.op.given, strict=True)
        columns = [jnp.asarray(x, COLUMN_TYPES[letter]) for x, letter in typed]
        return [*columns, keys()] if "k" in self.op.runtime else columns


class JaxFunction:
    """``f(parameters, inputs, key=None)``, which computes an expression; see `to_jax`.

    It returns an array like `npvalue()`, with the batch as last axis if there is one;
    but where the expression is one number, that without dimensions. `key`, one of
    `jax.random`, is needed if dropout or other random operations are in it, which are
    drawn from it.

    Attributes:
        parameters: values of the parameters and tables in the expression, by full name.
            A table has its rows first.
        inputs: values of the inputs in it, in the order they were made, like
            `npvalue()`.
    Examples:
        >>> m = dy.ParameterCollection()
        >>> p = m.add_parameters(2, init=1, name="p")
        >>> f = dy.to_jax(dy.dot_product(p, dy.inputVector([3, 4])))
        >>> print(list(f.parameters), f(f.parameters, f.inputs))
        ['/p'] 7.0
        >>> print(f({"/p": np.array([1.0, 0])}, [np.array([5.0, 6])]))
        5.0
    """

    def __init__(self, root: Expression):
        nodes = needed([root])
        places = {node: k for k, node in enumerate(nodes)}
        self._nodes = [description(node) for node in nodes]
        self._operands = [[places[x] for x in node.operands] for node in nodes]
        self._dim = root.full_dim
        self._scalar = root.full_dim.shape == (1,) and root.lanes <= 1
        self.parameters: dict[str, Array] = {}
        for node in nodes:
            storage = storage_of(node)
            if storage is not None:
                self.parameters[storage.name] = storage.values
        self.inputs: list[Array] = [
            batch_last(Value(jnp.asarray(node.data), node.lanes))
            for node in self._nodes
            if node.is_input
        ]

    def __repr__(self) -> str:
        parameters = counted(len(self.parameters), "parameter")
        of = f"{parameters} and {counted(len(self.inputs), 'input')}"
        return f"JaxFunction: {self._nodes[-1].op.name} {self._dim} of {of}"

    def __call__(
        self, parameters: dict[str, Array], inputs: list[Array], key: Array = None
    ) -> Array:
        given = iter(inputs)
        nodes = [
            node._replace(data=_batch_first(next(given), node.lanes))
            if node.is_input
            else node
            for node in self._nodes
        ]
        values: list[Value] = []
        for node, places in zip(nodes, self._operands, strict=True):
            operands = [values[k] for k in places]
            values.append(value_of(node, operands, parameters, key))
        result = batch_last(values[-1])
        return result.reshape(()) if self._scalar else result


def value_of(
    node: Description,
    operands: list[Value],
    parameters: dict[str, Array],
    key: Array = None,
) -> Value:
    """What a node is worth.

    Args:
        parameters: values of the parameters and tables, by the nodes' sources.
        key: of `jax.random`, for nodes that draw random numbers.
    """
    if node.source is not None:
        return Value(_read(node, parameters[node.source]), node.lanes)
    columns = node.columns(partial(_keys, key, node))
    array = computed(node.op, node.static, operands, columns, node.lanes)
    return Value(array, node.lanes)


def needed(
    roots: Iterable[Expression], known: Container[Expression] = ()
) -> list[Expression]:
    """What these are made of but for what is known, operands first.

    In order of creation; what is no node, as zeros are, has the index of the next.
    """
    nodes: dict[Expression, None] = {}
    left = [(root, False) for root in roots]
    while left:
        node, are_operands_there = left.pop()
        if are_operands_there:
            nodes[node] = None
        elif node not in nodes and node not in known:
            left.append((node, True))
            left += [(x, False) for x in node.operands]
    return sorted(nodes, key=lambda x: x.index)


def storage_of(node: Expression) -> Any:
    """The parameter or table that a node reads itself, or None."""
    kinds = () if node.operands else node.signature.operands
    return OWNERS[kinds[0].source] if kinds else None


def description(node: Expression) -> Description:
    """Of a node, as it is now."""
    signature = node.signature
    op, static = signature.op, signature.static
    data: Any
    if op is ZEROS:
        data = np.zeros((node.lanes, *node.full_dim.shape), np.float32)
    else:
        data = node.data if op.given or op.form not in (MAP, PARAMETER) else None
    if op.origin is not None:  # lengths come after what the user gave
        op = op.origin
        static = static[: len(op.static)]
        data = given_data(signature.op, data)[: len(op.given)] or None
    storage = storage_of(node)
    return Description(
        op,
        static,
        data,
        node.index if node.graph is not None else -1,
        node.lanes,
        storage.name if storage else None,
        bool(storage) and signature.operands[0].constant,
    )


def _read(node: Description, values: Array) -> Array:
    """A parameter, rows of a table, or a table as a whole."""
    if node.constant:
        values = lax.stop_gradient(values)
    if node.op.form == PARAMETER:
        return values
    if node.op.form == LOOKUP:
        return values[node.data if hasattr(node.data, "ndim") else row_ids(node.data)]
    return node.op.bind(node.static)(values)


def row_ids(data: Any) -> np.ndarray:
    """The rows of a table that a node with this data reads."""
    return np.array(data if isinstance(data, list) else [data], np.int32)


def computed(
    op: Op,
    static: tuple[Any, ...],
    operands: list[Value],
    columns: list[Array],
    lanes: int,
) -> Array:
    """What a node computes of its operands and runtime data."""
    if op.form == INPUT:
        return columns[0]
    if op.form != MAP:
        return _of_rows(op.form, operands, *columns)
    if op.compose is not None:
        operands = op.compose(_Parts, operands)
    return _mapped(op, static, operands, columns, lanes)


def _of_rows(form: str, operands: list[Value], rows: Array = None) -> Array:
    """The sum of all operands, or of some rows of one; or those rows side by side."""
    arrays = [x.array if x.lanes else x.array[None] for x in operands]
    if rows is not None:
        picked = arrays[0][rows]
        return picked if form == GATHER else picked.sum(0, keepdims=True)
    return jnp.concatenate(arrays) if form == GATHER else sum(arrays)


def _keys(key: Array, node: Description) -> Array:
    """A random key for each batch element."""
    if key is None:
        raise TypeError(
            error_text(
                f"to_jax: {node.op.name} needs a random key",
                got="key = None",
                expected="a key of jax.random",
                fix="f(parameters, inputs, jax.random.key(0))",
            )
        )
    keys = jax.random.split(jax.random.fold_in(key, node.number), node.lanes)
    return jax.random.key_data(keys)


class _Parts:
    """Stands for the graph where an operation makes parts of its operands."""

    @staticmethod
    def part(
        op: Op, operands: tuple[Value, ...], static: tuple[Any, ...] = ()
    ) -> Value:
        lanes = max(x.lanes for x in operands)
        return Value(_mapped(op, static, operands, [], lanes), lanes)

    @staticmethod
    def with_rows(operands: tuple[Value, ...]) -> tuple[Value, ...]:
        return operands

    rows = with_rows


def _mapped(
    op: Op, static: tuple[Any, ...], operands, columns: list[Array], lanes: int
) -> Array:
    """An operation on each batch element; operands that have one element are shared."""
    fn = op.bind(static)
    arrays, axes = [], []
    for x in operands:
        shared = x.lanes == 1 and lanes > 1
        arrays.append(x.array[0] if shared else x.array)
        axes.append(None if shared or not x.lanes else 0)
    arrays += columns
    axes += [0 if x.ndim else None for x in columns]
    if not lanes:
        return fn(*arrays)
    if set(axes) <= {None}:
        one = fn(*arrays)
        return jnp.broadcast_to(one, (lanes, *one.shape))
    return jax.vmap(fn, axes)(*arrays)


def _batch_first(array: Array, lanes: int) -> Array:
    return jnp.asarray(array)[None] if lanes == 1 else jnp.moveaxis(array, -1, 0)


def batch_last(value: Value) -> Array:
    """A value as `npvalue` lays it out: a batch is the last axis."""
    if not value.lanes:
        return value.array
    return value.array[0] if value.lanes == 1 else jnp.moveaxis(value.array, 0, -1)
