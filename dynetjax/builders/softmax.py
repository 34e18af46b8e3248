"""SoftmaxBuilder: what every builder of a softmax over many classes offers."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np

from dynetjax.builders.base import unsigned
from dynetjax.builders.rnn_state import require_operand
from dynetjax.core.dims import Dim, DimError
from dynetjax.core.errors import error_text
from dynetjax.core.expression import Expression
from dynetjax.core.other_names import KnowsKeywords
from dynetjax.core.reprs import attributes, call_text
from dynetjax.model.collection import ParameterCollection
from dynetjax.model.random import mask_seed
from dynetjax.model.unique import Whole
from dynetjax.ops.arguments import (
    Int,
    Ints,
    index_below,
    indices_below,
    one_per_element,
)


class SoftmaxBuilder(KnowsKeywords, Whole, ABC):
    """A distribution over classes, given a vector; use one of the subclasses.

    Where a method has `update`, False lets no gradient reach the builder's parameters;
    it counts for that call alone.

    Examples:
        >>> m = dy.ParameterCollection()
        >>> softmax = dy.StandardSoftmaxBuilder(4, 10, m)
        >>> print(isinstance(softmax, dy.SoftmaxBuilder), softmax.size)
        True 10
        >>> h = dy.inputVector([1, 2, 3, 4])
        >>> p = np.exp(softmax.full_log_distribution(h).npvalue())
        >>> print(p.shape, p.sum().round(3), 0 <= softmax.sample(h) < 10)
        (10,) 1.0 True
        >>> loss = softmax.neg_log_softmax(h, 7)
        >>> print(np.isclose(loss.value(), -np.log(p[7]), atol=1e-5))
        True
    """

    collection_name: ClassVar[str]
    size: int
    """How many classes there are."""

    def __init__(self, input_dim: int, pc: ParameterCollection):
        if not isinstance(pc, ParameterCollection):
            raise TypeError(
                error_text(
                    f"{self.whoami()}: pc is no collection",
                    got=f"{pc!r} ({type(pc).__name__})",
                    expected="a ParameterCollection",
                    fix="pass dy.ParameterCollection()",
                )
            )
        self.input_dim: int = unsigned(self.whoami(), "input_dim", input_dim)
        self._collection = pc.add_subcollection(self.collection_name)

    @abstractmethod
    def neg_log_softmax(self, x: Expression, c: Int, update: bool = True) -> Expression:
        """Negative log likelihood, in nats, of class `c`.

        Args:
            x: ``{input_dim}``, not batched.
            c: a class. Run-time: a new one never recompiles.
        Returns:
            ``{1}``.
        Raises:
            TypeError: `x` is no Expression.
            ValueError: it is stale, batched or of another size; or there is no such
                class.
            OverflowError: `c` is negative.
        """

    @abstractmethod
    def neg_log_softmax_batch(
        self, x: Expression, c_list: Ints, update: bool = True
    ) -> Expression:
        """`neg_log_softmax` of a batch.

        Args:
            x: ``{input_dim X b}``.
            c_list: b classes.
        Returns:
            ``{1 X b}``.
        Raises:
            ValueError: there are not b classes; and as `neg_log_softmax`.
        """

    @abstractmethod
    def sample(self, x: Expression) -> int:
        """A class, drawn from the distribution; it computes the graph.

        Draws follow from `reset_random_seed`.

        Raises:
            ValueError: `x` is stale, batched or of another size.
        """

    @abstractmethod
    def full_log_distribution(self, x: Expression, update: bool = True) -> Expression:
        """Logarithms of the probabilities of all classes.

        Returns:
            ``{size X b}``.
        """

    @abstractmethod
    def full_logits(self, x: Expression, update: bool = True) -> Expression:
        """Scores whose softmax is the distribution.

        Returns:
            ``{size X b}``.
        """

    def __repr__(self) -> str:
        return call_text(self, attributes(self, "input_dim", "size"))

    def whoami(self) -> str:
        """The name of the class."""
        return type(self).__name__

    def param_collection(self) -> ParameterCollection:
        """The builder's own sub-collection."""
        return self._collection

    def _input(self, name: str, x: Any) -> Expression:
        """`x`, checked."""
        name = f"{self.whoami()}.{name}"
        require_operand(name, x)
        if x.full_dim.shape != (self.input_dim,):
            raise DimError(
                error_text(
                    f"{name}: x does not fit the builder",
                    got=x.full_dim,
                    expected=f"{{{self.input_dim}}}, or a batch of it",
                    fix="check input_dim",
                )
            )
        return x

    def _single(self, name: str, x: Any) -> Expression:
        """`x`, checked, where it must not be a batch."""
        x = self._input(name, x)
        if x.full_dim.batch > 1:
            raise DimError(
                error_text(
                    f"{self.whoami()}.{name}: x is batched",
                    got=x.full_dim,
                    expected=Dim((self.input_dim,), 1),
                    fix="pick_batch_elem(x, k)"
                    if name == "sample"
                    else "neg_log_softmax_batch",
                )
            )
        return x

    def _one(self, x: Any, c: Any) -> tuple[Expression, int]:
        """The arguments of `neg_log_softmax`, checked."""
        name = "neg_log_softmax"
        x = self._single(name, x)
        return x, index_below(f"{self.whoami()}.{name}", "c", c, self.size)

    def _checked_batch(self, x: Any, c_list: Any) -> tuple[Expression, list[int]]:
        """The arguments of `neg_log_softmax_batch`, checked."""
        name = f"{self.whoami()}.neg_log_softmax_batch"
        x = self._input("neg_log_softmax_batch", x)
        classes = indices_below(name, "c_list", c_list, self.size)
        one_per_element(name, "c_list", classes, x.full_dim.batch)
        return x, classes


def draw(log_probabilities: Expression) -> int:
    """An index, drawn by logarithms of probabilities."""
    numbers = log_probabilities.npvalue()
    noise = np.random.RandomState(mask_seed()).gumbel(size=numbers.shape)
    return int(np.argmax(numbers + noise))
