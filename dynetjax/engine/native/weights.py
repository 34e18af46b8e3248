"""Weights on the host: parameters, and matrices made of parameters."""

import weakref
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from dynetjax.core.dims import pad, trim
from dynetjax.core.registry import KINDS, MAP, OPS, Kind
from dynetjax.core.tables import remembers
from dynetjax.engine.ir.fused import FusedStep
from dynetjax.engine.native.program import program_of
from dynetjax.engine.xla.weights import Weights, signature_of
from dynetjax.native import core

# The order in which operations put axes, by how many there are and static arguments.
ORDERS: dict[str, Callable[..., tuple[int, ...]]] = {
    "lookup_table": lambda count: (*range(1, count), 0),
    "transpose": lambda count, order: order,
}


@remembers
def _order_of(number: int) -> tuple[int, ...] | None:
    """Where each axis of a weight is in its only operand, if it is that reordered."""
    signature = signature_of(KINDS[number])
    op = signature.op
    if op.name not in ORDERS or OPS[op.name] is not op:  # a user's may have its name
        return None
    return ORDERS[op.name](len(KINDS[number].shape), *signature.static)


@remembers
def _program(number: int) -> Any:
    """What computes the weight of a kind from others."""
    signature = signature_of(KINDS[number])
    operands = tuple([("weight", kind.id) for kind in signature.operands])
    fused: Any = SimpleNamespace(
        form=MAP,
        shape=signature.shape,
        kinds=list(signature.operands),
        leaves=[],
        data="",
        steps=[FusedStep(signature, operands)],
    )
    return program_of(fused)


class _Level:
    """The weights of one level that were computed of those below it.

    Attributes:
        graph: the executor's, with a node for each.
        numbers: of the nodes, by kind id.
    """

    def __init__(self, tables: Any):
        self.graph: Any = core.Executor(tables)
        self.numbers: dict[int, int] = {}
        self._stored: Any = core.StoredNodes()

    def compute(self, number: int) -> bytes | None:
        """The numbers of the weight of a kind; None if it has no byte code."""
        at = self._stored.add(number, 1, (), (), 0)
        if self.graph.extend(self._stored, at) >= 0:
            self._stored.cut(at)
            return None
        self.numbers[number] = at
        return self.graph.rows(at)


class HostWeights:
    """The values of a graph's weights on the host, as they were when first read.

    Args:
        weights: the same on the device; both see one version of a parameter.
    """

    def __init__(self, weights: Weights):
        self._weights = weights
        self._levels: dict[int, _Level] = {}
        self._arrays = weights.arrays

    # what the executor asks for
    def program(self, number: int) -> Any:
        return _program(number)

    def weight(self, number: int) -> np.ndarray:
        array = self._arrays.get(number)
        if array is None:
            kind = KINDS[number]
            array = self._arrays[number] = np.ascontiguousarray(self._made(kind))
        return array

    def _made(self, kind: Kind) -> np.ndarray:
        """The array of a weight, or a view of another one's."""
        if kind.is_parameter:
            return self._weights.on_host(kind)
        order = _order_of(kind.id)
        if order is None:
            return self._computed(kind)
        (operand,) = signature_of(kind).operands
        kept = operand.is_parameter or operand.id in self._arrays  # as tables must be
        array = self.weight(operand.id) if kept else self._made(operand)
        return array.reshape(pad(trim(array.shape), len(order))).transpose(order)

    def _computed(self, kind: Kind) -> np.ndarray:
        """The array of a weight made of others."""
        level = self._levels.get(kind.level)
        if level is None:  # a graph keeps its tables: its memory would wait for the gc
            level = self._levels[kind.level] = _Level(weakref.proxy(self))
        numbers = level.compute(kind.id)
        if numbers is None:
            return np.asarray(self._weights.value(kind))
        return np.frombuffer(numbers, np.float32).reshape(kind.shape)

    def pull_back(self, gradients: dict[int, list[Any]]) -> dict[int, list[Any]]:
        """Carry gradients of weights back to parameters; all of them, by kind id."""
        highest = max([KINDS[k].level for k in gradients], default=0)
        if not highest:
            return gradients
        by_kind = {k: list(g) for k, g in gradients.items()}
        for at in range(highest, 0, -1):
            here = [k for k in by_kind if KINDS[k].level == at]
            computed = [k for k in here if _order_of(k) is None]
            level = self._levels.get(at)
            known = {} if level is None else level.numbers
            if not all(k in known for k in computed):
                return self._weights.pull_back(gradients)  # by XLA
            for k in here:
                if k not in computed:
                    _put_back(k, by_kind)
            if level is not None and computed:
                self._pull_back(level, computed, by_kind)
        return by_kind

    def _pull_back(
        self, level: _Level, kinds: list[int], by_kind: dict[int, list[Any]]
    ) -> None:
        """Carry the gradients of weights of one level to what they are made of."""
        pulled: dict[int, np.ndarray] = {}

        def zeros(k: int) -> np.ndarray:
            array = pulled[k] = np.zeros(KINDS[k].shape, np.float32)
            return array

        totals = [np.ascontiguousarray(_total(by_kind[k])) for k in kinds]
        numbers = [level.numbers[k] for k in kinds]
        roots = [*zip(numbers, totals, strict=True)]
        level.graph.backward(roots, 0, False, zeros)
        operands = [x for k in kinds for x in signature_of(KINDS[k]).operands]
        for operand in dict.fromkeys(operands):
            if not operand.constant:
                by_kind.setdefault(operand.id, []).append(pulled[operand.id])


def _put_back(number: int, by_kind: dict[int, list[Any]]) -> None:
    """Carry the gradient of a weight to the operand that it is in another order."""
    (operand,) = signature_of(KINDS[number]).operands
    order = _order_of(number)
    assert order is not None
    if not operand.constant:
        total = _total(by_kind[number]).transpose(np.argsort(order))
        array = total.reshape(operand.shape)
        if operand.is_parameter:
            array = np.ascontiguousarray(array)
        by_kind.setdefault(operand.id, []).append(array)


def _total(gradients: list[Any]) -> np.ndarray:
    """The sum of gradients of one weight."""
    return sum(gradients[1:], gradients[0])
