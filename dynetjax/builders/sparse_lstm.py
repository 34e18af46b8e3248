"""The standard LSTM with some weights left out."""

from typing import Any

import numpy as np

from dynetjax.builders.rnn_state import Vectors
from dynetjax.builders.vanilla_lstm import VanillaLSTMBuilder
from dynetjax.core.errors import error_text
from dynetjax.model.parameters import Parameters
from dynetjax.ops.arguments import number
from dynetjax.ops.arithmetic import cmult


class SparseLSTMBuilder(VanillaLSTMBuilder):
    """VanillaLSTMBuilder with W_x * M_x and W_h * M_h in place of W_x and W_h.

    M_x and M_h are masks of zeros and ones: ones at first, and later what
    `set_sparsity` makes them. A weight under a zero takes no gradient.

    Per layer (H hidden, I input size), with names in this order:
        W_x {4H,I} Glorot    W_h {4H,H} Glorot
        M_x {4H,I} one       M_h {4H,H} one       b {4H} zero
    `get_parameters` gives W_x, W_h, b, M_x, M_h; `get_parameter_expressions` gives
    W_x * M_x, W_h * M_h, b. Trainers change the masks in no way, weight decay included.

    Args:
        layers, input_dim, hidden_dim, ln_lstm, forget_bias: as for VanillaLSTMBuilder.
        model: gets a sub-collection ``vanilla-lstm-builder``, numbered together with
            those of VanillaLSTMBuilder.
    Raises:
        OverflowError: a size is negative.
        TypeError: `model` is no ParameterCollection.
    Source: clab/dynet, ``dynet/lstm.cc``; Narang et al. (arxiv.org/abs/1704.05119).
    Examples:
        >>> lstm = dy.SparseLSTMBuilder(1, 4, 8, dy.ParameterCollection())
        >>> lstm.set_sparsity(0.75)
        >>> masks = [p.as_array() for p in lstm.get_parameters()[0][3:]]
        >>> print(sum(M.sum() for M in masks), sum(M.size for M in masks))
        96.0 384
        >>> print(lstm.initial_state().add_input(dy.ones(4)).output().dim())
        ((8,), 1)
    """

    def _add_layer(self, input_size: int) -> list[Parameters]:
        size, add = self.hidden_dim, self._collection.add_parameters
        dims = (4 * size, input_size), (4 * size, size)
        weights = [add(dim) for dim in dims]
        masks = [add(dim, 1) for dim in dims]
        for mask in masks:
            mask.set_updated(False)
        bias = add((4 * size,), 0)
        self._add_norms()
        return [*weights, bias, *masks]

    def _expressions(self, update: bool) -> list[Vectors]:
        return [
            (
                cmult(W_x.expr(update), M_x.expr(False)),
                cmult(W_h.expr(update), M_h.expr(False)),
                b.expr(update),
            )
            for W_x, W_h, b, M_x, M_h in self._parameters
        ]

    def set_sparsity(self, fraction: float) -> None:
        """Leave out the weights closest to zero, those of all layers together.

        The masks of W_x and W_h are made anew. A weight that is left out counts as
        zero, so it stays out, unless fewer are left out now. A graph that has read
        the masks goes on with what it has read.

        Args:
            fraction: what part to leave out, rounded down to a number of weights.
        Raises:
            TypeError: `fraction` is not a number.
            ValueError: it is not in [0, 1].
        """
        part = _part(fraction)
        pairs = [
            pair
            for W_x, W_h, _, M_x, M_h in self._parameters
            for pair in ((W_x, M_x), (W_h, M_h))
        ]
        if not pairs:
            return
        sizes = np.concatenate([np.abs(W.as_array()).ravel() for W, _ in pairs])
        kept = np.concatenate([M.as_array().ravel() for _, M in pairs])
        ascending = np.lexsort([sizes, sizes * np.abs(kept)])
        kept[:] = 1
        kept[ascending[: int(part * len(kept))]] = 0
        ends = np.cumsum([M.as_array().size for _, M in pairs])[:-1]
        for (_, M), mask in zip(pairs, np.split(kept, ends), strict=True):
            M.set_value(mask.reshape(M.shape()))


def _part(fraction: Any) -> float:
    part = number("set_sparsity", "fraction", fraction)
    if not 0 <= part <= 1:
        raise ValueError(
            error_text(
                "set_sparsity: fraction is out of range",
                got=fraction,
                expected="0 <= fraction <= 1",
                fix="it is a fraction: 0.9 leaves out nine weights of ten",
            )
        )
    return part
