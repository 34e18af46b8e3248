"""Runs JAX functions in tier 0 by themselves, without graphs of the user."""

from math import prod
from types import SimpleNamespace

import numpy as np

from dynetjax.core.registry import INPUT, MAP, Op
from dynetjax.engine.ir.draws import Draws
from dynetjax.engine.ir.fused import FusedStep
from dynetjax.engine.ir.structures import FORMS
from dynetjax.engine.native import core
from dynetjax.engine.native.program import program_of


def program(function, shape, weights=(), operands=(), types="", constant=()):
    """The program of a function of weights, operands and runtime data.

    Args:
        shape: of its result.
        weights, operands: shapes.
        types: of the runtime data, a letter each.
        constant: numbers of weights that have no gradient.
    """
    op = Op("function", function, runtime=types, internal=True)
    named = [("weight", k) for k in range(len(weights))]
    named += [("leaf", k) for k in range(len(operands))]
    kinds = [
        SimpleNamespace(
            id=k, shape=tuple(s), is_parameter=False, constant=k in constant
        )
        for k, s in enumerate(weights)
    ]
    fused = SimpleNamespace(
        form=MAP,
        shape=tuple(shape),
        kinds=kinds,
        leaves=[SimpleNamespace(shape=tuple(s)) for s in operands],
        data=types,
        steps=[FusedStep(SimpleNamespace(op=op, static=()), tuple(named))],
    )
    return program_of(fused)


def plain(form, size, **about):
    """A program that has no code, such as that of an input."""
    return core.Program(form=FORMS[form], size=size, **about)


def node(number, *reads, lanes=1, data=(), index=0, given=None):
    """What the executor sees of a node: the arguments of `StoredNodes.add`."""
    return number, lanes, reads, data, index, given


def words(data, types, lanes=1):
    """Runtime data, each a list of as many as there are lanes or one, as words."""
    found = []
    for x, letter in zip(data, types, strict=True):
        count = 1 if letter == "k" else lanes
        several = x if isinstance(x, list) else [x] * count
        as_floats = np.array(several, np.float32 if letter == "f" else np.int32)
        found += as_floats.view(np.int32).tolist()
    return found


def stored(nodes):
    """The `StoredNodes` of these."""
    made = core.StoredNodes()
    for about in nodes:
        made.add(*about)
    return made


class Tables:
    """What the executor asks for, from dictionaries."""

    def __init__(self, programs, weights=(), table=None, older=None):
        self.programs, self.weights = programs, weights
        self.table, self.older = table, older
        self.draws = Draws(lambda: 7, [])
        self.asked = []

    def program(self, number):
        return self.programs.get(number)

    def weight(self, kind):
        return np.ascontiguousarray(self.weights[kind], np.float32)

    def lookup(self, kind, ids):
        return np.ascontiguousarray(self.table[np.frombuffer(ids, np.int32)])

    def rows(self, number):
        self.asked.append(number)
        return self.older(number)


class Run:
    """One node of a function, computed.

    Args:
        function: of weights, operands and runtime data.
        operands: arrays ``[lanes, *shape]``; with one lane, all lanes read it.
        weights: arrays.
        data: a list of as many as there are lanes, or one for all.
        types: of the data.
    Attributes:
        value: ``[lanes, *shape]``.
    """

    def __init__(self, function, shape, operands=(), weights=(), data=(), types=""):
        operands = [np.ascontiguousarray(x, np.float32) for x in operands]
        self.shape, self.weights = tuple(shape), weights
        self.lanes = max(1, *map(len, operands)) if operands else 1
        shapes = [np.shape(u) for u in weights], [x.shape[1:] for x in operands]
        made = program(function, shape, *shapes, types)
        assert made is not None, "it has no byte code"
        programs = {0: made}
        nodes = []
        for k, x in enumerate(operands, 1):
            programs[k] = plain(INPUT, prod(x.shape[1:]))
            nodes.append(node(k, lanes=len(x), given=x))
        data = words(data, types, self.lanes)
        nodes.append(node(0, *range(len(operands)), data=data, lanes=self.lanes))
        self.graph = core.Executor(Tables(programs, weights))
        assert self.graph.extend(stored(nodes), 0) == -1
        self.operands, self.root = operands, len(operands)
        found = np.frombuffer(self.graph.rows(self.root), np.float32)
        self.value = found.reshape(self.lanes, *self.shape)

    def gradients(self, seed):
        """Of weights, then of operands: what the seed ``[lanes, *shape]`` comes to."""
        found = {}

        def zeros(kind):
            found[kind] = np.zeros(np.shape(self.weights[kind]), np.float32)
            return found[kind]

        seed = np.ascontiguousarray(seed, np.float32)
        self.graph.backward([(self.root, seed)], 0, True, zeros)
        several = [found[k] for k in range(len(self.weights))]
        for k, x in enumerate(self.operands):
            rows = self.graph.gradient(k)
            none = np.zeros(x.size, np.float32)
            array = none if rows is None else np.frombuffer(rows, np.float32)
            several.append(array.reshape(x.shape))
        return several


def central_differences(function, arrays, seed, step=1e-6):
    """Gradients of the sum of `seed` times a function of float64 arrays."""
    found = []
    for at, x in enumerate(arrays):
        slope = np.zeros(x.shape)
        for place in np.ndindex(x.shape):
            ends = []
            for by in (step, -step):
                moved = [np.array(a, np.float64) for a in arrays]
                moved[at][place] += by
                ends.append(np.sum(seed * function(*moved)))
            slope[place] = (ends[0] - ends[1]) / (2 * step)
        found.append(slope)
    return found


def on_lanes(function, lanes, weights=0):
    """A NumPy function of single rows, of batches; the first operands are weights."""

    def whole(*arrays):
        rows = [
            function(
                *arrays[:weights],
                *[x[0 if len(x) == 1 else lane] for x in arrays[weights:]],
            )
            for lane in range(lanes)
        ]
        return np.stack(rows)

    return whole
