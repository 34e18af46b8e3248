"""Sentiment at every node of binary trees, by a binary Tree-LSTM.

Tai, Socher & Manning 2015, arXiv:1503.00075, trained with a graph for each tree. Trees
are made up: words are good, bad or neither; "not" turns around the phrase behind it.
"""

import argparse
import random

import _dynet as dy

dy.init()

NOT, PLAIN, POLAR = 0, range(1, 21), range(21, 61)  # odd polar words are good
LABELS = ["bad", "neutral", "good"]


class Tree:
    """A word, or two trees; and what is felt about it, from -1 to 1."""

    def __init__(self, feeling, word=None, children=()):
        self.feeling, self.word, self.children = feeling, word, children

    def __str__(self):
        if not self.children:
            return f"w{self.word}"
        return "({} {})".format(*self.children)


def grow(rng, depth):
    if depth == 0 or rng.random() < 0.2:
        if rng.random() < 0.4:
            return Tree(0, rng.choice(PLAIN))
        word = rng.choice(POLAR)
        return Tree(1 if word % 2 else -1, word)
    right = grow(rng, depth - 1)
    if right.feeling and rng.random() < 0.3:
        return Tree(-right.feeling, children=(Tree(0, NOT), right))
    left = grow(rng, depth - 1)
    return Tree(left.feeling or right.feeling, children=(left, right))


class TreeLSTM:
    def __init__(self, model, words, word_dim, hidden):
        self.E = model.add_lookup_parameters((words, word_dim))
        self.WS = [model.add_parameters((hidden, word_dim)) for _ in "iou"]
        self.US = [model.add_parameters((hidden, 2 * hidden)) for _ in "iou"]
        self.UFS = [model.add_parameters((hidden, 2 * hidden)) for _ in "lr"]
        self.BS = [model.add_parameters(hidden) for _ in "iouf"]
        self.W_out = model.add_parameters((len(LABELS), hidden))

    def start(self):
        """Enters the parameters into the graph."""
        self.ws, self.us, self.ufs, self.bs = [
            [dy.parameter(p) for p in group]
            for group in (self.WS, self.US, self.UFS, self.BS)
        ]
        self.w_out = dy.parameter(self.W_out)

    def encode(self, tree, nodes):
        """h and c of a tree; `nodes` gets every tree in it with its h."""
        bi, bo, bu, bf = self.bs
        if tree.children:
            states = [self.encode(child, nodes) for child in tree.children]
            x, matrices = dy.concatenate([h for h, _ in states]), self.us
            forget = [dy.logistic(dy.affine_transform([bf, f, x])) for f in self.ufs]
            kept = [dy.cmult(f, c) for f, (_, c) in zip(forget, states, strict=True)]
        else:
            x, matrices, kept = self.E[tree.word], self.ws, []
        Wi, Wo, Wu = matrices
        i = dy.logistic(dy.affine_transform([bi, Wi, x]))
        o = dy.logistic(dy.affine_transform([bo, Wo, x]))
        u = dy.tanh(dy.affine_transform([bu, Wu, x]))
        c = dy.esum([dy.cmult(i, u), *kept])
        h = dy.cmult(o, dy.tanh(c))
        nodes.append((tree, h))
        return h, c

    def scores(self, tree):
        """Pairs of a node and the scores of its labels."""
        self.start()
        nodes = []
        self.encode(tree, nodes)
        return [(node, self.w_out * h) for node, h in nodes]


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--updates", type=int, default=50)
    arguments.add_argument("--word_dim", type=int, default=16)
    arguments.add_argument("--hidden", type=int, default=24)
    options, _ = arguments.parse_known_args()

    model = dy.Model()
    trainer = dy.AdagradTrainer(model, 0.1)
    trainer.set_sparse_updates(True)
    network = TreeLSTM(model, POLAR[-1] + 1, options.word_dim, options.hidden)
    rng = random.Random(1)
    for update in range(1, options.updates + 1):
        tree = grow(rng, depth=4)
        dy.renew_cg()
        losses = [
            dy.pickneglogsoftmax(scores, node.feeling + 1)
            for node, scores in network.scores(tree)
        ]
        loss = dy.esum(losses) * (1.0 / len(losses))
        print(update, f"{loss.scalar_value():.6f}")
        loss.backward()
        trainer.update()
    for _ in range(5):
        tree = grow(rng, depth=2)
        dy.renew_cg()
        _, scores = network.scores(tree)[-1]
        found = LABELS[scores.npvalue().argmax()]
        print("found", found, "for", LABELS[tree.feeling + 1], tree)


if __name__ == "__main__":
    main()
