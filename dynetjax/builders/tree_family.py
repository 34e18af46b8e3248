"""Tree LSTMs with cells of their own: layers, rows, zeros and dropout.

A state has one row for each layer, the cell above the output.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from dynetjax.builders.rnn_state import Vectors
from dynetjax.builders.tree import (
    Children,
    TreeBuilder,
    TreeSession,
    draw_mask,
    present,
)
from dynetjax.core.expression import Expression
from dynetjax.graph import current_graph
from dynetjax.model.collection import ParameterCollection
from dynetjax.ops.arithmetic import cmult
from dynetjax.ops.inputs import inputTensor
from dynetjax.ops.noise import rate
from dynetjax.ops.shaping import concatenate, pick_range

Drop = Callable[[Expression], Expression]
Rows = list[Expression | None]  # of each child, if it is there


class TreeLSTMFamily(TreeBuilder):
    """A builder whose state is the cells of all layers, then their outputs."""

    parts = 2  # vectors in a row
    _rate = 0.0

    def __init__(
        self, layers: int, input_dim: int, hidden_dim: int, model: ParameterCollection
    ):
        super().__init__(layers, input_dim, hidden_dim, model)
        self._parameters = [
            self._add_layer(self.hidden_dim if layer else self.input_dim)
            for layer in range(self.layers)
        ]

    @abstractmethod
    def _add_layer(self, input_size: int) -> list[Any]:
        """Make the parameters of one layer, in the order of `get_parameters`."""

    @abstractmethod
    def _weights(self, layer: int, update: bool) -> Any:
        """What the cell computes with, made of the parameters of a layer."""

    @abstractmethod
    def _step(
        self, weights: Any, x: Expression, below: Rows, zeros: Expression, drop: Drop
    ) -> Expression:
        """The row of a node in one layer.

        The outputs in the rows of its children, `below`, have been dropped out, as
        `drop` does it.
        """

    def get_parameters(self) -> list[list[Any]]:
        """The parameters and tables of each layer, bottom first."""
        return [list(layer) for layer in self._parameters]

    def set_dropout(self, p: float) -> None:
        self._rate = rate("set_dropout", p)

    def _compute(
        self, session: TreeSession, x: Expression | None, children: Children
    ) -> Vectors:
        known = [x] if x is not None else []
        known += [child.rows[0] for child in present(children)]
        batch = max(1, *[e.lanes for e in known])
        _, *columns = known[0].signature.kind.shape
        graph = current_graph()
        rows: list[Expression] = []
        zeros = graph.zeros((self.parts * self.hidden_dim, *columns), batch)
        if x is None:
            x = graph.zeros((self.input_dim, *columns), batch)
        for layer in range(self.layers):
            if layer:
                x = self._part(rows[-1], 1)
            below: Rows = [None if s is None else s.rows[layer] for s in children]
            drop: Drop = _nothing
            if self._rate:
                x, drop = self._dropout(session, layer, batch, x)
                below = [row and drop(row) for row in below]
            weights = session.made.get(layer)
            if weights is None:
                weights = session.made[layer] = self._weights(layer, session.update)
            rows.append(self._step(weights, x, below, zeros, drop))
        return tuple(rows)

    def vectors(self, rows: Vectors) -> Vectors:
        return tuple(self._part(row, which) for which in (0, 1) for row in rows)

    def _part(self, row: Expression, which: int) -> Expression:
        """The cell, or the output."""
        H = self.hidden_dim
        return pick_range(row, which * H, (which + 1) * H)

    def _dropout(
        self, session: TreeSession, layer: int, batch: int, x: Expression
    ) -> tuple[Expression, Drop]:
        """The input dropped out, and what does so with the outputs in rows."""
        key = "masks", layer, batch
        if key not in session.made:
            H = self.hidden_dim
            kept = inputTensor(np.ones((H, batch)), batched=True)
            mask = draw_mask(H, self._rate, batch)
            others = [kept] * (self.parts - 2)
            session.made[key] = (
                draw_mask(H if layer else self.input_dim, self._rate, batch),
                concatenate([kept, mask]),
                concatenate([kept, mask, *others]),
            )
        of_x, *of_rows = session.made[key]
        by_size = {mask.full_dim.shape[0]: mask for mask in of_rows}
        return cmult(x, of_x), lambda row: cmult(row, by_size[row.full_dim.shape[0]])


def _nothing(row: Expression) -> Expression:
    return row
