"""Tree-LSTM over syntax trees: which package was this function taken from?

The trees come with every Python: the functions of the standard library's own source,
parsed by `ast`. Each is another tree, built operation by operation, as in any DyNet
program. With ``--sst DIR`` the same network learns sentiment on the Stanford trees
(train.txt and dev.txt, one s-expression a line), with a loss at every node.

    python examples/ast_treelstm.py [--epochs N] [--quick] [--sst DIR]
"""

import argparse
import ast
import pathlib
import random
import re
import sysconfig
import time
from collections import Counter
from typing import NamedTuple

from tqdm import tqdm

import dynetjax as dy

PACKAGES = (
    "asyncio email http importlib json logging multiprocessing unittest urllib xml"
)
UNKNOWN = "<unk>"


class Tree(NamedTuple):
    """A binary tree: a leaf has a word, an inner node two children."""

    label: int | None
    word: str | None = None
    children: tuple = ()


def words(tree):
    """Those of its leaves, from left to right."""
    return [tree.word] if tree.word else [w for t in tree.children for w in words(t)]


def from_ast(node):
    """The binary tree of a syntax tree: its type, names and children, left to right."""
    tree = Tree(None, type(node).__name__)
    for value in vars(node).values():
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, ast.AST) and not isinstance(item, ast.expr_context):
                tree = Tree(None, None, (tree, from_ast(item)))
            elif isinstance(item, str) and item:
                tree = Tree(None, None, (tree, Tree(None, item[:20])))
    return tree


def standard_library():
    """(train, dev) lists of trees of functions, split by file, labelled by package."""
    root = pathlib.Path(sysconfig.get_paths()["stdlib"])
    parts: tuple[list, list] = [], []
    for label, package in enumerate(PACKAGES.split()):
        for k, file in enumerate(sorted((root / package).rglob("*.py"))):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    tree = from_ast(node)._replace(label=label)
                    parts[k % 5 == 2].append(tree)
    return [[t for t in trees if 8 <= len(words(t)) <= 80] for trees in parts]


def from_sexpr(tokens):
    """A tree of the Stanford Sentiment Treebank, ``3 (2 It) (4 works))``."""
    label, parts = int(next(tokens)), []
    while (token := next(tokens)) != ")":
        parts.append(from_sexpr(tokens) if token == "(" else token)
    return Tree(label, *parts) if len(parts) == 1 else Tree(label, None, tuple(parts))


def stanford(folder):
    """(train, dev) lists of sentiment trees."""
    texts = [(folder / f"{part}.txt").read_text("utf-8") for part in ("train", "dev")]
    found = [[re.findall(r"[()]|[^ ()]+", s) for s in t.splitlines()] for t in texts]
    return [[from_sexpr(iter(tokens[1:])) for tokens in part] for part in found]


class TreeLSTM:
    """Binary Tree-LSTM (Tai et al. 2015) with a softmax over the root or every node."""

    def __init__(self, model, vocabulary, classes, size):
        self.vocabulary = vocabulary
        self.words = model.add_lookup_parameters((len(vocabulary), size))
        self.leaf = {k: model.add_parameters((size, size)) for k in "iou"}
        self.left = {k: model.add_parameters((size, size)) for k in "ioulr"}
        self.right = {k: model.add_parameters((size, size)) for k in "ioulr"}
        self.bias = {k: model.add_parameters(size, init=0) for k in "ioulr"}
        self.out = model.add_parameters((classes, size))

    def encode(self, tree, seen):
        """Hidden and cell state; appends the scores and labels of labelled nodes."""
        cells: tuple = ()
        if tree.word is not None:
            word = self.vocabulary.get(tree.word, self.vocabulary[UNKNOWN])
            read = [(self.leaf, self.words[word])]
        else:
            states, cells = zip(
                *[self.encode(t, seen) for t in tree.children], strict=True
            )
            read = list(zip((self.left, self.right), states, strict=True))
        i, o, u, *forget = (
            dy.affine_transform(
                [self.bias[k], *(e for W, x in read for e in (W[k], x))]
            )
            for k in ("ioulr" if cells else "iou")
        )
        c = dy.cmult(dy.logistic(i), dy.tanh(u))
        for gate, old in zip(forget, cells, strict=True):
            c += dy.cmult(dy.logistic(gate), old)
        h = dy.cmult(dy.logistic(o), dy.tanh(c))
        if tree.label is not None:
            seen.append((self.out * h, tree.label))
        return h, c

    def scores(self, tree):
        """Of the labelled nodes, with their labels, the root's last."""
        seen: list = []
        self.encode(tree, seen)
        return seen

    def loss(self, tree):
        """Negative log likelihood of the tree's labels, summed."""
        return dy.esum([dy.pickneglogsoftmax(*pair) for pair in self.scores(tree)])


def main():
    """Train, and print loss, accuracy, speed and the number of compilations."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--sst", type=pathlib.Path, metavar="DIR")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="a few seconds only")
    args = parser.parse_args()
    dy.reset_random_seed(1)
    random.seed(1)
    train, dev = stanford(args.sst) if args.sst else standard_library()
    random.shuffle(train)
    train, size = train[:4000], 128
    if args.quick:
        train, dev, args.epochs, size = train[:60], dev[::40], 1, 16
    counts = Counter(w for tree in train for w in words(tree))
    known = sorted(w for w in counts if counts[w] >= (1 if args.sst else 3))
    vocabulary = {word: k for k, word in enumerate([UNKNOWN, *known])}
    print(f"{len(train)} trees to train, {len(dev)} to test, {len(vocabulary)} words")
    model = dy.ParameterCollection()
    network = TreeLSTM(model, vocabulary, 5 if args.sst else 10, size)
    trainer = dy.AdamTrainer(model)
    for epoch in range(1, args.epochs + 1):
        total, start = 0.0, time.perf_counter()
        for tree in tqdm(random.sample(train, len(train)), f"epoch {epoch}"):
            dy.renew_cg()
            loss = network.loss(tree)
            total += loss.value()
            loss.backward()
            trainer.update()
        speed = len(train) / (time.perf_counter() - start)
        print(f"epoch {epoch}: loss {total / len(train):.3f}, {speed:.0f} trees/s")
    right = 0
    for tree in tqdm(dev, "dev"):
        dy.renew_cg()
        right += network.scores(tree)[-1][0].npvalue().argmax() == tree.label
    ((_, most),) = Counter(tree.label for tree in dev).most_common(1)
    stats = dy.stats()
    print(f"XLA compilations: {stats.compilations} ({stats.loads} read from its cache)")
    print(f"right: {right / len(dev):.1%} (most frequent class: {most / len(dev):.1%})")


if __name__ == "__main__":
    main()
