"""The softmax over words by way of their classes."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from dynetjax.builders.choices import Choices, Item, full
from dynetjax.builders.clusters import Clusters, read_classes
from dynetjax.builders.softmax import SoftmaxBuilder, draw
from dynetjax.core.errors import error_text
from dynetjax.core.expression import Expression
from dynetjax.io.text import FilePath
from dynetjax.model.collection import ParameterCollection
from dynetjax.ops.arguments import Int, Ints, index_below
from dynetjax.ops.arithmetic import add
from dynetjax.ops.linear import affine_transform, matmul
from dynetjax.ops.losses import pickneglogsoftmax, pickneglogsoftmax_batch
from dynetjax.ops.softmaxes import log_softmax


class ClassFactoredSoftmaxBuilder(SoftmaxBuilder):
    r"""A distribution over words, each in a class: Goodman 2001 (cs.CL/0108006).

        p(w) = softmax(W_c x + b_c)_class(w) * softmax(W_k x + b_k)_w,  k = class(w)

    Parameters (K classes of n_k words, I input size):
        W_c {K,I} Glorot    b_c {K} zero
    and for each class of more than one word:
        W_k {n_k,I} Glorot  b_k {n_k} zero
    without the b where there is no bias.

    A file has a word in each line, ``CLASS word``, between spaces or tabs; what comes
    behind is of no account. Classes, and the words in each, count by the order in which
    they first appear. A word that comes twice belongs to its last class.

    Trainers change only the classes that a graph has read, as they do rows of lookup
    parameters.

    Args:
        input_dim: size I of the input.
        cluster_file: name of such a file.
        dic: the id of each word, from 0 on without gaps.
        pc: gets a sub-collection ``class-factored-softmax-builder``.
        bias: have b_c and b_k.
    Raises:
        OverflowError: `input_dim` is negative.
        TypeError: `pc` is no ParameterCollection, or `dic` no dict.
        ValueError: the ids in `dic` have gaps; the file cannot be read, has a line of
            another form, a word that is not in `dic`, or no line.
    Source: clab/dynet, ``dynet/cfsm-builder.cc``.
    Examples:
        >>> with open("classes.txt", "w") as file:
        ...     print("noun cat\nnoun dog\nverb runs", file=file)
        >>> words, m = {"cat": 0, "dog": 1, "runs": 2}, dy.ParameterCollection()
        >>> softmax = dy.ClassFactoredSoftmaxBuilder(4, "classes.txt", words, m)
        >>> h = dy.zeros(4)  # which makes everything equally likely
        >>> print(np.exp(softmax.full_log_distribution(h).npvalue()).round(3))
        [0.25 0.25 0.5 ]
        >>> print(np.exp(softmax.class_log_distribution(h).npvalue()).round(3))
        [0.5 0.5]
    """

    collection_name = "class-factored-softmax-builder"

    size: int

    def __init__(
        self,
        input_dim: int,
        cluster_file: FilePath,
        dic: Mapping[str, int],
        pc: ParameterCollection,
        bias: bool = True,
    ):
        clusters = read_classes(self.whoami(), cluster_file, dic)
        self._make(input_dim, clusters, bool(bias), pc)

    def _make(
        self, input_dim: int, clusters: Clusters, bias: bool, pc: ParameterCollection
    ) -> None:
        super().__init__(input_dim, pc)
        self.size, self._classes, self._bias = clusters.size, clusters.classes, bias
        count, own = len(self._classes), self._collection
        self._place = {
            w: (k, r)
            for k, words in enumerate(self._classes)
            for r, w in enumerate(words)
        }
        self._place.update(clusters.place)
        self._W = own.add_parameters((count, self.input_dim))
        self._b = own.add_parameters((count,), 0) if bias else None
        sizes = [len(words) for words in self._classes]
        self._choices = Choices(own, self.input_dim, sizes, bias)

    @property
    def spec(self) -> tuple[Any, ...]:
        """What `from_spec` makes the same builder of; the file is not needed."""
        return self.input_dim, self.size, self._classes, self._place, self._bias

    @classmethod
    def from_spec(cls, spec: Sequence[Any], pc: ParameterCollection) -> Self:
        """A new builder with the `spec` of another one."""
        input_dim, size, classes, place, bias = spec
        builder = cls.__new__(cls)
        builder._make(input_dim, Clusters(size, classes, place), bias, pc)
        return builder

    def neg_log_softmax(self, x: Expression, c: Int, update: bool = True) -> Expression:
        x, word = self._one(x, c)
        k, r = self._find("neg_log_softmax", word)
        loss = pickneglogsoftmax(self._class_scores(x, update), k)
        if len(self._classes[k]) == 1:
            return loss
        return add(loss, self._choices.loss_of_one(x, k, r, bool(update)))

    def neg_log_softmax_batch(
        self, x: Expression, c_list: Ints, update: bool = True
    ) -> Expression:
        x, words = self._checked_batch(x, c_list)
        places = [self._find("neg_log_softmax_batch", w) for w in words]
        classes = [k for k, _ in places]
        items = [Item(e, k, r) for e, (k, r) in enumerate(places)]
        loss = pickneglogsoftmax_batch(self._class_scores(x, update), classes)
        return add(loss, self._choices.loss(x, items, update))

    def sample(self, x: Expression) -> int:
        x = self._single("sample", x)
        k = draw(log_softmax(self._class_scores(x, True)))
        words = self._classes[k]
        if len(words) == 1:
            return words[0]
        return words[draw(self._choices.log_distribution(x, k, True))]

    def full_log_distribution(self, x: Expression, update: bool = True) -> Expression:
        """Logarithms of the probabilities of all words; -inf of one in no class.

        Returns:
            ``{size X b}``, by the ids of the words.
        """
        return self._full(self._input("full_log_distribution", x), update)

    def full_logits(self, x: Expression, update: bool = True) -> Expression:
        """The same as `full_log_distribution`."""
        return self._full(self._input("full_logits", x), update)

    def class_logits(self, x: Expression, update: bool = True) -> Expression:
        """Scores of the classes, ``{K X b}``."""
        return self._class_scores(self._input("class_logits", x), update)

    def class_log_distribution(self, x: Expression, update: bool = True) -> Expression:
        """Logarithms of the probabilities of the classes, ``{K X b}``."""
        x = self._input("class_log_distribution", x)
        return log_softmax(self._class_scores(x, update))

    def subclass_logits(
        self, x: Expression, classid: int, update: bool = True
    ) -> Expression:
        """Scores of the words of a class.

        Returns:
            ``{n X b}``. Every size n is a program of its own.
        Raises:
            ValueError: there is no such class, or it has one word only.
        """
        x = self._input("subclass_logits", x)
        k = self._class("subclass_logits", classid)
        return self._choices.scores(x, k, update)

    def subclass_log_distribution(
        self, x: Expression, classid: int, update: bool = True
    ) -> Expression:
        """Logarithms of the probabilities of a class's words, given the class.

        Returns:
            ``{n X b}``. Every size n is a program of its own.
        Raises:
            ValueError: as `subclass_logits`.
        """
        x = self._input("subclass_log_distribution", x)
        k = self._class("subclass_log_distribution", classid)
        return log_softmax(self._choices.scores(x, k, update))

    def _class_scores(self, x: Expression, update: bool) -> Expression:
        W = self._W.expr(bool(update))
        if self._b is None:
            return matmul(W, x)
        return affine_transform([self._b.expr(bool(update)), W, x])

    def _full(self, x: Expression, update: bool) -> Expression:
        start = len(self._classes)
        places = np.full((self.size, 2), -2)
        for word, (k, r) in self._place.items():
            at = self._choices.position(k, r)
            places[word] = k, -1 if at is None else start + at
        logs = log_softmax(self._class_scores(x, update))
        return full(places, [logs, *self._choices.all_logs(x, update)])

    def _find(self, name: str, word: int) -> tuple[int, int]:
        """The class of a word, and its number in it."""
        if word not in self._place:
            raise ValueError(
                error_text(
                    f"{self.whoami()}.{name}: the word is in no class",
                    got=f"id {word}",
                    expected="a word of the cluster file",
                    fix="add it to the file",
                )
            )
        return self._place[word]

    def _class(self, name: str, classid: Any) -> int:
        name = f"{self.whoami()}.{name}"
        k = index_below(name, "classid", classid, len(self._classes))
        if len(self._classes[k]) == 1:
            raise ValueError(
                error_text(
                    f"{name}: the class has one word only",
                    got=f"class {k}, of the word with id {self._classes[k][0]}",
                    expected="a class of two or more",
                    fix="its probability is 1",
                )
            )
        return k
