"""What was built for certain lengths, as a JAX function of parameters and arguments."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from dynetjax.core.functions import Value, batch_last, value_of
from dynetjax.core.lazy import jax, jnp, lax
from dynetjax.core.registry import MAP
from dynetjax.serving.built import Built, Column
from dynetjax.serving.rolled import Loop, Order, order

Array = Any


def jax_function(built: Built) -> Callable[..., Any]:
    """``f(parameters, *arguments)``; parameters are arrays by name."""
    ordered = order(built)

    def f(parameters: dict[str, Array], *arguments: Array) -> Any:
        run = _Run(built, ordered, parameters, arguments)
        for part in ordered.parts:
            run.compute(part)
        return run.output(built.result)

    return f


class _Several(NamedTuple):
    """Arrays of several nodes; the array of one of them, if all are the same node."""

    array: Array
    are_one: bool


class _Run:
    """Values of a graph, while JAX traces how they are computed.

    Attributes:
        stacks: of each class that is computed, its nodes' arrays one after the other.
        single: values of nodes whose class is not yet computed as a whole.
    """

    def __init__(
        self,
        built: Built,
        ordered: Order,
        parameters: dict[str, Array],
        arguments: tuple[Array, ...],
    ):
        self.built, self.classes = built, ordered.classes
        self.parameters = parameters
        self.flat = {
            dtype: jnp.concatenate([jnp.ravel(x).astype(dtype) for x in arguments])
            for dtype in (np.dtype(np.int32), np.dtype(np.float32))
        }
        self.stacks: dict[int, Array] = {}
        self.single: dict[int, Value] = {}
        self.place = {
            node: (number, k)
            for number, nodes in enumerate(self.classes)
            for k, node in enumerate(nodes)
        }

    def compute(self, part: int | Loop) -> None:
        """Compute a class, or a loop."""
        if not isinstance(part, Loop):
            self.stacks[part] = self._together(self.classes[part])
        elif part.is_worth_it:
            self._loop(part)
        else:
            for node in sorted([x for c in part.classes for x in self.classes[c]]):
                array = self._together([node])[0]
                self.single[node] = Value(array, self.built.nodes[node].lanes)
            for number in part.classes:
                arrays = [self.single[node].array for node in self.classes[number]]
                self.stacks[number] = jnp.stack(arrays)

    def output(self, result: Any) -> Any:
        """Values in the form in which the function returned expressions."""
        if isinstance(result, dict):
            return {key: self.output(x) for key, x in result.items()}
        if isinstance(result, tuple):
            return tuple([self.output(x) for x in result])
        nodes = result if isinstance(result, list) else [result]
        lanes = self.built.nodes[nodes[0]].lanes
        several = self._several(nodes)
        arrays = several.array[None] if several.are_one else several.array
        laid_out = jax.vmap(lambda array: _as_npvalue(Value(array, lanes)))(arrays)
        if not isinstance(result, list):
            return laid_out[0]
        return jnp.broadcast_to(laid_out, (len(nodes), *laid_out.shape[1:]))

    def _together(self, nodes: list[int]) -> Array:
        """The arrays of like nodes, none of which follows from another."""
        first, *others = nodes
        operands = [self._several(x) for x in self._operands(nodes)]
        columns = [_filled(x, self.flat) for x in self._columns(nodes)]
        if not others:
            arrays = [x.array for x in operands]
            return self._one(first, arrays, [x[0] for x in columns])[None]
        axes = [None if x.are_one else 0 for x in operands]
        arrays = [x.array for x in operands]
        if not columns and set(axes) <= {None}:
            one = self._one(first, arrays, [])
            return jnp.broadcast_to(one, (len(nodes), *one.shape))

        def compute(arrays: list[Array], columns: list[Array]) -> Array:
            return self._one(first, arrays, columns)

        return jax.vmap(compute, (axes, 0))(arrays, columns)

    def _one(self, like: int, arrays: list[Array], columns: list[Array]) -> Array:
        """A node like another one, of these operands and runtime data."""
        node, nodes = self.built.nodes[like], self.built.nodes
        lanes = [nodes[x].lanes for x in self.built.operands[like]]
        operands = [Value(*x) for x in zip(arrays, lanes, strict=True)]
        if node.op.form == MAP:
            node = node._replace(data=tuple(columns) or None)
        else:
            node = node._replace(data=columns[0] if columns else None)
        return value_of(node, operands, self.parameters).array

    def _operands(self, nodes: list[int]) -> list[list[int]]:
        """Of like nodes, all first operands, all second ones, and so on."""
        operands = [self.built.operands[node] for node in nodes]
        return [list(x) for x in zip(*operands, strict=True)]

    def _columns(self, nodes: list[int]) -> list[Column]:
        """Of like nodes, each column of all of them."""
        columns = [self.built.columns[node] for node in nodes]
        return [_side_by_side(list(x)) for x in zip(*columns, strict=True)]

    def _value(self, node: int) -> Array:
        if node in self.single:
            return self.single[node].array
        number, k = self.place[node]
        return self.stacks[number][k]

    def _several(self, nodes: list[int]) -> _Several:
        """The arrays of nodes that were computed."""
        if len(set(nodes)) == 1:
            return _Several(self._value(nodes[0]), True)
        if any(node in self.single for node in nodes):
            return _Several(jnp.stack([self._value(node) for node in nodes]), False)
        numbers = dict.fromkeys([self.place[node][0] for node in nodes])
        starts, count = {}, 0
        for number in numbers:
            starts[number], count = count, count + len(self.classes[number])
        stacks = [self.stacks[number] for number in numbers]
        rows = [starts[self.place[x][0]] + self.place[x][1] for x in nodes]
        whole = stacks[0] if len(stacks) == 1 else jnp.concatenate(stacks)
        return _Several(_taken(whole, rows), False)

    def _loop(self, loop: Loop) -> None:
        """Compute a node of each class in each step."""
        pools = _Pools(self, loop)
        steps = [_with_others(nodes) for nodes in loop.steps]
        fixed: dict[tuple[int, int], Array] = {}  # operands that are one in all steps
        given: dict[str, Any] = {"out": [], "columns": [], "operands": {}, "rows": {}}
        for c, nodes in enumerate(steps):
            given["out"].append(pools.slots_of_results(loop.steps[c]))
            columns = self._columns(nodes)
            given["columns"].append([_filled(x, self.flat) for x in columns])
            for k, operands in enumerate(self._operands(nodes)):
                if not pools.are_outside(operands):
                    given["rows"][f"{c},{k}"] = pools.slots_of(operands)
                    continue
                several = self._several(operands)
                if several.are_one:
                    fixed[c, k] = several.array
                else:
                    given["operands"][f"{c},{k}"] = several.array

        def step(carried: list[Array], x: dict[str, Any]) -> tuple[list[Array], None]:
            carried = list(carried)
            for c, nodes in enumerate(steps):
                arrays = []
                for k, operand in enumerate(self.built.operands[nodes[0]]):
                    key = f"{c},{k}"
                    if (c, k) in fixed:
                        arrays.append(fixed[c, k])
                    elif key in x["operands"]:
                        arrays.append(x["operands"][key])
                    else:
                        pool = carried[pools.of(operand)]
                        row = x["rows"][key]
                        arrays.append(lax.dynamic_index_in_dim(pool, row, 0, False))
                array = self._one(nodes[0], arrays, x["columns"][c])
                at = pools.of(nodes[0])
                carried[at] = lax.dynamic_update_index_in_dim(
                    carried[at], array, x["out"][c], 0
                )
            return carried, None

        computed, _ = lax.scan(step, pools.begin(), given)
        for number in loop.classes:
            first = self.classes[number][0]
            start = pools.slot[first]
            stop = start + len(self.classes[number])
            self.stacks[number] = computed[pools.of(first)][start:stop]


class _Pools:
    """Where the values of a loop are while it runs: a pool for each shape.

    A pool has room for all nodes in the loop, for one that is thrown away, and has the
    nodes from outside that take turns with these.

    Attributes:
        slot: of each node, in its pool.
    """

    def __init__(self, run: _Run, loop: Loop):
        self._run = run
        self._numbers: dict[Any, int] = {}
        self._inside: list[int] = []  # slots of each pool
        self._outside: list[list[int]] = []
        self.slot: dict[int, int] = {}
        self._are_inside = {x for c in loop.classes for x in run.classes[c]}
        for number in loop.classes:
            for node in run.classes[number]:
                pool = self.of(node)
                self.slot[node] = self._inside[pool]
                self._inside[pool] += 1

    def of(self, node: int) -> int:
        """The pool for values like a node's."""
        built = self._run.built
        key = built.shapes[node], built.nodes[node].lanes
        if key not in self._numbers:
            self._numbers[key] = len(self._numbers)
            self._inside.append(0)
            self._outside.append([])
        return self._numbers[key]

    def are_outside(self, nodes: list[int]) -> bool:
        """Whether no node of the loop is among these."""
        return self._are_inside.isdisjoint(nodes)

    def slots_of(self, nodes: list[int]) -> np.ndarray:
        """Where operands are."""
        for node in nodes:
            if node not in self.slot:
                pool = self.of(node)
                outside = self._outside[pool]
                self.slot[node] = self._inside[pool] + 1 + len(outside)
                outside.append(node)
        return np.array([self.slot[node] for node in nodes], np.int32)

    def slots_of_results(self, steps: list[int]) -> np.ndarray:
        """Where the nodes of a class go; -1 stands for none, which is thrown away."""
        away = self._inside[self.of(next(node for node in steps if node >= 0))]
        return np.array([self.slot.get(node, away) for node in steps], np.int32)

    def begin(self) -> list[Array]:
        """The pools before the first step."""
        pools = []
        for (shape, lanes), inside, outside in zip(
            self._numbers, self._inside, self._outside, strict=True
        ):
            shape = (lanes, *shape) if lanes else shape
            pool = jnp.zeros((inside + 1, *shape), np.float32)
            if outside:
                several = self._run._several(outside)
                arrays = several.array[None] if several.are_one else several.array
                pool = jnp.concatenate([pool, arrays])
            pools.append(pool)
        return pools


def _with_others(steps: list[int]) -> list[int]:
    """Nodes of a class by step, with another one where there is none."""
    other = next(node for node in steps if node >= 0)
    return [node if node >= 0 else other for node in steps]


def _side_by_side(columns: list[Column]) -> Column:
    """Columns of like nodes as one, whose first axis is that of the nodes."""
    numbers = np.stack([x.numbers for x in columns])
    if all(x.places is None for x in columns):
        return Column(numbers, None)
    none = np.full(numbers.shape[1:], -1, np.int32)
    return Column(numbers, np.stack([none if p is None else p for _, p in columns]))


def _filled(column: Column, flat: dict[Any, Array]) -> Array:
    """A column for these arguments."""
    numbers, places = column
    if places is None:
        return jnp.asarray(numbers)
    picked = _taken(flat[numbers.dtype], np.maximum(places, 0).ravel().tolist())
    picked = picked.reshape(places.shape)
    return picked if (places >= 0).all() else jnp.where(places < 0, numbers, picked)


def _taken(array: Array, rows: list[int]) -> Array:
    """Rows of an array, by slices where that does."""
    first, last, count = rows[0], rows[-1], len(rows)
    if rows == [*range(first, first + count)]:
        return array if count == len(array) else array[first : last + 1]
    if rows == [*range(first, first - count, -1)]:
        return array[last : first + 1][::-1]
    return jnp.take(array, np.array(rows, np.int32), axis=0, mode="clip")


def _as_npvalue(value: Value) -> Array:
    """As `npvalue` has it; one number without dimensions."""
    array = batch_last(value)
    is_number = value.true_shape == (1,) and value.lanes <= 1
    return array.reshape(()) if is_number else array
