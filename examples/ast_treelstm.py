"""Tree-LSTM over syntax trees: which package was this function taken from?

The trees come with every Python: functions of the standard library, parsed by `ast`.
Each is another graph, built operation by operation. With ``--sst DIR`` the network
learns the sentiment at every node of the Stanford trees (train.txt, dev.txt); with
``--dynet PYTHON``, a Python that has DyNet, that trains on some of the trees, too.
"""

import argparse
import os
import pathlib
import random
import time
from collections import Counter

import syntax_trees
from beside_dynet import speed_of_dynet
from progress import tqdm
from syntax_trees import words

import dynetjax as dy

NEXT = """Next: python -m dynetjax program.py runs a program that was written for DyNet;
docs/quickstart.md shows how to write one, docs/porting.md tells what differs,
and python -m dynetjax doctor what is installed here."""


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


def train_on(tree, network, trainer):
    """One step of training; the loss."""
    dy.renew_cg()
    *_, seen = network.encode(tree)
    loss = dy.esum([dy.pickneglogsoftmax(scores, y) for scores, y in seen])
    value = loss.value()
    loss.backward()
    trainer.update()
    return value


def guess(tree, network):
    """The likeliest class of a tree, and its probability."""
    dy.renew_cg()
    *_, (*_, (scores, _)) = network.encode(tree)
    shares = dy.softmax(scores).npvalue()
    return int(shares.argmax()), float(shares.max())


def train_epoch(title, trees, network, trainer):
    """Train on every tree once, with a line that follows; trees a second."""
    total, start = 0.0, time.perf_counter()
    bar = tqdm(random.sample(trees, len(trees)), title, leave=False, unit="tree")
    for k, tree in enumerate(bar, 1):
        total += train_on(tree, network, trainer)
        bar.set_postfix(loss=f"{total / k:.3f}", refresh=False)
    speed = len(trees) / (time.perf_counter() - start)
    print(f"{title}: loss {total / len(trees):.3f}, {speed:.0f} trees/s", flush=True)
    return speed


def show(trees, network, names):
    """Draw trees side by side, each below what the network takes it for."""
    pictures = []
    for tree in trees:
        best, share = guess(tree, network)
        right = names[tree[0]]
        verdict = "right" if names[best] == right else f"wrong: {right}"
        title = [f"{names[best]}, {share:.0%}", f"({verdict})"]
        pictures.append(title + syntax_trees.draw(tree))
    print(f"\n{syntax_trees.side_by_side(pictures)}\n")


def main():
    """Train, and print loss, accuracy, speed and the number of compilations."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--sst", type=pathlib.Path, metavar="DIR")
    parser.add_argument(
        "--dynet", metavar="PYTHON", default=os.environ.get("DYNETJAX_BENCH_DYNET")
    )
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="a few seconds only")
    args = parser.parse_args()
    dy.reset_random_seed(1)
    random.seed(1)
    if args.sst:
        names, (train, dev) = syntax_trees.SENTIMENTS, syntax_trees.stanford(args.sst)
    else:
        names, (train, dev) = syntax_trees.PACKAGES, syntax_trees.standard_library()
    random.shuffle(train)
    train, dev = (train[:60], dev[::40]) if args.quick else (train[:4000], dev)
    counts = Counter(w for tree in train for w in words(tree))
    known = sorted(w for w in counts if counts[w] > 2 or args.sst)
    print(f"{len(train)} trees to train, {len(dev)} to test, {len(known)} words")
    sizes = {"classes": len(names), "size": 16 if args.quick else 128}
    model = dy.ParameterCollection()
    network = TreeLSTM(model, known, **sizes)
    trainer = dy.AdamTrainer(model)
    for epoch in range(1, 2 if args.quick else args.epochs + 1):
        speed = train_epoch(f"epoch {epoch}", train, network, trainer)
    if args.dynet:
        try:
            theirs = speed_of_dynet(args.dynet, train[:600], known=known, **sizes)
            print(f"DyNet, on one thread: {theirs:.0f} trees/s; here: {speed:.0f}")
        except (OSError, RuntimeError) as error:
            print(f"DyNet was not run: {error}")
    right = sum(guess(t, network)[0] == t[0] for t in tqdm(dev, "dev", leave=False))
    most = max(Counter(label for label, _ in dev).values())
    print(f"right: {right / len(dev):.1%} (most frequent class: {most / len(dev):.1%})")
    small = sorted(dev, key=lambda tree: len(words(tree)))[: 3 + len(dev) // 5]
    show(random.sample(small, min(3, len(small))), network, names)
    print(f"XLA compilations: {dy.stats().compilations}")
    print(NEXT)


if __name__ == "__main__":
    main()
