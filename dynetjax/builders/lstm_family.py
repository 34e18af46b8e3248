"""What all LSTM builders share: a state of cells and outputs."""

from abc import abstractmethod

from dynetjax.builders.base import Masks, RNNBuilder
from dynetjax.builders.state import Vectors
from dynetjax.expression import Expression

_ORDER = "one vector per layer; for set_s all cells, then all outputs"


class LSTMFamily(RNNBuilder):
    """A builder whose state is the cells of all layers, then their outputs."""

    @abstractmethod
    def _step(
        self,
        layer: int,
        parameters: Vectors,
        masks: Masks | None,
        x: Expression,
        previous: Vectors | None,
    ) -> tuple[Expression, Expression]:
        """Cell and output of one layer; `previous` is the same a step before."""

    def advance(self, vectors: Vectors, x: Expression) -> Vectors:
        session, masks = self._accept(x)
        if self.layers == 1:
            return self._step(0, session.layers[0], masks, x, vectors or None)
        before = list(zip(self._cells(vectors), self.outputs(vectors), strict=True))
        cells, outputs = [], []
        for layer, parameters in enumerate(session.layers):
            previous = before[layer] if before else None
            c, x = self._step(layer, parameters, masks, x, previous)
            cells.append(c)
            outputs.append(x)
        return (*cells, *outputs)

    def outputs(self, vectors: Vectors) -> Vectors:
        return vectors[self.layers :]

    def with_outputs(self, vectors: Vectors, given: Vectors) -> Vectors:
        self._require_count("set_h", given, (self.layers,), _ORDER)
        return (*(self._cells(vectors) or self._zeros()), *given)

    def with_state(self, vectors: Vectors, given: Vectors) -> Vectors:
        self._require_count("set_s", given, (self.layers, 2 * self.layers), _ORDER)
        if len(given) == self.layers:
            return (*given, *(self.outputs(vectors) or self._zeros()))
        return given

    def _cells(self, vectors: Vectors) -> Vectors:
        return vectors[: self.layers]
