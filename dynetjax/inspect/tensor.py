"""Tensor: the numbers of an expression, to search and to draw from."""

import numpy as np

from dynetjax.core.dims import Dim, DimError
from dynetjax.core.errors import error_text
from dynetjax.core.expression import Expression
from dynetjax.model.random import mask_seed


class Tensor:
    """What `Expression.tensor_value` returns: numbers of certain dims, batch included.

    They are what the expression was when it was asked; results of searching are
    tensors, too. Dimensions are counted from 0, and the batch is not one of them.

    Examples:
        >>> scores = dy.inputVector([1, 7, 3]).tensor_value()
        >>> print(isinstance(scores, dy.Tensor), scores.argmax().as_numpy())
        True [1]
        >>> numbers, indices = scores.topk(num=2)
        >>> print(numbers.as_numpy(), indices.as_numpy())
        [7. 3.] [1 2]
    """

    def __init__(self, array: np.ndarray, order: int):
        self._array, self._order = array, order

    def as_numpy(self) -> np.ndarray:
        """An array of the dims, with the batch as last axis if there is one.

        float64 for numbers, int64 for indices.
        """
        return self._array.copy()

    def argmax(self, dim: int = 0, num: int = 1) -> "Tensor":
        """Indices of the largest numbers along a dimension, the first among equals.

        Args:
            dim: the dimension, which has one index in the result.
            num: 1, and nothing else; `topk` finds more.
        Raises:
            DimError: there is no such dimension.
            ValueError: `num` is not 1.
        """
        axis = self._axis("argmax", dim)
        self._only_one("argmax", num, "use topk(dim, num)")
        return Tensor(np.argmax(self._array, axis, keepdims=True), self._order)

    def topk(self, dim: int = 0, num: int = 1) -> "tuple[Tensor, Tensor]":
        """The largest numbers along a dimension in descending order, and their indices.

        Args:
            dim: the dimension.
            num: how many, at most the size of the dimension.
        Returns:
            Numbers and indices. The first of equal numbers comes first.
        Raises:
            DimError: there is no such dimension.
            ValueError: `num` is not between 1 and the size of the dimension.
        """
        axis = self._axis("topk", dim)
        size = self._array.shape[axis]
        if not 1 <= num <= size:
            raise ValueError(
                error_text(
                    "topk: num is out of range",
                    got=num,
                    expected=f"1 <= num <= {size}",
                    fix="the dimension has no more numbers",
                )
            )
        order = np.argsort(-self._array, axis, kind="stable")
        best = order.take(range(num), axis)
        values = np.take_along_axis(self._array, best, axis)
        return Tensor(values, self._order), Tensor(best, self._order)

    def categorical_sample_log_prob(self, dim: int = 0, num: int = 1) -> "Tensor":
        """Indices along a dimension, drawn by the numbers as log-probabilities.

        They need not be normalised. Draws follow from `reset_random_seed`.

        Args:
            dim: the dimension, which has one index in the result.
            num: 1, and nothing else.
        Raises:
            DimError: there is no such dimension.
            ValueError: `num` is not 1.
        """
        axis = self._axis("categorical_sample_log_prob", dim)
        self._only_one("categorical_sample_log_prob", num, "draw again for each sample")
        noise = np.random.RandomState(mask_seed()).gumbel(size=self._array.shape)
        return Tensor(np.argmax(self._array + noise, axis, keepdims=True), self._order)

    def _axis(self, name: str, dim: int) -> int:
        if not 0 <= dim < self._order:
            raise DimError(
                error_text(
                    f"{name}: the tensor has no such dimension",
                    got=f"dim = {dim}, {Dim(self._array.shape[: self._order])}",
                    expected=f"0 <= dim < {self._order}",
                    fix="count dimensions from 0; the batch is not one of them",
                )
            )
        return dim

    def _only_one(self, name: str, num: int, instead: str) -> None:
        if num != 1:
            raise ValueError(
                error_text(f"{name}: num is not 1", got=num, expected="1", fix=instead)
            )

    def __repr__(self) -> str:
        of = "int" if self._array.dtype.kind == "i" else "float"
        return f"<Dynet Tensor:{of}>"


def tensor_value(self: Expression, recalculate: bool = False) -> Tensor:
    """The numbers as a `Tensor`, to find the largest or to draw from.

    With `recalculate`, the graph is computed anew, with new random draws.
    """
    return Tensor(self.npvalue(recalculate), len(self.dim()[0]))


Expression.tensor_value = tensor_value
