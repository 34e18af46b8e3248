"""What all LSTM builders share: a state of cells and outputs."""

from abc import abstractmethod
from itertools import chain

from dynetjax.builders.base import Masks, RNNBuilder
from dynetjax.builders.rnn_state import Vectors
from dynetjax.core.expression import Expression
from dynetjax.ops.steps import LSTMCell

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
        kind = self._kind()
        if kind is not None and self.layers == 1:
            c, h = vectors or [self._nothing(x)] * 2
            return kind.step(*session.layers[0], x, h, c)
        before = list(zip(self._cells(vectors), self.outputs(vectors), strict=True))
        cells, outputs = [], []
        for layer, parameters in enumerate(session.layers):
            previous = before[layer] if before else None
            c, x = self._step(layer, parameters, masks, x, previous)
            cells.append(c)
            outputs.append(x)
        return (*cells, *outputs)

    def advance_all(self, vectors: Vectors, xs: list[Expression]) -> list[Vectors]:
        kind = self._kind()
        if kind is None or not _are_of_one_graph(xs):
            return super().advance_all(vectors, xs)
        session, _ = self._accept(xs[0])
        before = list(zip(self._cells(vectors), self.outputs(vectors), strict=True))
        layers = []
        for layer, parameters in enumerate(session.layers):
            c, h = before[layer] if before else [self._nothing(xs[0])] * 2
            step, (W_x, W_h, b) = kind.step, parameters
            made = []
            for x in xs:
                c, h = state = step(W_x, W_h, b, x, h, c)
                made.append(state)
            layers.append(made)
            xs = [output for _, output in made]
        if self.layers == 1:
            return list(layers[0])
        steps = zip(*layers, strict=True)
        return [tuple(chain.from_iterable(zip(*step, strict=True))) for step in steps]

    def _kind(self) -> LSTMCell | None:
        """What all steps are, if nothing but weights and vectors goes into them."""
        return None

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


def _are_of_one_graph(xs: list[Expression]) -> bool:
    """Whether there are expressions, all of one graph."""
    try:
        graphs = [x.graph for x in xs]
    except AttributeError:
        return False
    return bool(xs) and graphs.count(graphs[0]) == len(xs)
