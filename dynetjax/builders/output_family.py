"""What the builders share whose state is nothing but outputs."""

from abc import abstractmethod

from dynetjax.builders.base import Masks, RNNBuilder
from dynetjax.builders.rnn_state import Vectors
from dynetjax.core.expression import Expression

_ORDER = "one vector per layer, bottom first"


class OutputFamily(RNNBuilder):
    """A builder whose state is the output of each layer."""

    @abstractmethod
    def _step(
        self,
        layer: int,
        parameters: Vectors,
        masks: Masks | None,
        x: Expression,
        previous: Expression | None,
    ) -> Expression:
        """Output of one layer; `previous` is the same a step before."""

    def advance(self, vectors: Vectors, x: Expression) -> Vectors:
        session, masks = self._accept(x)
        outputs = []
        for layer, parameters in enumerate(session.layers):
            previous = vectors[layer] if vectors else None
            x = self._step(layer, parameters, masks, x, previous)
            outputs.append(x)
        return tuple(outputs)

    def outputs(self, vectors: Vectors) -> Vectors:
        return vectors

    def with_outputs(self, vectors: Vectors, given: Vectors) -> Vectors:
        self._require_count("set_h", given, (self.layers,), _ORDER)
        return given

    def with_state(self, vectors: Vectors, given: Vectors) -> Vectors:
        self._require_count("set_s", given, (self.layers,), _ORDER)
        return given
