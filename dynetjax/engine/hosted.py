"""Increments that are computed where Python runs.

On a CPU, a call of XLA takes several times as long as the few small nodes of a parser's
step. So where the device is the host, NumPy computes them one after the other, by the
same functions of JAX, translated. What has no translation, what is random and what has
a batch is left to `engine/increments.py`.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from itertools import chain, repeat
from math import prod
from typing import Any, NamedTuple

import jax
import numpy as np

from dynetjax.dims import Shape, pad
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
KEPT = 4096  # macros
_TYPES: dict[str, type] = {"i": np.int32, "f": np.float32}

Array = Any
Rows = Callable[[int, int], np.ndarray]


class Kernel(NamedTuple):
    """How the nodes of a macro are computed.

    Attributes:
        compute: ``(node, what it reads, host) -> value``.
        places: where a node's args name what it reads; None where that is all of them.
        shapes: of what it reads.
        work: numbers that it reads of parameters, and computes.
    """

    compute: Callable[[Expression, list[np.ndarray], "Host"], Array]
    places: tuple[int, ...] | None
    shapes: tuple[Shape, ...]
    work: int


class Host(dict[int, np.ndarray]):
    """The values of one graph's stored nodes that are on the host, by number."""

    __slots__ = ("_arrays", "_rows", "_uniforms")

    def __init__(self, uniforms: Uniforms):
        self._uniforms = uniforms
        self._arrays: dict[tuple[int, ...], list[np.ndarray]] = {}
        self._rows: Rows | None = None

    def __missing__(self, number: int) -> np.ndarray:
        assert self._rows is not None
        value = self[number] = self._rows(number, 1)[0]
        return value

    def uniforms(self, kinds: tuple[int, ...]) -> list[np.ndarray]:
        """The arrays of uniforms that are known by their ids."""
        found = self._arrays.get(kinds)
        if found is None:
            several = self._uniforms.several(kinds)
            found = self._arrays[kinds] = [np.asarray(array) for array in several]
        return found

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
                self[number] = self._value(cell, kernel)
        except BaseException:
            self.forget(start, start + len(cells))
            raise
        finally:
            self._rows = None  # it may have this one

    def _value(self, cell: Expression, kernel: Kernel) -> Array:
        numbers = cell.inner
        if kernel.places is not None:
            numbers = tuple([numbers[place] for place in kernel.places])
        if NOTHING in numbers:
            read = self._with_zeros(numbers, kernel.shapes)
        else:
            read = [self[number] for number in numbers]
        return kernel.compute(cell, read, self)

    def _with_zeros(self, numbers: Sequence[int], shapes: Sequence[Shape]) -> list:
        """The values of nodes, or of NOTHING."""
        several = chain(shapes, repeat(shapes[-1]))
        return [
            np.zeros(shape, np.float32) if n == NOTHING else self[n]
            for n, shape in zip(numbers, several, strict=False)
        ]


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
    graph: ComputationGraph, start: int, host: Host, rows: Rows
) -> Hosted | None:
    """Compute the stored nodes from `start` on; None if they are not for the host."""
    with phase("plan"):
        cells = graph.cells[start:]
        kernels = _kernels(cells)
    if kernels is None:
        return None
    with phase("run"), np.errstate(all="ignore"):
        host.compute(start, cells, kernels, rows)
    return Hosted(start, start + len(cells), host)


def _kernels(cells: list[Expression]) -> list[Kernel] | None:
    """How to compute nodes; None if that is not known, or too much for the host."""
    if len(cells) > MOST_NODES:
        return None
    found, work = [], 0
    for cell in cells:
        macro = cell.rule.macro
        kernel = _kernel(macro_of_rule(cell.rule) if macro < 0 else macro)
        if kernel is None or cell.lanes != 1:
            return None
        if kernel.places is None and cell.data is not None:  # elements of a batch
            return None
        found.append(kernel)
        work += kernel.work
    return found if work <= MOST_WORK else None


@lru_cache(maxsize=KEPT)
def _kernel(number: int) -> Kernel | None:
    """How nodes of a macro are computed; None if that is not for the host."""
    macro = MACROS[number]
    shapes = tuple(leaf.shape for leaf in macro.leaves)
    work = sum(prod(step.signature.shape) for step in macro.steps)
    if macro.form == MAP:
        try:
            return _mapped(macro, shapes, work)
        except NotTranslatedError:
            return None
    compute = _OF_FORMS.get(macro.form)
    if compute is None:
        return None
    places = None if macro.form in (REDUCE, JOIN) else ()
    return Kernel(partial(compute, macro), places, shapes, work)


def _mapped(macro: Macro, shapes: tuple[Shape, ...], work: int) -> Kernel:
    """How nodes are computed whose macro is made of functions of JAX."""
    if any("k" in step.signature.op.runtime for step in macro.steps):
        raise NotTranslatedError("something random")
    kinds = macro.kinds
    for kind in kinds:
        owner = OWNERS.get(kind.source) if kind.is_parameter else None
        if owner is not None and owner.is_table:
            raise NotTranslatedError("a whole table")
    fields = tuple(
        (place, _TYPES[macro.steps[step].signature.op.runtime[field]])
        for (step, field), place in macro.fields.items()
    )
    floats = [*[kind.shape for kind in kinds], *shapes]
    arguments = [jax.ShapeDtypeStruct(shape, np.float32) for shape in floats]
    arguments += [jax.ShapeDtypeStruct((), kind) for _, kind in fields]
    run = translated(_function(macro), *arguments)
    work += sum(prod(kind.shape) for kind in kinds)
    uniforms = tuple(kind.id for kind in kinds)

    def compute(cell: Expression, read: list[np.ndarray], host: Host) -> Array:
        for place, kind in fields:
            given = cell.inner[place]
            read.append(kind(given[0] if type(given) is list else given))
        return run(*host.uniforms(uniforms), *read)

    return Kernel(compute, tuple(macro.places), shapes, work)


def _function(macro: Macro) -> Callable[..., Array]:
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


def _row(macro: Macro, cell: Expression, read: list, host: Host) -> Array:
    """The row of a table that a node reads, as it is now."""
    row = cell.data[0] if type(cell.data) is list else cell.data
    table = OWNERS.get(macro.kinds[0].source)
    if table is None:
        return np.zeros(macro.shape, np.float32)
    return table.host_rows([row])[0]  # a copy: a view would keep it from being donated


def _given(macro: Macro, cell: Expression, read: list, host: Host) -> Array:
    """What the user gave."""
    return np.array(cell.data[0], np.float32)


def _sum(macro: Macro, cell: Expression, read: list, host: Host) -> Array:
    return sum(read[1:], read[0])


def _side_by_side(macro: Macro, cell: Expression, read: list, host: Host) -> Array:
    """Rows as columns; those that are missing are zero."""
    axis = macro.steps[0].signature.static[1]
    shape = pad(macro.leaves[0].shape, axis + 1)
    missing = [np.zeros(shape, np.float32)] * (FAN_IN - len(read))
    return np.concatenate([*[x.reshape(shape) for x in read], *missing], axis)


_OF_FORMS = {INPUT: _given, JOIN: _side_by_side, LOOKUP: _row, REDUCE: _sum}
