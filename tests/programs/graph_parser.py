"""Graph-based dependency parser over BiLSTM features.

Kiperwasser & Goldberg 2016, arXiv:1603.04351: an MLP scores every pair of words as head
and dependant, Eisner's algorithm finds the best projective tree, and the loss is the
margin by which it beats the right one, with every wrong arc worth one more. Sentences
are made up: a word's class says which words it takes as dependants.
"""

import argparse
import functools
import itertools
import random

import _dynet as dy
import numpy as np

dy.init()

CLASSES, WORDS = 6, 30
ROOT = WORDS


def sentences(rng):
    """Endless lists of words, the root first, and of their heads."""

    def grow(words, heads, kind, depth):
        """Add a word of this class with its dependants, and tell its place."""
        before, after = (rng.randrange(3), rng.randrange(2)) if depth < 2 else (0, 0)
        dependants = [grow(words, heads, kind + 1, depth + 1) for _ in range(before)]
        place = len(words)
        words.append(kind % CLASSES + CLASSES * rng.randrange(WORDS // CLASSES))
        heads.append(None)
        dependants += [grow(words, heads, kind + 2, depth + 1) for _ in range(after)]
        for dependant in dependants:
            heads[dependant] = place
        return place

    while True:
        words, heads = [ROOT], [None]
        heads[grow(words, heads, 0, 0)] = 0
        yield words, heads


def eisner(scores):
    """Heads in the best projective tree, where scores[h, d] is that of an arc."""

    def best(parts):
        return max((a[0] + b[0], a[1] + b[1]) for a, b in parts)

    @functools.lru_cache(None)
    def whole(i, j, right):
        """Score and arcs of a span whose head is its first word (right) or its last."""
        if i == j:
            return 0.0, ()
        if right:
            return best(
                (arc(i, k, True), whole(k, j, True)) for k in range(i + 1, j + 1)
            )
        return best((whole(i, k, False), arc(k, j, False)) for k in range(i, j))

    @functools.lru_cache(None)
    def arc(i, j, right):
        """The same of a span whose ends are head and dependant."""
        score, arcs = best(
            (whole(i, k, True), whole(k + 1, j, False)) for k in range(i, j)
        )
        head, dependant = (i, j) if right else (j, i)
        return score + scores[head, dependant], (*arcs, (dependant, head))

    heads = dict(whole(0, len(scores) - 1, True)[1])
    return [heads.get(i) for i in range(len(scores))]


class Parser:
    def __init__(self, model, options):
        self.lookup = model.add_lookup_parameters((WORDS + 1, options.embedding))
        self.bilstm = dy.BiRNNBuilder(
            1, options.embedding, options.lstm, model, dy.VanillaLSTMBuilder
        )
        self.W_head = model.add_parameters((options.hidden, options.lstm))
        self.W_dependant = model.add_parameters((options.hidden, options.lstm))
        self.b = model.add_parameters(options.hidden)
        self.out = model.add_parameters((1, options.hidden))

    def arcs(self, words):
        """Scores of all arcs, as expressions, by head and dependant."""
        out = dy.parameter(self.out)
        vectors = self.bilstm.transduce([self.lookup[w] for w in words])
        as_head = [dy.parameter(self.W_head) * v for v in vectors]
        as_dependant = [dy.parameter(self.W_dependant) * v + self.b for v in vectors]
        return [[out * dy.tanh(h + d) for d in as_dependant] for h in as_head]

    def margins(self, words, heads):
        """One for each word that gets a wrong head, if wrong heads have a bonus."""
        arcs = self.arcs(words)
        scores = np.array([[arc.scalar_value() for arc in row] for row in arcs])
        scores += 1.0
        for dependant, head in enumerate(heads[1:], start=1):
            scores[head, dependant] -= 1.0
        for dependant, head in enumerate(eisner(scores)):
            if head != heads[dependant]:
                gold = arcs[heads[dependant]][dependant]
                yield 1.0 + arcs[head][dependant] - gold


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--updates", type=int, default=50)
    arguments.add_argument("--embedding", type=int, default=20)
    arguments.add_argument("--lstm", type=int, default=24)
    arguments.add_argument("--hidden", type=int, default=32)
    arguments.add_argument("--batch", type=int, default=6)
    options, _ = arguments.parse_known_args()

    model = dy.ParameterCollection()
    trainer = dy.AdamTrainer(model, alpha=0.015)
    parser = Parser(model, options)
    data = sentences(random.Random(1))
    for update in range(1, options.updates + 1):
        dy.renew_cg()
        batch = itertools.islice(data, options.batch)
        margins = [m for words, heads in batch for m in parser.margins(words, heads)]
        loss = dy.esum([dy.zeros(1), *margins]) / options.batch
        print(update, f"{loss.scalar_value():.6f}")
        loss.backward()
        trainer.update()


if __name__ == "__main__":
    main()
