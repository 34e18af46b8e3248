"""Weights on the host: parameters, and matrices made of parameters."""

import weakref
from types import SimpleNamespace
from typing import Any

import numpy as np

from dynetjax.core.registry import KINDS, MAP, Kind
from dynetjax.core.tables import remembers
from dynetjax.engine.ir.fused import FusedStep
from dynetjax.engine.native import core
from dynetjax.engine.native.program import program_of
from dynetjax.engine.xla.weights import Weights, signature_of


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
        places=[],
        fields={},
        steps=[FusedStep(signature, operands, None)],
    )
    return program_of(fused)


@remembers
def _node(number: int) -> Any:
    """What the executor sees of the node that is the weight of a kind."""
    rule = SimpleNamespace(fused=number)
    return SimpleNamespace(rule=rule, lanes=1, inner=(), data=None, index=0)


class _Level:
    """The weights of one level that were computed of those below it.

    Attributes:
        graph: the executor's, with a node for each.
        numbers: of the nodes, by kind id.
    """

    def __init__(self, tables: Any):
        self.graph: Any = core.Graph(tables)
        self.numbers: dict[int, int] = {}
        self._nodes: list[Any] = []

    def compute(self, number: int) -> bytes | None:
        """The numbers of the weight of a kind; None if it has no byte code."""
        at, nodes = len(self._nodes), [*self._nodes, _node(number)]
        if self.graph.extend(nodes, at) >= 0:
            return None
        self._nodes, self.numbers[number] = nodes, at
        return self.graph.rows(at)


class HostWeights:
    """The values of a graph's weights on the host, as they were when first read.

    Args:
        weights: the same on the device; both see one version of a parameter.
    """

    def __init__(self, weights: Weights):
        self._weights = weights
        self._levels: dict[int, _Level] = {}
        self._arrays: dict[int, np.ndarray] = {}

    # what the executor asks for
    def program(self, number: int) -> Any:
        return _program(number)

    def weight(self, number: int) -> np.ndarray:
        array = self._arrays.get(number)
        if array is None:
            kind = KINDS[number]
            made = self._weights.on_host if kind.is_parameter else self._computed
            array = self._arrays[number] = made(kind)
        return array

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
            level = self._levels.get(at)
            if level is None or not all(k in level.numbers for k in here):
                return self._weights.pull_back(gradients)  # by XLA
            self._pull_back(level, here, by_kind)
        return by_kind

    def _pull_back(
        self, level: _Level, kinds: list[int], by_kind: dict[int, list[Any]]
    ) -> None:
        """Carry the gradients of weights of one level to what they are made of."""
        pulled: dict[int, np.ndarray] = {}

        def zeros(k: int) -> np.ndarray:
            array = pulled[k] = np.zeros(KINDS[k].shape, np.float32)
            return array

        totals = [sum(by_kind[k][1:], by_kind[k][0]) for k in kinds]
        roots = [
            (level.numbers[k], np.ascontiguousarray(total))
            for k, total in zip(kinds, totals, strict=True)
        ]
        level.graph.backward(roots, 0, False, zeros)
        operands = [x for k in kinds for x in signature_of(KINDS[k]).operands]
        for operand in dict.fromkeys(operands):
            if not operand.constant:
                by_kind.setdefault(operand.id, []).append(pulled[operand.id])
