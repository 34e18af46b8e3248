"""Graphs whose parts lie on several devices, which JAX computes node by node.

What the user has named a device for lies there: parameters, inputs, and what went
through `to_device`. An operation runs where its operands lie. What has no device of its
own comes from the host, or was computed on the default device, and goes to wherever it
is read. Between graphs parameters stay on the host.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from dynetjax.core.devices import device_named
from dynetjax.core.errors import error_text
from dynetjax.core.expression import Expression
from dynetjax.core.functions import (
    Value,
    computed,
    description,
    needed,
    row_ids,
    storage_of,
)
from dynetjax.core.lazy import jax
from dynetjax.core.registry import (
    DEVICES,
    INPUT,
    LOOKUP,
    PARAMETER,
    Kind,
    Op,
)
from dynetjax.core.tables import forgets
from dynetjax.engine import policy
from dynetjax.engine.ir.draws import Draws, keys_of
from dynetjax.engine.stats import note_run, phase
from dynetjax.graph import ComputationGraph

Array = Any
KEPT = 1 << 10  # functions


def is_divided(graph: ComputationGraph) -> bool:
    """Whether parts of a graph lie on devices of their own."""
    names = {*graph.devices.values()}
    if DEVICES:
        read = filter(None, map(storage_of, needed(graph.nodes)))
        names.update([DEVICES[x.ident] for x in read if x.ident in DEVICES])
    return bool(names) and policy.divides(names)


class _Made(NamedTuple):
    """What was computed of a node.

    Attributes:
        device: that it must lie on; "" if it may lie anywhere.
        learned: it follows from something that is.
        go_back: gives the cotangents of its operands for its own; None for a leaf.
    """

    array: Array
    device: str
    learned: bool
    go_back: Callable[[Array], tuple[Array, ...]] | None


class Divided:
    """What was computed of a graph, each node on its device.

    Args:
        draws: gives random nodes their numbers.

    Attributes:
        made: by node, operands first.
    """

    def __init__(self, draws: Draws):
        self._draws = draws
        self.made: dict[Expression, _Made] = {}

    def rows(self, nodes: list[Expression]) -> list[np.ndarray]:
        """Values ``[batch, *shape]``; what is new of these nodes is computed."""
        new = needed(nodes, self.made)
        graphs = [node.graph for node in new if node.graph is not None]
        if graphs:
            note_run(graphs[0], interpreted=False)
        with phase("run", 1, " forward"):
            for node in new:
                self.made[node] = self._make(node)
        values = [np.asarray(self.made[node].array) for node in nodes]
        pairs = zip(values, nodes, strict=True)
        return [value if node.lanes else value[None] for value, node in pairs]

    def revert(self) -> None:
        """Keep what was computed of nodes that are there still."""
        gone = [x for x in self.made if not x.is_live]
        for node in gone:
            del self.made[node]

    def _make(self, node: Expression) -> _Made:
        about, storage = description(node), storage_of(node)
        named = _device_named_for(node, storage)
        learned = storage is not None and not about.constant
        form = about.op.form
        if form in (INPUT, LOOKUP, PARAMETER):
            given = np.asarray(about.data) if form == INPUT else _read(node, storage)
            return _Made(_on(named, given), named, learned, None)
        operands = [self.made[x] for x in node.operands]
        batches = [x.lanes for x in node.operands]
        if storage is not None:  # a table as a whole
            operands = [_Made(storage.host_values(), named, learned, None)]
            batches = [0]
        functions = _functions(about.op, about.static, tuple(batches), about.lanes)
        arrays = [x.array for x in operands]
        device = named or _device_of(about.op, operands)
        array, pull_back = functions[0](arrays, about.columns(lambda: self._keys(node)))
        return _Made(
            _on(named, array),
            device,
            any(x.learned for x in operands),
            lambda cotangent: functions[1](pull_back, cotangent),
        )

    def _keys(self, node: Expression) -> np.ndarray:
        return keys_of(self._draws, np.array([node.index]), np.array([node.lanes]))


class DividedBackward:
    """The gradients of one node of one number, each on the device of its node.

    Attributes:
        node: where it begins.
        full: whether gradients went to constants, too.
        reached: the parameters that nodes up to it read, but for constant ones.
        weight_gradients: of parameters and what is computed of them, by kind id.
    """

    def __init__(self, divided: Divided, node: Expression, full: bool):
        self.node, self.full = node, full
        divided.rows([node])
        with phase("run", 1, " back"):
            self._gradients: dict[Expression, Array] = _gradients(divided, node, full)
        self.reached: frozenset[Kind] = _reached(node)
        self.weight_gradients: dict[int, list[Any]] = {}
        for x, gradient in self._gradients.items():
            if not x.lanes:
                several = self.weight_gradients.setdefault(x.signature.kind.id, [])
                several.append(np.asarray(gradient))

    def pulled_back(self, gradients: dict[int, list[Any]]) -> dict[int, list[Any]]:
        """Return `gradients` as they are: parameters are nodes like others here."""
        return gradients

    def touched(self) -> Iterator[tuple[int, np.ndarray, Any]]:
        """Of every lookup up to the node: kind id of the table, row ids, gradients."""
        for node, gradient in self._gradients.items():
            signature = node.signature
            if signature.op.form == LOOKUP and not signature.operands[0].constant:
                yield signature.operands[0].id, row_ids(node.data), np.asarray(gradient)

    def has(self, node: Expression) -> bool:
        """Whether it knows the gradient of a node, which it does."""
        return True

    def rows(self, node: Expression) -> np.ndarray:
        """The gradient of a node, ``[batch, *shape]``."""
        gradient = self._gradients.get(node)
        if gradient is None:
            return np.zeros((node.lanes, *node.full_dim.shape), np.float32)
        return np.asarray(gradient)


def _gradients(
    divided: Divided, root: Expression, full: bool
) -> dict[Expression, Array]:
    """Of what `root` is made of, or of what is learned among it."""
    made = divided.made
    begin = np.ones(made[root].array.shape, np.float32)
    gradients = {root: _on(made[root].device, begin)}
    for node in reversed([*made]):
        go_back = made[node].go_back
        if node not in gradients or go_back is None:
            continue
        cotangents = go_back(gradients[node])
        for x, cotangent in zip(node.operands, cotangents, strict=True):
            if full or made[x].learned:
                there = jax.device_put(cotangent, device_named(made[x].device))
                known = gradients.get(x)
                gradients[x] = there if known is None else known + there
    return gradients


@lru_cache(maxsize=KEPT)
def _functions(
    op: Op, static: tuple[Any, ...], batches: tuple[int, ...], lanes: int
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """An operation with its pull-back, and what carries a cotangent through that.

    `batches` are those of the operands, and `lanes` that of the result.
    """

    def run(arrays, columns):
        def value(*xs):
            operands = [Value(x, n) for x, n in zip(xs, batches, strict=True)]
            return computed(op, static, operands, columns, lanes)

        return jax.vjp(value, *arrays)

    return jax.jit(run), jax.jit(lambda pull_back, cotangent: pull_back(cotangent))


forgets(_functions.cache_clear)


def _on(device: str, array: Array) -> Array:
    """`array`, copied to the named device; unchanged if `device` is empty."""
    return jax.device_put(array, device_named(device)) if device else array


def _device_named_for(node: Expression, storage: Any) -> str:
    """The name of the device that the user wants a node on; "" for none."""
    if storage is not None:
        return DEVICES.get(storage.ident, "")
    return node.graph.devices.get(node.index, "")


def _device_of(op: Op, operands: list[_Made]) -> str:
    """Name of the device on which all operands lie; "" if they may lie anywhere.

    Raises:
        ValueError: they lie on several.
    """
    names = [*dict.fromkeys([x.device for x in operands if x.device])]
    if len(names) > 1:
        raise ValueError(
            error_text(
                f"{op.name}: the operands lie on several devices",
                got=", ".join(names),
                expected="one device",
                fix=f'move them there: to_device(e, "{names[0]}")',
            )
        )
    return names[0] if names else ""


def _read(node: Expression, storage: Any) -> np.ndarray:
    """A parameter, or rows of a table."""
    if node.signature.op.form == PARAMETER:
        return storage.host_values()
    return storage.host_rows(row_ids(node.data))


def _reached(root: Expression) -> frozenset[Kind]:
    """The parameters that nodes up to this one read, but for constant ones."""
    nodes = needed(root.graph.nodes[: root.index + 1])
    read = [n.signature for n in nodes if storage_of(n) is not None]
    kinds = [s.operands[0] for s in read if s.op.form != LOOKUP]
    return frozenset([kind for kind in kinds if not kind.constant])
