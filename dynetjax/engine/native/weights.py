"""Weights on the host: parameters, and matrices made of parameters."""

from types import SimpleNamespace
from typing import Any

import numpy as np

from dynetjax.core.registry import KINDS, MAP, OWNERS, Kind
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


class HostWeights:
    """The values of a graph's weights on the host, as they were when first read.

    Args:
        weights: the same on the device; both see one version of a parameter.
    """

    def __init__(self, weights: Weights):
        self._weights = weights
        self._made: dict[Kind, tuple[np.ndarray, Any]] = {}
        self._arrays: dict[int, np.ndarray] = {}

    def value(self, kind: Kind) -> np.ndarray:
        """Its array."""
        if kind.is_parameter:
            return self._parameter(kind)
        return self._computed(kind)[0]

    # what the executor asks for
    def program(self, number: int) -> Any:
        return _program(number)

    def weight(self, number: int) -> np.ndarray:
        array = self._arrays.get(number)
        if array is None:
            array = self._arrays[number] = self.value(KINDS[number])
        return array

    def _parameter(self, kind: Kind) -> np.ndarray:
        owner = OWNERS.get(kind.source)
        if owner is not None and owner.is_table:  # a copy, as updates change tables
            return np.array(owner.host_values(), np.float32)
        return self._weights.on_host(kind)

    def _computed(self, kind: Kind) -> tuple[np.ndarray, Any]:
        """The array of a weight made of others, and the graph that made it."""
        made = self._made.get(kind)
        if made is None:
            graph: Any = core.Graph(self)
            outcome = graph.extend([_node(kind.id)], 0)
            if outcome >= 0:  # no byte code: by XLA
                array = np.asarray(self._weights.value(kind))
                graph = None
            else:
                array = np.frombuffer(graph.rows(0), np.float32).reshape(kind.shape)
            made = self._made[kind] = array, graph
        return made

    def pull_back(self, gradients: dict[int, list[Any]]) -> dict[int, list[Any]]:
        """Carry gradients of weights back to parameters; all of them, by kind id."""
        level = max([KINDS[k].level for k in gradients], default=0)
        if not level:
            return gradients
        by_kind = {k: list(g) for k, g in gradients.items()}
        for at in range(level, 0, -1):
            for number in [k for k in by_kind if KINDS[k].level == at]:
                kind = KINDS[number]
                graph = self._computed(kind)[1]
                if graph is None:
                    return self._weights.pull_back(gradients)
                total = sum(by_kind[number][1:], by_kind[number][0])
                pulled: dict[int, np.ndarray] = {}

                def zeros(k: int, pulled=pulled) -> np.ndarray:
                    array = pulled[k] = np.zeros(KINDS[k].shape, np.float32)
                    return array

                graph.backward(0, 0, False, zeros, np.ascontiguousarray(total))
                for k, array in pulled.items():
                    if not KINDS[k].constant:
                        by_kind.setdefault(k, []).append(array)
        return by_kind


def _node(number: int) -> Any:
    """What the executor sees of a node."""
    rule = SimpleNamespace(fused=number)
    return SimpleNamespace(rule=rule, lanes=1, inner=(), data=None, index=0)
