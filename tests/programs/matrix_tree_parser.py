"""Dependency parser trained on all trees: Koo et al. 2007, by Kirchhoff's theorem.

The sum of the weights of all trees, projective or not, is a determinant, and the loss
is what the right tree lacks of it. A maximum spanning tree is what the parser finds.
Sentences are made up: a word's head is the nearest one of a class above its own, on the
side that the word's form tells.
"""

import argparse
import itertools
import random

import dynet as dy
import numpy as np

CLASSES, FORMS = 4, 6


def sentences(count, rng):
    """Words (class and form), and heads; 0 is the root."""
    for _ in range(count):
        length = rng.randint(4, 6)
        kinds = [0] + [rng.randrange(1, CLASSES) for _ in range(length - 1)]
        rng.shuffle(kinds)
        words = [(kind, rng.randrange(FORMS)) for kind in kinds]
        heads = []
        for i, (kind, form) in enumerate(words):
            above = [j for j in range(length) if words[j][0] < kind]
            side = [j for j in above if (j < i) == (form % 2)] or above
            heads.append(1 + min(side, key=lambda j: abs(i - j)) if above else 0)
        yield words, heads


def spanning_tree(scores):
    """The best heads of words 1.., where scores[h, d] is that of an arc.

    Chu & Liu, Edmonds: every word takes its best head, and cycles become one word.
    """
    n = len(scores)
    scores = scores.copy()
    np.fill_diagonal(scores, -np.inf)
    heads = [0, *[int(scores[:, d].argmax()) for d in range(1, n)]]
    for start in range(1, n):
        cycle, at = [], start
        while at and at not in cycle:
            cycle.append(at)
            at = heads[at]
        if at != start:
            continue
        rest = [i for i in range(n) if i not in cycle]
        within = sum(scores[heads[d], d] for d in cycle)
        small = np.full((len(rest) + 1, len(rest) + 1), -np.inf)
        small[:-1, :-1] = scores[np.ix_(rest, rest)]
        enters, leaves = {}, {}
        for k, i in enumerate(rest):
            gains = [within + scores[i, d] - scores[heads[d], d] for d in cycle]
            enters[k], small[k, -1] = cycle[int(np.argmax(gains))], max(gains)
            leaves[k] = cycle[int(np.argmax([scores[d, i] for d in cycle]))]
            small[-1, k] = scores[leaves[k], i]
        small[:, 0] = -np.inf
        found = spanning_tree(small)
        for k, i in enumerate(rest[1:], 1):
            heads[i] = rest[found[k]] if found[k] < len(rest) else leaves[k]
        heads[enters[found[len(rest)]]] = rest[found[len(rest)]]
        break
    return heads


class Parser:
    def __init__(self, model, dim, hidden):
        self.kinds = model.add_lookup_parameters((CLASSES + 1, dim))
        self.forms = model.add_lookup_parameters((FORMS + 1, dim))
        self.rnn = dy.BiRNNBuilder(1, 2 * dim, hidden, model, dy.GRUBuilder)
        self.W_head = model.add_parameters((hidden, hidden))
        self.W_dep = model.add_parameters((hidden, hidden))
        self.U = model.add_parameters((hidden, hidden))
        self.u = model.add_parameters((1, hidden))

    def scores(self, words):
        """A matrix: row h, column d is the score of the arc from h to d."""
        ids = [(CLASSES, FORMS), *words]
        xs = [dy.concatenate([self.kinds[k], self.forms[f]]) for k, f in ids]
        H = dy.concatenate_cols(self.rnn.transduce(xs))
        heads, deps = dy.tanh(self.W_head * H), dy.tanh(self.W_dep * H)
        prior = dy.transpose(self.u * heads)
        return dy.colwise_add(dy.transpose(heads) * (self.U * deps), prior)

    def loss(self, words, gold):
        n = len(words)
        scores = self.scores(words)
        apart = 1 - np.eye(n + 1)
        weights = dy.cmult(dy.exp(scores), dy.inputTensor(apart))
        into = dy.sum_dim(weights, [0])  # of each word, from any head
        laplacian = dy.cmult(
            dy.inputTensor(np.eye(n + 1)),
            dy.concatenate_cols([into] * (n + 1)),
        )
        laplacian = laplacian - weights
        words_only = list(range(1, n + 1))
        minor = dy.select_cols(dy.select_rows(laplacian, words_only), words_only)
        right = [dy.pick(scores[h], d) for d, h in enumerate(gold, 1)]
        return dy.logdet(minor) - dy.esum(right)

    def parse(self, words):
        return spanning_tree(self.scores(words).npvalue().astype(float))[1:]


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--updates", type=int, default=50)
    arguments.add_argument("--dim", type=int, default=10)
    arguments.add_argument("--hidden", type=int, default=16)
    options, _ = arguments.parse_known_args()

    model = dy.ParameterCollection()
    parser = Parser(model, options.dim, options.hidden)
    trainer = dy.AdamTrainer(model, 0.01)
    data = sentences(options.updates + 20, random.Random(1))
    for update, (words, heads) in enumerate(itertools.islice(data, options.updates), 1):
        dy.renew_cg()
        loss = parser.loss(words, heads) / len(words)
        print(update, f"{loss.value():.6f}")
        loss.backward()
        trainer.update()
    right = total = 0
    for words, heads in data:
        dy.renew_cg()
        found = parser.parse(words)
        right += sum(f == h for f, h in zip(found, heads, strict=True))
        total += len(words)
    print(f"heads found: {right} of {total}")


if __name__ == "__main__":
    main()
