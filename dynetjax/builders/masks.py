"""Dropout whose masks last as long as the graph."""

from typing import Any

import numpy as np

from dynetjax.builders.base import Masks, RNNBuilder, Session, unsigned
from dynetjax.core.expression import Expression
from dynetjax.ops.arithmetic import cmult
from dynetjax.ops.inputs import inputTensor
from dynetjax.ops.noise import dropout, rate


class MaskedBuilder(RNNBuilder):
    """A builder that drops inputs and recurrent vectors.

    Its rates are that of the input of each layer, and those of vectors of its size.
    """

    _rates: tuple[float, ...] = (0.0, 0.0)

    def set_dropout(self, p: float) -> None:
        """Drop inputs and recurrent vectors with probability `p`.

        The masks are those of Gal & Ghahramani (arxiv.org/abs/1512.05287): drawn once
        per graph, the same at every step, and other ones for each batch element; what
        stays is divided by 1 - p.

        Raises:
            ValueError: `p` is not in [0, 1).
        """
        self._rates = (rate("set_dropout", p),) * len(self._rates)

    def disable_dropout(self) -> None:
        """Drop nothing."""
        self._rates = (0.0,) * len(self._rates)

    def set_dropout_masks(self, batch_size: int = 1) -> None:
        """Draw new masks, to be used from here on in this graph.

        Args:
            batch_size: 1 to share them among the elements of a batch.
        Raises:
            ValueError: `initial_state` was not called in this graph.
        """
        session = self._session("set_dropout_masks")
        size = unsigned("set_dropout_masks", "batch_size", batch_size)
        session.masks = {size: self._draw_masks(size)}

    def _accept(self, x: Any, name: str = "add_input") -> tuple[Session, Masks | None]:
        session = self._session_for(x, name)
        if not any(self._rates):
            return session, None
        batch = x.full_dim.batch
        masks = session.masks.get(batch) or session.masks.get(1)
        if masks is None:
            masks = session.masks[batch] = self._draw_masks(batch)
        return session, masks

    def _draw_masks(self, batch: int) -> Masks:
        """One mask per layer and rate: of the layer's input, then of its size."""
        sizes = [
            (self._input_size(layer), *[self.hidden_dim] * (len(self._rates) - 1))
            for layer in range(self.layers)
        ]
        return [
            tuple(map(_draw_mask, of_layer, self._rates, [batch] * len(of_layer)))
            for of_layer in sizes
        ]

    def _drop(self, masks: Masks, layer: int, which: int, x: Expression) -> Expression:
        """`x` under the mask of rate `which`, if that rate is on."""
        mask = masks[layer][which] if self._rates[which] else None
        return x if mask is None else cmult(x, mask)


def _draw_mask(size: int, p: float, batch: int) -> Expression | None:
    """0 with probability `p`, else 1 / (1 - p); None where nothing is dropped."""
    if not p:
        return None
    return dropout(inputTensor(np.ones((size, batch)), batched=True), p)
