"""Relations between two words of a dependency tree, by a child-sum Tree-LSTM.

Tai, Socher & Manning 2015, arXiv:1503.00075, for nodes with any number of children, and
a bilinear score for each relation, all in one tensor. Parameters go to a file whenever
the error on other trees is the least so far. Trees are made up: the relation depends on
the words on the way from one to the other.
"""

import argparse
import os
import random
import tempfile

import dynet as dy

WORDS, RELATIONS = 20, 3


class Node:
    def __init__(self, word, children):
        self.word, self.children = word, children

    def nodes(self):
        return [self, *(node for child in self.children for node in child.nodes())]


def grow(rng, depth=0):
    count = rng.randint(0, 3) if depth else rng.randint(1, 3)
    children = [grow(rng, depth + 1) for _ in range(count if depth < 3 else 0)]
    return Node(rng.randrange(WORDS), children)


def examples(rng):
    """A tree, two of its nodes, and their relation."""
    while True:
        tree = grow(rng)
        nodes = tree.nodes()
        a, b = rng.choice(nodes), rng.choice(nodes)
        near = b in a.children or a in b.children
        yield tree, a, b, (2 if near else int(a.word % 4 < b.word % 4))


class ChildSumTreeLSTM:
    def __init__(self, model, dim, hidden):
        self.E = model.add_lookup_parameters((WORDS, dim))
        self.W = model.add_parameters((4 * hidden, dim))
        self.U = model.add_parameters((3 * hidden, hidden))
        self.Uf = model.add_parameters((hidden, hidden))
        self.b = model.add_parameters((4 * hidden,), init=0)
        self.hidden = hidden

    def __call__(self, node, states):
        """c and h of a node; `states` gets those of all below it, too."""
        below = [self(child, states) for child in node.children]
        H = self.hidden
        x = dy.affine_transform([self.b, self.W, self.E[node.word]])
        iou, xf = x[: 3 * H], x[3 * H :]
        if below:
            iou += self.U * dy.esum([h for _, h in below])
        i, o = dy.logistic(iou[:H]), dy.logistic(iou[H : 2 * H])
        c = dy.cmult(i, dy.tanh(iou[2 * H :]))
        for child_c, child_h in below:
            c += dy.cmult(dy.logistic(xf + self.Uf * child_h), child_c)
        h = dy.cmult(o, dy.tanh(c))
        states[node] = c, h
        return c, h


class Extractor:
    def __init__(self, options):
        self.model = dy.ParameterCollection()
        self.encode = ChildSumTreeLSTM(self.model, options.dim, options.hidden)
        size = options.pair
        self.left = self.model.add_parameters((size, options.hidden))
        self.right = self.model.add_parameters((size, options.hidden))
        self.T = self.model.add_parameters((RELATIONS, size, size))
        self.V = self.model.add_parameters((RELATIONS, 2 * size + options.hidden))
        self.b = self.model.add_parameters(RELATIONS)

    def scores(self, tree, a, b):
        states = {}
        _, top = self.encode(tree, states)
        x = dy.rectify(self.left * states[a][1])
        y = dy.rectify(self.right * states[b][1])
        bilinear = dy.contract3d_1d_1d(self.T, y, x)
        return bilinear + self.V * dy.concatenate([x, y, top]) + self.b


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--updates", type=int, default=50)
    arguments.add_argument("--dim", type=int, default=12)
    arguments.add_argument("--hidden", type=int, default=16)
    arguments.add_argument("--pair", type=int, default=6)
    arguments.add_argument("--batch", type=int, default=8)
    options, _ = arguments.parse_known_args()

    extractor = Extractor(options)
    trainer = dy.AdamTrainer(extractor.model, alpha=0.01)
    trainer.set_clip_threshold(-1)
    data = examples(random.Random(1))
    held = [next(data) for _ in range(30)]
    best = None
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "best")
        for update in range(1, options.updates + 1):
            dy.renew_cg()
            losses = []
            for _ in range(options.batch):
                tree, a, b, relation = next(data)
                scores = extractor.scores(tree, a, b)
                losses.append(dy.pickneglogsoftmax(scores, relation))
            loss = dy.esum(losses) / len(losses)
            print(update, f"{loss.scalar_value():.6f}")
            loss.backward()
            trainer.update()
            if update % 10 == 0:
                dy.renew_cg()
                scores = [extractor.scores(*example[:3]) for example in held]
                dy.forward(scores)
                wrong = sum(
                    s.npvalue().argmax() != r
                    for s, (*_, r) in zip(scores, held, strict=True)
                )
                if best is None or wrong < best:
                    best = wrong
                    extractor.model.save(path)
        extractor.model.populate(path)
    dy.renew_cg()
    wrong = sum(extractor.scores(*e[:3]).npvalue().argmax() != e[3] for e in held)
    print(f"{wrong} of {len(held)} are wrong, as when it was saved: {wrong == best}")


if __name__ == "__main__":
    main()
