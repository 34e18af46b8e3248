"""The softmax over words at the leaves of a tree of choices."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Self

import numpy as np

from dynetjax.builders.choices import Choices, Item, full
from dynetjax.builders.clusters import Paths, read_paths
from dynetjax.builders.softmax import SoftmaxBuilder, draw
from dynetjax.core.errors import error_text
from dynetjax.core.expression import Expression
from dynetjax.io.text import FilePath
from dynetjax.model.collection import ParameterCollection
from dynetjax.ops.arguments import Int, Ints
from dynetjax.ops.inputs import inputTensor
from dynetjax.ops.rows import (
    concatenate_to_batch,
    esum,
    pick_batch_elem,
    sum_batches,
)


class HierarchicalSoftmaxBuilder(SoftmaxBuilder):
    r"""A distribution over words, by one choice after the other: Morin & Bengio 2005.

        p(w) = product of p(next | node) over the nodes on the way to w
        p(first | node) = sigmoid(W x + b)             of two: W {1,I}, b {1}
        p(k | node) = softmax(W x + b)_k               of m:   W {m,I}, b {m}

    Parameters, depth first from the root, for each node with two outcomes or more (I
    input size): W Glorot, b zero. What follows of a node is its children or its words,
    by the order in which they first appear.

    A file has a word in each line: the symbols on the way to its node between spaces, a
    tab, the word; what comes behind is of no account. All words of one way hang on one
    node. A word that comes twice is reached by its last way.

    Trainers change only the nodes that a graph has read, as they do rows of lookup
    parameters.

    Args:
        input_dim: size I of the input.
        cluster_file: name of such a file.
        dic: the id of each word, from 0 on without gaps.
        pc: gets a sub-collection ``hsm-builder``.
    Raises:
        OverflowError: `input_dim` is negative.
        TypeError: `pc` is no ParameterCollection, or `dic` no dict.
        ValueError: the ids in `dic` have gaps; the file cannot be read, has a line of
            another form, a word that is not in `dic`, a node with words as well as
            children, or no line.
    Source: clab/dynet, ``dynet/hsm-builder.cc``, where it has no Python interface,
    batches or full distributions.
    Examples:
        >>> with open("tree.txt", "w") as file:
        ...     print("0 0\tcat\n0 0\tdog\n0 1\tfish\n1\truns", file=file)
        >>> words = {"cat": 0, "dog": 1, "fish": 2, "runs": 3}
        >>> softmax = dy.HierarchicalSoftmaxBuilder(4, "tree.txt", words, dy.Model())
        >>> h = dy.zeros(4)  # which makes both ways on equally likely
        >>> print(np.exp(softmax.full_log_distribution(h).npvalue()).round(3))
        [0.125 0.125 0.25  0.5  ]
        >>> loss = softmax.neg_log_softmax(h, words["dog"])
        >>> print(round(loss.value() / np.log(2), 3), "bits")
        3.0 bits
    """

    collection_name = "hsm-builder"

    size: int

    def __init__(
        self,
        input_dim: int,
        cluster_file: FilePath,
        dic: Mapping[str, int],
        pc: ParameterCollection,
    ):
        self._make(input_dim, read_paths(self.whoami(), cluster_file, dic), pc)

    def _make(self, input_dim: int, paths: Paths, pc: ParameterCollection) -> None:
        nodes = _numbered(_tree(self.whoami(), paths))
        super().__init__(input_dim, pc)
        self.size, self._lines = paths.size, paths.lines
        self._nodes = [list(node.next.values()) or node.words for node in nodes]
        self._ways: dict[int, list[tuple[int, int]]] = {}  # node and outcome
        for symbols, word in paths.lines:
            self._ways[word] = _way(nodes[0], symbols, word)
        outcomes = [len(after) for after in self._nodes]
        self._choices = Choices(self._collection, self.input_dim, outcomes, binary=True)

    @property
    def spec(self) -> tuple[Any, ...]:
        """What `from_spec` makes the same builder of; the file is not needed."""
        return self.input_dim, self.size, self._lines

    @classmethod
    def from_spec(cls, spec: Sequence[Any], pc: ParameterCollection) -> Self:
        """A new builder with the `spec` of another one."""
        input_dim, size, lines = spec
        builder = cls.__new__(cls)
        builder._make(input_dim, Paths(size, lines, [""] * len(lines)), pc)
        return builder

    def neg_log_softmax(self, x: Expression, c: Int, update: bool = True) -> Expression:
        x, word = self._one(x, c)
        items = self._items("neg_log_softmax", 0, word)
        if not items:
            return inputTensor([0.0])
        return sum_batches(self._choices.loss(x, items, update))

    def neg_log_softmax_batch(
        self, x: Expression, c_list: Ints, update: bool = True
    ) -> Expression:
        x, words = self._checked_batch(x, c_list)
        items: list[Item] = []
        bounds = [0]
        for element, word in enumerate(words):
            items += self._items("neg_log_softmax_batch", element, word)
            bounds.append(len(items))
        if not items:
            return inputTensor(np.zeros((1, len(words))), batched=True)
        losses = self._choices.loss(x, items, update)
        sums = [
            esum([pick_batch_elem(losses, k) for k in range(start, end)])
            if end > start
            else inputTensor([0.0])
            for start, end in pairwise(bounds)
        ]
        return concatenate_to_batch(sums)

    def sample(self, x: Expression) -> int:
        x, node = self._single("sample", x), 0
        while True:
            after, outcome = self._nodes[node], 0
            if len(after) > 1:
                outcome = draw(self._choices.log_distribution(x, node, True))
            child = after[outcome]
            if isinstance(child, int):
                return child
            node = child.number

    def full_log_distribution(self, x: Expression, update: bool = True) -> Expression:
        """Logarithms of the probabilities of all words; -inf of one not in the tree.

        Returns:
            ``{size X b}``, by the ids of the words.
        """
        return self._full(self._input("full_log_distribution", x), update)

    def full_logits(self, x: Expression, update: bool = True) -> Expression:
        """The same as `full_log_distribution`."""
        return self._full(self._input("full_logits", x), update)

    def _full(self, x: Expression, update: bool) -> Expression:
        longest = max(map(len, self._ways.values()))
        places = np.full((self.size, longest), -1)
        places[:, 0] = -2
        for word, way in self._ways.items():
            positions = [self._choices.position(*step) for step in way]
            places[word, : len(way)] = [-1 if at is None else at for at in positions]
        return full(places, self._choices.all_logs(x, update))

    def _items(self, name: str, element: int, word: int) -> list[Item]:
        """The choices on the way to a word."""
        if word not in self._ways:
            raise ValueError(
                error_text(
                    f"{self.whoami()}.{name}: the word is not in the tree",
                    got=f"id {word}",
                    expected="a word of the cluster file",
                    fix="add it to the file",
                )
            )
        return [
            Item(element, node, outcome)
            for node, outcome in self._ways[word]
            if len(self._nodes[node]) > 1
        ]


class _Node:
    """A node: its children by symbol, or its words."""

    def __init__(self) -> None:
        self.next: dict[str, _Node] = {}
        self.words: list[int] = []
        self.number = 0


def _tree(name: str, paths: Paths) -> _Node:
    root = _Node()
    for (symbols, word), place in zip(paths.lines, paths.places, strict=True):
        node = root
        for symbol in symbols:
            node = node.next.setdefault(symbol, _Node())
        node.words.append(word)
        above = [root]
        for symbol in symbols:
            above.append(above[-1].next[symbol])
        if any(n.words and n.next for n in above):
            raise ValueError(
                error_text(
                    f"{name}: {place}: a node has words as well as children",
                    got=" ".join(symbols),
                    expected="words at the ends of ways only",
                    fix="give the words that hang on it a symbol more",
                )
            )
    return root


def _numbered(root: _Node) -> list[_Node]:
    """All nodes, depth first."""
    nodes: list[_Node] = []
    stack = [root]
    while stack:
        node = stack.pop()
        node.number = len(nodes)
        nodes.append(node)
        stack += reversed(node.next.values())
    return nodes


def _way(root: _Node, symbols: list[str], word: int) -> list[tuple[int, int]]:
    """The nodes on the way to a word, and what follows of each."""
    way, node = [], root
    for symbol in symbols:
        way.append((node.number, list(node.next).index(symbol)))
        node = node.next[symbol]
    last = len(node.words) - 1 - node.words[::-1].index(word)
    return [*way, (node.number, last)]
