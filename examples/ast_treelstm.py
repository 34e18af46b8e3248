"""Tree-LSTM over syntax trees: which package was this function taken from?

The trees come with every Python: functions of the standard library, parsed by `ast`.
Each is another graph, built operation by operation. With ``--sst DIR`` the network
learns the sentiment at every node of the Stanford trees (train.txt, dev.txt).
"""

import argparse
import ast
import pathlib
import random
import re
import sysconfig
import time
from collections import Counter

from progress import tqdm

import dynetjax as dy

PACKAGES = (
    "asyncio email http importlib json logging multiprocessing unittest urllib xml"
)


def words(tree):
    """Those of its leaves, from left to right. A tree is (label, word or two trees)."""
    _, inside = tree
    return (
        [inside] if isinstance(inside, str) else [w for t in inside for w in words(t)]
    )


def from_ast(node):
    """The binary tree of a syntax tree: its type, names and children, left to right."""
    tree: tuple = None, type(node).__name__
    for value in vars(node).values():
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, ast.AST) and not isinstance(item, ast.expr_context):
                tree = None, (tree, from_ast(item))
            elif isinstance(item, str) and item:
                tree = None, (tree, (None, item[:20]))
    return tree


def standard_library():
    """(train, dev) lists of trees of functions, split by file, labelled by package."""
    root = pathlib.Path(sysconfig.get_paths()["stdlib"])
    parts: tuple[list, list] = [], []
    for label, package in enumerate(PACKAGES.split()):
        for k, file in enumerate(sorted((root / package).rglob("*.py"))):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    parts[k % 5 == 2].append((label, from_ast(node)[1]))
    return [[t for t in trees if 8 <= len(words(t)) <= 80] for trees in parts]


def from_sexpr(tokens):
    """A tree of the Stanford Sentiment Treebank, ``3 (2 It) (4 works))``."""
    label, parts = int(next(tokens)), []
    while (token := next(tokens)) != ")":
        parts.append(from_sexpr(tokens) if token == "(" else token)
    return label, parts[0] if len(parts) == 1 else parts


def stanford(folder):
    """(train, dev) lists of sentiment trees."""
    texts = [(folder / f"{part}.txt").read_text("utf-8") for part in ("train", "dev")]
    found = [[re.findall(r"[()]|[^ ()]+", s) for s in t.splitlines()] for t in texts]
    return [[from_sexpr(iter(tokens[1:])) for tokens in part] for part in found]


class TreeLSTM:
    """Binary Tree-LSTM (Tai et al. 2015) with a softmax over the root or every node."""

    def __init__(self, model, known, classes, size):
        self.numbers = {word: k for k, word in enumerate(known, 1)}
        self.table = model.add_lookup_parameters((len(known) + 1, size))
        self.leaf = {k: model.add_parameters((size, size)) for k in "iou"}
        self.left = {k: model.add_parameters((size, size)) for k in "ioulr"}
        self.right = {k: model.add_parameters((size, size)) for k in "ioulr"}
        self.bias = {k: model.add_parameters(size, init=0) for k in "ioulr"}
        self.out = model.add_parameters((classes, size))

    def encode(self, tree):
        """Hidden and cell state; and scores and label of each labelled node."""
        label, inside = tree
        if isinstance(inside, str):
            word = self.numbers.get(inside, 0)  # row 0 is for all others
            states, read = [], [(self.leaf, self.table[word])]
        else:
            states = [self.encode(t) for t in inside]
            (h_left, *_), (h_right, *_) = states
            read = [(self.left, h_left), (self.right, h_right)]
        i, o, u, *forget = (
            dy.affine_transform(
                [self.bias[k], *[e for W, x in read for e in (W[k], x)]]
            )
            for k in ("ioulr" if states else "iou")
        )
        c = dy.cmult(dy.logistic(i), dy.tanh(u))
        for gate, (_, old, _) in zip(forget, states, strict=True):
            c += dy.cmult(dy.logistic(gate), old)
        h = dy.cmult(dy.logistic(o), dy.tanh(c))
        own = [] if label is None else [(self.out * h, label)]
        return h, c, [pair for *_, seen in states for pair in seen] + own


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
    train, dev = (train[:60], dev[::40]) if args.quick else (train[:4000], dev)
    counts = Counter(w for tree in train for w in words(tree))
    known = sorted(w for w in counts if counts[w] > 2 or args.sst)
    print(f"{len(train)} trees to train, {len(dev)} to test, {len(known)} words")
    model = dy.ParameterCollection()
    classes, size = 5 if args.sst else 10, 16 if args.quick else 128
    network = TreeLSTM(model, known, classes, size)
    trainer = dy.AdamTrainer(model)
    for epoch in range(1, 2 if args.quick else args.epochs + 1):
        total, start = 0.0, time.perf_counter()
        for tree in tqdm(
            random.sample(train, len(train)), f"epoch {epoch}", leave=False
        ):
            dy.renew_cg()
            *_, seen = network.encode(tree)
            loss = dy.esum([dy.pickneglogsoftmax(scores, y) for scores, y in seen])
            total += loss.value()
            loss.backward()
            trainer.update()
        speed = len(train) / (time.perf_counter() - start)
        print(f"epoch {epoch}: loss {total / len(train):.3f}, {speed:.0f} trees/s")
    right = 0
    for tree in tqdm(dev, "dev", leave=False):
        dy.renew_cg()
        *_, seen = network.encode(tree)
        right += seen[-1][0].npvalue().argmax() == tree[0]
    most = max(Counter(label for label, _ in dev).values())
    print(f"XLA compilations: {dy.stats().compilations}")
    print(f"right: {right / len(dev):.1%} (most frequent class: {most / len(dev):.1%})")


if __name__ == "__main__":
    main()
