"""Increments that are computed where Python runs.

On a CPU, a call of XLA takes several times as long as the few small nodes of a parser's
step. So where the device is the host, NumPy computes them one after the other, by the
same functions of JAX, translated. What has no translation, what is random and what has
a batch is left to `engine/increments.py`.
"""

from collections.abc import Callable
from functools import lru_cache, partial
from math import prod
from typing import Any, NamedTuple

import jax
import numpy as np

from dynetjax.dims import pad
from dynetjax.engine.macros import MACROS, Macro, macro_of_rule
from dynetjax.engine.stats import phase
from dynetjax.engine.translate import NotTranslatedError, translated
from dynetjax.engine.uniforms import Uniforms
from dynetjax.expression import Expression
from dynetjax.graph import NOTHING, ComputationGraph
from dynetjax.ops.registry import (
    FAN_IN,
    INPUT,
    JOIN,
    LOOKUP,
    MAP,
    OWNERS,
    REDUCE,
)

MOST_NODES = 48
MOST_WORK = 1 << 20  # numbers that an increment reads of parameters, and computes
TENTATIVE = 4096, 1 << 27  # of a whole graph, and of what is read at once
KEPT = 4096  # macros
_TYPES: dict[str, type] = {"i": np.int32, "f": np.float32}

Array = Any
Rows = Callable[[int, int], np.ndarray]


class Kernel(NamedTuple):
    """How the nodes of a macro are computed.

    Attributes:
        compute: ``(node, host) -> value``.
        listed: nodes read any number of rows, or elements of batches.
        work: numbers that it reads of parameters, and computes.
    """

    compute: Callable[[Expression, "Host"], Array]
    listed: bool
    work: int


class _Arrays(dict[tuple[int, ...], list[np.ndarray]]):
    """The arrays of uniforms, by their ids."""

    def __init__(self, uniforms: Uniforms):
        self._uniforms = uniforms

    def __missing__(self, kinds: tuple[int, ...]) -> list[np.ndarray]:
        several = self._uniforms.several(kinds)
        found = self[kinds] = [np.asarray(array) for array in several]
        return found


class Host(dict[int, np.ndarray]):
    """The values of one graph's stored nodes that are on the host, by number.

    Attributes:
        uniforms: the arrays of these, by their ids.
    """

    __slots__ = ("_rows", "uniforms")

    def __init__(self, uniforms: Uniforms):
        self.uniforms = _Arrays(uniforms)
        self._rows: Rows | None = None

    def __missing__(self, number: int) -> np.ndarray:
        assert self._rows is not None
        value = self[number] = self._rows(number, 1)[0]
        return value

    def forget(self, start: int, stop: int) -> None:
        """Have the values of nodes no more."""
        for number in range(start, stop):
            self.pop(number, None)

    def compute(
        self, start: int, cells: list[Expression], kernels: list[Kernel], rows: Rows
    ) -> None:
        """Compute nodes, the first of which is number `start`.

        `rows` tells those of earlier nodes, given the number and the batch size.
        """
        self._rows = rows
        try:
            several = zip(cells, kernels, strict=True)
            for number, (cell, kernel) in enumerate(several, start):
                self[number] = kernel.compute(cell, self)
        except BaseException:
            self.forget(start, start + len(cells))
            raise
        finally:
            self._rows = None  # it may have this one


class Hosted:
    """A part of a graph that was computed on the host.

    Attributes:
        start, stop: number of its first node, and one more than that of its last.
    """

    def __init__(self, start: int, stop: int, host: Host):
        self.start, self.stop, self._host = start, stop, host

    def rows(self, number: int, batch: int) -> np.ndarray:
        """The value of a node that was computed here, ``[1, *shape]``."""
        del batch
        return self._host[number][None]


def compute_here(
    graph: ComputationGraph, start: int, host: Host, rows: Rows, tentative: bool
) -> Hosted | None:
    """Compute the stored nodes from `start` on; None if they are not for the host.

    Of a `tentative` graph much more is, as a program would have to be compiled.
    """
    with phase("plan"):
        cells = graph.cells[start:]
        if tentative:
            kernels = _kernels(cells, len(graph.cells), *TENTATIVE)
        else:
            kernels = _kernels(cells, len(cells), MOST_NODES, MOST_WORK)
    if kernels is None:
        return None
    with phase("run"), np.errstate(all="ignore"):
        host.compute(start, cells, kernels, rows)
    return Hosted(start, start + len(cells), host)


def _kernels(
    cells: list[Expression], count: int, most_nodes: int, most_work: int
) -> list[Kernel] | None:
    """How to compute nodes; None if that is not known, or too much for the host."""
    if count > most_nodes:
        return None
    found, work = [], 0
    for cell in cells:
        if cell.lanes != 1:
            return None
        macro = cell.rule.macro
        kernel = _kernel(macro_of_rule(cell.rule) if macro < 0 else macro)
        if kernel is None:
            return None
        if kernel.listed and cell.data is not None:  # elements of a batch
            return None
        found.append(kernel)
        work += kernel.work
    return found if work <= most_work else None


@lru_cache(maxsize=KEPT)
def _kernel(number: int) -> Kernel | None:
    """How nodes of a macro are computed; None if that is not for the host."""
    macro = MACROS[number]
    work = sum(prod(step.signature.shape) for step in macro.steps)
    if macro.form == MAP:
        try:
            return _mapped(macro, work)
        except NotTranslatedError:
            return None
    compute = _OF_FORMS.get(macro.form)
    if compute is None:
        return None
    return Kernel(partial(compute, macro), macro.form in (REDUCE, JOIN), work)


def _mapped(macro: Macro, work: int) -> Kernel:
    """How nodes are computed whose macro is made of functions of JAX."""
    if any("k" in step.signature.op.runtime for step in macro.steps):
        raise NotTranslatedError("something random")
    kinds = macro.kinds
    for kind in kinds:
        owner = OWNERS.get(kind.source) if kind.is_parameter else None
        if owner is not None and owner.is_table:
            raise NotTranslatedError("a whole table")
    run = translated(function_of(macro), *arguments_of(macro))
    work += sum(prod(kind.shape) for kind in kinds)
    return Kernel(caller(macro, run), False, work)


def arguments_of(macro: Macro) -> list[jax.ShapeDtypeStruct]:
    """What the function of a macro takes: uniforms, leaves and runtime data."""
    floats = [*[kind.shape for kind in macro.kinds], *[x.shape for x in macro.leaves]]
    arguments = [jax.ShapeDtypeStruct(shape, np.float32) for shape in floats]
    return arguments + [jax.ShapeDtypeStruct((), t) for _, t in _fields(macro)]


def _fields(macro: Macro) -> list[tuple[int, type]]:
    """Where a node's args have runtime data, and of which type that is."""
    return [
        (place, _TYPES[macro.steps[step].signature.op.runtime[field]])
        for (step, field), place in macro.fields.items()
    ]


def caller(macro: Macro, run: Callable[..., Any], *more: str) -> Callable[..., Any]:
    """``(node, host, *more)``: `run` of what the node reads, its data, and `more`."""
    uniforms = tuple(kind.id for kind in macro.kinds)
    scope: dict[str, Any] = {"run": run, "uniforms": uniforms}
    given = ["*host.uniforms[uniforms]"] if uniforms else []
    for place, leaf in zip(macro.places, macro.leaves, strict=True):
        scope[f"z{place}"] = np.zeros(leaf.shape, np.float32)
        given.append(f"host[n] if (n := args[{place}]) != {NOTHING} else z{place}")
    for place, kind in _fields(macro):
        scope[f"t{place}"] = kind
        given.append(f"t{place}(n[0] if type(n := args[{place}]) is list else n)")
    lines = "args = node.inner", f"return run({', '.join([*given, *more])})"
    head = f"def call({', '.join(['node', 'host', *more])}):"
    exec("\n    ".join([head, *lines]), scope)
    return scope["call"]


def function_of(macro: Macro) -> Callable[..., Array]:
    """What a macro computes of uniforms, leaves and runtime data, by JAX."""
    first = len(macro.kinds)

    def run(*arguments: Array) -> Array:
        uniforms = iter(arguments[:first])
        leaves = arguments[first:]
        data = iter(leaves[len(macro.leaves) :])
        values: list[Array] = []
        for step in macro.steps:
            op, operands = step.signature.op, []
            for what, n in step.operands:
                if what == "uniform":
                    operands.append(next(uniforms))
                else:
                    operands.append(values[n] if what == "step" else leaves[n])
            given = [next(data) for _ in op.runtime]
            values.append(op.bind(step.signature.static)(*operands, *given))
        return values[-1]

    return run


def _row(macro: Macro, cell: Expression, host: Host) -> Array:
    """The row of a table that a node reads, as it is now."""
    table = OWNERS.get(macro.kinds[0].source)
    if table is None:
        return np.zeros(macro.shape, np.float32)
    # a copy: a view would keep the table from being donated
    return table.host_rows([row_of(cell)])[0]


def row_of(cell: Expression) -> int:
    """The number of the row of a table that a node reads."""
    return cell.data[0] if type(cell.data) is list else cell.data


def _given(macro: Macro, cell: Expression, host: Host) -> Array:
    """What the user gave."""
    return np.array(cell.data[0], np.float32)


def _sum(macro: Macro, cell: Expression, host: Host) -> Array:
    rows = _rows(macro, cell, host)
    return sum(rows[1:], rows[0])


def _side_by_side(macro: Macro, cell: Expression, host: Host) -> Array:
    """Rows as columns; those that are missing are zero."""
    axis = macro.steps[0].signature.static[1]
    shape = pad(macro.leaves[0].shape, axis + 1)
    rows = _rows(macro, cell, host)
    missing = [np.zeros(shape, np.float32)] * (FAN_IN - len(rows))
    return np.concatenate([*[x.reshape(shape) for x in rows], *missing], axis)


def _rows(macro: Macro, cell: Expression, host: Host) -> list[np.ndarray]:
    """All rows that a node reads."""
    if NOTHING not in cell.inner:
        return [host[n] for n in cell.inner]
    zeros = np.zeros(macro.leaves[0].shape, np.float32)
    return [zeros if n == NOTHING else host[n] for n in cell.inner]


_OF_FORMS = {INPUT: _given, JOIN: _side_by_side, LOOKUP: _row, REDUCE: _sum}
