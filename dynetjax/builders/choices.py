"""Choices: many small softmaxes over the same input, in a few tables.

With a parameter for each, every one would be a program of its own. So a choice is one
entry of a table: a matrix with a row for each outcome, its bias in the last column,
filled up to the largest choice of the table. Which entries are read is data. Choices of
very different sizes go to different tables, so that at most half of one is filling.

Users see a parameter for each choice, in the collection and in files, as DyNet has
them; see `dynetjax.builders.rows_storage`. Trainers see the tables, and change only
those entries that a graph has read.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dynetjax.builders.choice_ops import (
    ALL_LOGS,
    ALL_SCORES,
    FULL,
    LOGS,
    LOSS,
    SCORES,
    outcomes,
)
from dynetjax.builders.rows_storage import show_as_rows
from dynetjax.builders.whole import whole
from dynetjax.core.expression import Expression
from dynetjax.graph import current_graph
from dynetjax.model.collection import ParameterCollection
from dynetjax.model.lookup import LookupParameters, lookup, lookup_batch
from dynetjax.model.parameters import Parameters
from dynetjax.ops.inputs import inputTensor
from dynetjax.ops.rows import concatenate_to_batch, pick_batch_elems
from dynetjax.ops.shaping import pick_range


class Item(NamedTuple):
    """An outcome of a choice, for one batch element."""

    element: int
    choice: int
    outcome: int


class Choices:
    """The choices of a builder.

    Args:
        collection: gets the parameters of each choice with outcomes, in order.
        input_dim: size I of the input.
        counts: how many outcomes each has; with 1 there is nothing to choose.
        bias: have biases.
        binary: a choice of two has one row, the score of outcome 0, whose probability
            is the sigmoid of it.
    """

    def __init__(
        self,
        collection: ParameterCollection,
        input_dim: int,
        counts: Sequence[int],
        bias: bool = True,
        binary: bool = False,
    ):
        self._input_dim, self._width = input_dim, input_dim + bias
        self._rows = [1 if binary and n == 2 else n for n in counts]
        self._tables: list[LookupParameters] = []
        self._place: dict[int, tuple[int, int]] = {}  # table and row of each choice
        made = {}
        for k, n in enumerate(counts):
            if n > 1:
                made[k] = [collection.add_parameters((self._rows[k], input_dim))]
                if bias:
                    made[k].append(collection.add_parameters((self._rows[k],), 0))
        for group in _groups({k: self._rows[k] for k in made}):
            self._add_table(collection, group, made)

    def _add_table(
        self,
        collection: ParameterCollection,
        group: list[int],
        made: dict[int, list[Parameters]],
    ) -> None:
        largest = max(self._rows[k] for k in group)
        shape = len(group), largest, self._width
        table = collection.add_lookup_parameters(
            shape, np.zeros(shape, np.float32), "rows"
        )
        for row, k in enumerate(group):
            self._place[k] = len(self._tables), row
            show_as_rows(made[k], table, row)
        self._tables.append(table)

    def loss(self, x: Expression, items: list[Item], update: bool) -> Expression:
        """``{1 X len(items)}``: ``-log p(outcome)``, 0 where there is no choice.

        Args:
            x: ``{I X b}``.
        """
        by_table = self._by_table(items)
        parts = [
            self._loss_of_table(t, x, [items[k] for k in numbers], update)
            for t, numbers in by_table
        ]
        if len(parts) == 1:
            return parts[0]
        positions = [k for _, numbers in by_table for k in numbers]
        order = np.argsort(positions).tolist()
        return pick_batch_elems(concatenate_to_batch(parts), order)

    def loss_of_one(
        self, x: Expression, choice: int, outcome: int, update: bool
    ) -> Expression:
        """``{1}``: ``-log p(outcome)`` of a choice that is one.

        Args:
            x: ``{I}``.
        """
        t, row = self._place[choice]
        rows = lookup(self._tables[t], row, update)
        data = self._rows[choice], outcome
        return current_graph().add(LOSS, (rows, x), (), data)

    def _by_table(self, items: list[Item]) -> list[tuple[int, list[int]]]:
        """Tables, -1 for none, with the positions of their items."""
        positions: dict[int, list[int]] = {}
        for k, item in enumerate(items):
            t, _ = self._place.get(item.choice, (-1, 0))
            positions.setdefault(t, []).append(k)
        return sorted(positions.items())

    def _loss_of_table(
        self, t: int, x: Expression, items: list[Item], update: bool
    ) -> Expression:
        if t < 0:
            return inputTensor(np.zeros((1, len(items)), np.float32), batched=True)
        elements = [item.element for item in items]
        if elements != list(range(x.full_dim.batch)):
            x = pick_batch_elems(x, elements)
        rows = self._looked_up([item.choice for item in items], update)
        sizes = [self._rows[item.choice] for item in items]
        data = sizes, [item.outcome for item in items]
        return current_graph().add(LOSS, (rows, x), (), data, len(items))

    def _looked_up(self, choices: list[int], update: bool) -> Expression:
        places = [self._place[k] for k in choices]
        return lookup_batch(
            self._tables[places[0][0]], [row for _, row in places], bool(update)
        )

    def scores(self, x: Expression, choice: int, update: bool) -> Expression:
        """``{n X b}``: what the softmax of a choice of n is taken of."""
        rows = self._looked_up([choice] * x.full_dim.batch, update)
        scores = current_graph().add(SCORES, (rows, x))
        return pick_range(scores, 0, self._rows[choice])

    def log_distribution(self, x: Expression, choice: int, update: bool) -> Expression:
        """``{m X b}``: log p of the outcomes; from the n-th on there is -inf."""
        batch = x.full_dim.batch
        rows = self._looked_up([choice] * batch, update)
        data = [self._rows[choice]] * batch
        return current_graph().add(LOGS, (rows, x), (), data, batch)

    def all_logs(self, x: Expression, update: bool) -> list[Expression]:
        """For each table ``{K m X b}``: log p of all outcomes of all its choices."""
        graph, logs = current_graph(), []
        for t, table in enumerate(self._tables):
            counts = [self._rows[k] for k in self._of_table(t)]
            scores = graph.add(ALL_SCORES, (whole(table, update), x))
            sizes = inputTensor(np.array(counts, np.float32))
            logs.append(graph.add(ALL_LOGS, (scores, sizes), (table.shape()[1],)))
        return logs

    def position(self, choice: int, outcome: int) -> int | None:
        """Where an outcome is in the results of `all_logs`, put end to end.

        None if it is certain.
        """
        if choice not in self._place:
            return None
        t, row = self._place[choice]
        shapes = [table.shape() for table in self._tables]
        before = sum(count * outcomes(m) for count, m, _ in shapes[:t])
        return before + row * outcomes(shapes[t][1]) + outcome

    def _of_table(self, t: int) -> list[int]:
        """The choices of a table, in the order of its rows."""
        pairs = [(row, k) for k, (at, row) in self._place.items() if at == t]
        return [k for _, k in sorted(pairs)]


def full(places: np.ndarray, logs: list[Expression]) -> Expression:
    """Sums of numbers that stand in `logs`, put end to end.

    Args:
        places: for each sum its terms; from the end on, -1 is 0, and -2 is -inf.
    """
    numbers = inputTensor(places.astype(np.float32))
    return current_graph().add(FULL, (numbers, *logs))


def _groups(sizes: dict[int, int]) -> list[list[int]]:
    """Choices that share a table, the largest ones first; see the module.

    Choices with one row have a table of their own.
    """
    groups: list[list[int]] = []
    largest = total = 0
    for k in sorted(sizes, key=lambda k: -sizes[k]):
        n = sizes[k]
        room = largest * (len(groups[-1]) + 1) if groups else 0
        if not groups or (n == 1) != (largest == 1) or room > 2 * (total + n):
            groups.append([])
            largest, total = n, 0
        groups[-1].append(k)
        total += n
    return groups
