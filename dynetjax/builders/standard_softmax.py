"""The softmax of an affine transformation."""

from collections.abc import Sequence
from typing import Any, Self

from dynetjax.builders.base import unsigned
from dynetjax.builders.softmax import SoftmaxBuilder, draw
from dynetjax.core.errors import error_text
from dynetjax.core.expression import Expression
from dynetjax.model.collection import ParameterCollection
from dynetjax.ops.arguments import Int, Ints
from dynetjax.ops.linear import affine_transform, matmul
from dynetjax.ops.losses import pickneglogsoftmax, pickneglogsoftmax_batch
from dynetjax.ops.softmaxes import log_softmax


class StandardSoftmaxBuilder(SoftmaxBuilder):
    """A distribution over all classes at once.

        p(c) = softmax(W x + b)_c

    Parameters (C classes, I input size):
        W {C,I} Glorot    b {C} zero, if there is a bias

    Args:
        input_dim: size I of the input.
        num_classes: C.
        pc: gets a sub-collection ``standard-softmax-builder`` with the parameters.
        bias: have a b.
    Raises:
        OverflowError: a size is negative.
        TypeError: `pc` is no ParameterCollection.
        ValueError: `num_classes` is 0.
    Source: clab/dynet, ``dynet/cfsm-builder.cc``.
    Examples:
        >>> m = dy.ParameterCollection()
        >>> softmax = dy.StandardSoftmaxBuilder(2, 3, m)
        >>> xs = dy.inputTensor(np.eye(2), batched=True)
        >>> loss = dy.sum_batches(softmax.neg_log_softmax_batch(xs, [2, 0]))
        >>> before = loss.value()
        >>> loss.backward()
        >>> dy.SimpleSGDTrainer(m).update()
        >>> print(loss.value(recalculate=True) < before)
        True
    """

    collection_name = "standard-softmax-builder"

    def __init__(
        self,
        input_dim: int,
        num_classes: int,
        pc: ParameterCollection,
        bias: bool = True,
    ):
        self.size: int = unsigned(self.whoami(), "num_classes", num_classes)
        if not self.size:
            raise ValueError(
                error_text(
                    f"{self.whoami()}: there are no classes",
                    got="num_classes=0",
                    expected="1 or more",
                    fix="pass the number of classes",
                )
            )
        super().__init__(input_dim, pc)
        self._W = self._collection.add_parameters((self.size, self.input_dim))
        self._b = self._collection.add_parameters((self.size,), 0) if bias else None

    @property
    def spec(self) -> tuple[Any, ...]:
        """The arguments of the constructor, without the collection."""
        return self.input_dim, self.size, self._b is not None

    @classmethod
    def from_spec(cls, spec: Sequence[Any], pc: ParameterCollection) -> Self:
        """A new builder with the `spec` of another one."""
        input_dim, num_classes, bias = spec
        return cls(input_dim, num_classes, pc, bias)

    def neg_log_softmax(self, x: Expression, c: Int, update: bool = True) -> Expression:
        x, c = self._one(x, c)
        return pickneglogsoftmax(self._scores(x, update), c)

    def neg_log_softmax_batch(
        self, x: Expression, c_list: Ints, update: bool = True
    ) -> Expression:
        x, classes = self._checked_batch(x, c_list)
        return pickneglogsoftmax_batch(self._scores(x, update), classes)

    def sample(self, x: Expression) -> int:
        return draw(log_softmax(self._scores(self._single("sample", x), True)))

    def full_log_distribution(self, x: Expression, update: bool = True) -> Expression:
        x = self._input("full_log_distribution", x)
        return log_softmax(self._scores(x, update))

    def full_logits(self, x: Expression, update: bool = True) -> Expression:
        return self._scores(self._input("full_logits", x), update)

    def _scores(self, x: Expression, update: bool) -> Expression:
        W = self._W.expr(bool(update))
        if self._b is None:
            return matmul(W, x)
        return affine_transform([self._b.expr(bool(update)), W, x])
