"""Tree-LSTM over syntax trees: which package was this function taken from?

The trees come with every Python: the functions of the standard library's own source,
parsed by `ast`. Each example is another tree, built operation by operation, as in any
DyNet program. With ``--sst DIR`` the same network learns fine-grained sentiment on the
Stanford trees (train.txt and dev.txt, one s-expression a line), with a loss at every
node.

    python examples/ast_treelstm.py [--epochs N] [--quick] [--sst DIR]
"""

import argparse
import ast
import collections
import pathlib
import random
import re
import sysconfig
import time

from tqdm import tqdm

import dynetjax as dy

PACKAGES = (
    *("asyncio", "email", "http", "importlib", "json"),
    *("logging", "multiprocessing", "unittest", "urllib", "xml"),
)
UNKNOWN = "<unk>"
SHORTEST, LONGEST = 8, 80  # leaves


class Tree:
    """A binary tree: a leaf has a word, an inner node two children."""

    __slots__ = ("children", "label", "word")

    def __init__(self, label, word=None, children=()):
        self.label, self.word, self.children = label, word, children

    def leaves(self):
        """The words, from left to right."""
        stack, words = [self], []
        while stack:
            tree = stack.pop()
            if tree.word is not None:
                words.append(tree.word)
            stack.extend(reversed(tree.children))
        return words


def from_ast(node):
    """The binary tree of a syntax tree: its type, names and children, left to right."""
    parts = [Tree(None, type(node).__name__)]
    for value in vars(node).values():
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, ast.AST) and not isinstance(item, ast.expr_context):
                parts.append(from_ast(item))
            elif isinstance(item, str):
                parts.append(Tree(None, item[:20]))
    tree = parts[0]
    for part in parts[1:]:
        tree = Tree(None, None, (tree, part))
    return tree


def standard_library():
    """(train, dev) lists of trees of functions, split by file, labelled by package."""
    root = pathlib.Path(sysconfig.get_paths()["stdlib"])
    train: list[Tree] = []
    dev: list[Tree] = []
    for label, package in enumerate(PACKAGES):
        files = sorted((root / package).rglob("*.py"))
        for k, file in enumerate(f for f in files if "test" not in f.parts):
            part = dev if k % 5 == 2 else train
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    tree = from_ast(node)
                    if SHORTEST <= len(tree.leaves()) <= LONGEST:
                        tree.label = label
                        part.append(tree)
    return train, dev


def from_sexpr(line):
    """A tree of the Stanford Sentiment Treebank: ``(3 (2 It) (4 works))``."""
    tokens = iter(re.findall(r"[()]|[^ ()]+", line))

    def tree():
        label, parts = int(next(tokens)), []
        for token in tokens:
            if token == ")":
                break
            parts.append(tree() if token == "(" else token)
        if isinstance(parts[0], str):
            return Tree(label, parts[0])
        return Tree(label, None, tuple(parts))

    next(tokens)
    return tree()


def stanford(folder):
    """(train, dev) lists of sentiment trees."""
    read = [
        [from_sexpr(line) for line in (folder / name).open(encoding="utf-8")]
        for name in ("train.txt", "dev.txt")
    ]
    return read[0], read[1]


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
        """Hidden and cell state of `tree`; appends (hidden, label) of each node."""
        if tree.word is not None:
            number = self.vocabulary.get(tree.word, self.vocabulary[UNKNOWN])
            x = dy.lookup(self.words, number)
            i, o, u = (
                dy.affine_transform([self.bias[k], self.leaf[k], x]) for k in "iou"
            )
            c = dy.cmult(dy.logistic(i), dy.tanh(u))
        else:
            (h_left, c_left), (h_right, c_right) = (
                self.encode(child, seen) for child in tree.children
            )
            i, o, u, left, right = (
                dy.affine_transform(
                    [self.bias[k], self.left[k], h_left, self.right[k], h_right]
                )
                for k in "ioulr"
            )
            c = (
                dy.cmult(dy.logistic(i), dy.tanh(u))
                + dy.cmult(dy.logistic(left), c_left)
                + dy.cmult(dy.logistic(right), c_right)
            )
        h = dy.cmult(dy.logistic(o), dy.tanh(c))
        seen.append((h, tree.label))
        return h, c

    def scores(self, tree):
        """The labelled nodes' scores and labels, the root's last."""
        seen: list = []
        self.encode(tree, seen)
        return [(self.out * h, label) for h, label in seen if label is not None]

    def loss(self, tree):
        """Negative log likelihood of the tree's labels, summed."""
        return dy.esum(
            [dy.pickneglogsoftmax(score, label) for score, label in self.scores(tree)]
        )

    def predict(self, tree):
        """The most likely class of the root."""
        return int(self.scores(tree)[-1][0].npvalue().argmax())


def vocabulary_of(trees, least):
    """Numbers for the words that occur often enough."""
    counts = collections.Counter(w for tree in trees for w in tree.leaves())
    words = [UNKNOWN, *sorted(w for w, n in counts.items() if n >= least)]
    return {word: k for k, word in enumerate(words)}


def train_epoch(network, trainer, trees, title):
    """One pass; the average loss, seconds in all, and seconds spent building graphs."""
    total = building = 0.0
    start = time.perf_counter()
    progress = tqdm(trees, desc=title, unit="tree", mininterval=0.5)
    for k, tree in enumerate(progress, 1):
        dy.renew_cg()
        begun = time.perf_counter()
        loss = network.loss(tree)
        building += time.perf_counter() - begun
        total += loss.value()
        loss.backward()
        trainer.update()
        if k % 50 == 0:
            progress.set_postfix(loss=f"{total / k:.3f}")
    return total / len(trees), time.perf_counter() - start, building


def accuracy(network, trees):
    """How often the root's class is right."""
    right = 0
    for tree in tqdm(trees, desc="dev", unit="tree", leave=False):
        dy.renew_cg()
        right += network.predict(tree) == tree.label
    return right / len(trees)


def report(trees, loss, seconds, building):
    """Speed, and where the time went."""
    stats = dy.stats()
    print(f"loss {loss:.3f}; {len(trees) / seconds:.0f} trees/s in the last epoch")
    spent = {"build": building, **stats.seconds, "compile": stats.compile_seconds}
    print("time:", ", ".join(f"{name} {s:.1f} s" for name, s in spent.items()))
    print(f"XLA compilations: {stats.compilations} ({stats.loads} read from its cache)")


def main():
    """Train, and print loss, accuracy, speed and the number of compilations."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--sst", type=pathlib.Path, metavar="DIR")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument(
        "--size", type=int, default=128, help="of embeddings and states"
    )
    parser.add_argument("--limit", type=int, default=4000, help="training trees used")
    parser.add_argument("--quick", action="store_true", help="a few seconds only")
    args = parser.parse_args()
    dy.reset_random_seed(1)
    random.seed(1)
    train, dev = stanford(args.sst) if args.sst else standard_library()
    random.shuffle(train)
    train, epochs, size = train[: args.limit], args.epochs, args.size
    if args.quick:
        train, dev, epochs, size = train[:60], dev[:20], 1, 16
    vocabulary = vocabulary_of(train, least=1 if args.sst else 3)
    classes = 5 if args.sst else len(PACKAGES)
    print(f"{len(train)} trees to train, {len(dev)} to test, {len(vocabulary)} words")
    model = dy.ParameterCollection()
    network = TreeLSTM(model, vocabulary, classes, size)
    trainer = dy.AdamTrainer(model)
    for epoch in range(1, epochs + 1):
        random.shuffle(train)
        result = train_epoch(network, trainer, train, f"epoch {epoch}")
    baseline = collections.Counter(t.label for t in dev).most_common(1)[0][1] / len(dev)
    right = accuracy(network, dev)
    report(train, *result)
    print(f"accuracy on other files: {right:.1%} (majority class: {baseline:.1%})")


if __name__ == "__main__":
    main()
