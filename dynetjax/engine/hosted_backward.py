"""Backward where Python runs, through a graph that was computed there.

It is for the graphs that come while their programs are compiled. Every node goes back
by the derivative of the function of JAX that computed it, as NumPy has it.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import islice
from typing import Any

import jax
import numpy as np

from dynetjax.engine.gradients import reached_by
from dynetjax.engine.hosted import (
    KEPT,
    Host,
    arguments_of,
    caller,
    function_of,
    row_of,
)
from dynetjax.engine.macros import MACROS, Macro, macro_of_rule
from dynetjax.engine.translate import NotTranslatedError, translated
from dynetjax.expression import Expression
from dynetjax.graph import NOTHING
from dynetjax.ops.registry import FAN_IN, INPUT, JOIN, KINDS, LOOKUP, MAP, REDUCE

Array = np.ndarray


class _Found:
    """Gradients, as far as they were found.

    Attributes:
        nodes: of stored nodes, by number.
        weights: of uniforms, by kind id.
    """

    def __init__(self) -> None:
        self.nodes: dict[int, Array] = {}
        self.weights: dict[int, Array] = {}

    def add(self, number: int, gradient: Array) -> None:
        """More for a node."""
        if number != NOTHING:
            _add(self.nodes, number, gradient)

    def weigh(self, kind: int, gradient: Array) -> None:
        """More for a uniform."""
        _add(self.weights, kind, gradient)


def _add(several: dict[int, Array], number: int, gradient: Array) -> None:
    """A new array, since others may have the old one."""
    known = several.get(number)
    several[number] = gradient if known is None else known + gradient


Pull = Callable[[Expression, Host, Array, _Found], None]


class HostedBackward:
    """The gradients of one node of one number, whose graph was computed on the host.

    Attributes:
        reached: the parameters that nodes up to it read, but for constant ones.
        weights: of parameters and what is computed of them, by kind id.
    """

    full = False

    def __init__(
        self,
        host: Host,
        node: Expression,
        pulls: list[Pull],
        rows: dict[int, list[int]],
    ):
        self.node, self._found, self._rows = node, _Found(), rows
        cells, root = node.graph.cells, node.args[0]
        self._found.nodes[root] = np.ones(MACROS[node.rule.macro].shape, np.float32)
        with np.errstate(all="ignore"):
            for number in range(root, -1, -1):
                cotangent = self._found.nodes.get(number)
                if cotangent is not None:
                    pulls[number](cells[number], host, cotangent, self._found)
        weights = self._found.weights.items()
        self.weights: dict[int, list[Any]] = {
            kind: [jax.device_put(gradient)] for kind, gradient in weights
        }
        self._lookups: dict[int, list[tuple[int, int]]] = {}  # by tables
        macros: set[int] = set()
        for number, cell in enumerate(cells):
            if cell.index > node.index:
                continue
            macros.add(macro_of_rule(cell.rule))
            macro = MACROS[cell.rule.macro]
            if macro.form == LOOKUP and not macro.kinds[0].constant:
                several = self._lookups.setdefault(macro.kinds[0].id, [])
                several.append((number, row_of(cell)))
        self.reached = reached_by(node, macros)

    def touched(self) -> Iterator[tuple[int, np.ndarray, Any]]:
        """Of every lookup up to the node: kind id of the table, row ids, gradients."""
        for table, lookups in self._lookups.items():
            several = [*self._rows.get(table, ())]
            if sum(several) < len(lookups):
                several.append(1 << (len(lookups) - 1).bit_length())
            count, *row = KINDS[table].shape
            rest = iter(lookups)
            for room in several:
                rows = np.full(room, count, np.int32)
                values = np.zeros((room, *row), np.float32)
                for k, (number, found) in enumerate(islice(rest, room)):
                    rows[k] = found
                    values[k] = self._found.nodes.get(number, 0)
                yield table, rows, jax.device_put(values)


def backward_here(
    host: Host, node: Expression, rows: dict[int, list[int]]
) -> HostedBackward | None:
    """Backward from a node whose graph `host` has; None if that is not for the host.

    Rows of tables come in arrays as long as `rows` says, if it does and they fit: for
    these, updates are compiled.
    """
    pulls = []
    for cell in node.graph.cells[: node.args[0] + 1]:
        pull = _pull(macro_of_rule(cell.rule))
        if pull is None:
            return None
        pulls.append(pull)
    return HostedBackward(host, node, pulls, rows)


@lru_cache(maxsize=KEPT)
def _pull(number: int) -> Pull | None:
    """How to go back through nodes of a macro; None if that is not known."""
    macro = MACROS[number]
    if macro.form == MAP:
        try:
            return _mapped(macro)
        except NotTranslatedError:
            return None
    return _OF_FORMS.get(macro.form)


def _mapped(macro: Macro) -> Pull:
    """How to go back through nodes whose macro is made of functions of JAX."""
    run, count = function_of(macro), len(macro.kinds)
    learned = [(n, kind.id) for n, kind in enumerate(macro.kinds) if not kind.constant]
    read = [*enumerate(macro.places, count)]
    wanted = [n for n, _ in (*learned, *read)]
    stop = count + len(read)

    def pull(*arguments: Any) -> list[Any]:
        floats, (*data, cotangent) = arguments[:stop], arguments[stop:]
        found = jax.vjp(lambda *xs: run(*xs, *data), *floats)[1](cotangent)
        return [found[n] for n in wanted]

    shape = jax.ShapeDtypeStruct(macro.shape, np.float32)
    call = caller(macro, translated(pull, *arguments_of(macro), shape), "cotangent")

    def back(cell: Expression, host: Host, cotangent: Array, found: _Found) -> None:
        several = iter(call(cell, host, cotangent))
        for _, kind in learned:
            found.weigh(kind, next(several))
        for _, place in read:
            found.add(cell.inner[place], next(several))

    return back


def _to_all(cell: Expression, host: Host, cotangent: Array, found: _Found) -> None:
    for number in cell.inner:
        found.add(number, cotangent)


def _to_each(cell: Expression, host: Host, cotangent: Array, found: _Found) -> None:
    """Columns go back to the rows that they come from."""
    macro = MACROS[cell.rule.macro]
    pieces = np.split(cotangent, FAN_IN, macro.steps[0].signature.static[1])
    for number, columns in zip(cell.inner, pieces, strict=False):
        found.add(number, columns.reshape(macro.leaves[0].shape))


def _nowhere(cell: Expression, host: Host, cotangent: Array, found: _Found) -> None:
    """Rows of tables are told of by their nodes."""


_OF_FORMS: dict[str, Pull] = {
    INPUT: _nowhere,
    JOIN: _to_each,
    LOOKUP: _nowhere,
    REDUCE: _to_all,
}
