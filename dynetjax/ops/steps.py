"""A step of an LSTM: its sum, gates, cell and output, made at once where that is known.

Most of what it takes to tag a sentence in Python is making these nodes. Where a step
like this one has been made before, what follows from what it reads is looked up once.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from dynetjax.core.building import stored_part
from dynetjax.core.expression import Expression, Nodes, args_of
from dynetjax.core.rules import CHANGED, Rule
from dynetjax.core.tables import forgets
from dynetjax.ops.gates import (
    activation,
    coupled_cell,
    coupled_gates,
    coupled_output,
    gated_output,
    lstm_cell,
)
from dynetjax.ops.linear import affine_transform, products_of

Two = Callable[[Expression, Expression], Expression]


@dataclass(frozen=True, eq=False)
class LSTMCell:
    """A kind of LSTM, by the functions that make its nodes.

    Attributes:
        activate: gates of the sum ``b + W_x x + W_h h``.
        cell: the next cell, of gates and the cell before.
        output: of gates and the next cell.
    """

    activate: Callable[[Expression], Expression]
    cell: Two
    output: Two


COUPLED = LSTMCell(coupled_gates, coupled_cell, coupled_output)


@cache
def vanilla(forget_bias: float) -> LSTMCell:
    """The usual LSTM; `forget_bias` is added to the forget gate."""
    return LSTMCell(activation(forget_bias), lstm_cell, gated_output)


class _Rules(NamedTuple):
    """What a step is made by, as long as no more than `changes` rules have changed.

    `stored` tells whether the product with the input has rows, as `total` takes it.
    """

    product: Rule
    stored: bool
    total: Rule
    gates: Rule
    cell: Rule
    output: Rule
    changes: int


_known: dict[tuple[Any, ...], _Rules] = {}
forgets(_known.clear)


def lstm_step(
    kind: LSTMCell,
    weights: tuple[Expression, ...],
    x: Expression,
    h: Expression,
    c: Expression,
) -> tuple[Expression, Expression]:
    """The next cell and output, of an input and the output and cell before.

    `weights` are W_x, W_h and b.
    """
    return lstm_steps(kind, weights, (x,), h, c)[0]


def lstm_steps(
    kind: LSTMCell,
    weights: tuple[Expression, ...],
    xs: Sequence[Expression],
    h: Expression,
    c: Expression,
) -> list[tuple[Expression, Expression]]:
    """The cells and outputs after each of some inputs, with `weights` as in a step."""
    W_x, W_h, b = weights
    made: list[tuple[Expression, Expression]] = []
    while len(made) < len(xs):
        x = xs[len(made)]
        key = kind, W_x.spec, W_h.spec, b.spec, x.spec, h.spec, c.spec
        rules, graph, lanes = _known.get(key), x.graph, x.lanes
        if (
            rules is None
            or rules[-1] != len(CHANGED)
            or graph is None
            or graph.open is None
            or h.graph is not graph
            or c.graph is not graph
            or h.lanes != lanes
            or c.lanes != lanes
        ):
            made.append(_carefully(key, weights, x, h, c))
        else:
            made += _alike(rules, weights, xs, len(made), h, c)
        c, h = made[-1]
    return made


def _alike(
    rules: _Rules,
    weights: tuple[Expression, ...],
    xs: Sequence[Expression],
    start: int,
    h: Expression,
    c: Expression,
) -> list[tuple[Expression, Expression]]:
    """The step that reads ``xs[start]``, which the rules fit, and those like it."""
    W_x, W_h, b = weights
    of_product, stored, of_total, of_gates, of_cell, of_output, _ = rules
    seen_gates, seen_cell, seen_output = of_gates.spec, of_cell.spec, of_output.spec
    x = xs[start]
    first, lanes = x.spec, x.lanes
    graph: Nodes = x.graph
    nodes: list[Expression] = graph.open
    stored_nodes = graph.stored_nodes
    number, at = len(nodes), len(stored_nodes)
    made = []
    for k in range(start, len(xs)):
        x = xs[k]
        if x.spec is not first or x.lanes != lanes or x.graph is not graph:
            break
        read = x.args
        if stored:
            product = stored_part(graph, number, of_product, lanes, x.args)
            stored_nodes.append(product)
            read = product.args
            at += 1
        total = Expression()
        total.graph, total.index = graph, number
        total.rule, total.spec = of_total, None
        total.lanes, total.first, total.others = lanes, None, (b, W_x, x, W_h, h)
        read = total.args = read + h.args
        gates = Expression()
        gates.graph, gates.index = graph, number + 1
        gates.rule, gates.spec = of_gates, seen_gates
        gates.lanes, gates.first, gates.others = lanes, total, None
        gates.inner, gates.args = read, args_of(at)
        cell = Expression()
        cell.graph, cell.index = graph, number + 2
        cell.rule, cell.spec = of_cell, seen_cell
        cell.lanes, cell.first, cell.others = lanes, gates, c
        cell.inner, cell.args = gates.args + c.args, args_of(at + 1)
        output = Expression()
        output.graph, output.index = graph, number + 3
        output.rule, output.spec = of_output, seen_output
        output.lanes, output.first, output.others = lanes, gates, cell
        output.inner, output.args = gates.args + cell.args, args_of(at + 2)
        stored_nodes += gates, cell, output
        nodes += total, gates, cell, output
        made.append((cell, output))
        if h.spec is not seen_output or c.spec is not seen_cell:
            break
        c, h = cell, output
        number, at = number + 4, at + 3
    return made


def _carefully(
    key: tuple[Any, ...],
    weights: tuple[Any, ...],
    x: Expression,
    h: Expression,
    c: Expression,
) -> tuple[Expression, Expression]:
    """The same by the functions that users have, which check; notes the rules."""
    kind, (W_x, W_h, b) = key[0], weights
    changes = len(CHANGED)
    total = affine_transform([b, W_x, x, W_h, h])
    gates = kind.activate(total)
    cell = kind.cell(gates, c)
    output = kind.output(gates, cell)
    products = products_of([b, W_x, x, W_h, h], total.rule)
    usual = None not in key and key[-3:] == (x.spec, h.spec, c.spec)
    usual = usual and x.lanes == h.lanes == c.lanes  # none of them is broadcast
    usual = usual and total.spec is None and not b.lanes  # it is a part of the gates
    if usual and products and all(_has_rows(node) for node in (gates, cell, output)):
        (product, stored), (_, recurrent_is_stored) = products
        if not recurrent_is_stored:
            made = total.rule, gates.rule, cell.rule, output.rule
            _known[key] = _Rules(product, stored, *made, changes)
    return cell, output


def _has_rows(node: Expression) -> bool:
    return node.spec is not None and node.spec.stored
