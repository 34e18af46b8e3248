"""Siamese network: names that are of one thing come near to one another.

Neculoiu, Versteegh & Rotaru 2016, "Learning text similarity with Siamese recurrent
networks": two strings go through one BiLSTM over letters, and a margin keeps the cosine
of a pair above those of the wrong ones in the minibatch. Names are made up, with
mistakes in writing.
"""

import argparse
import random

import dynet as dy
import numpy as np

LETTERS = "abcdefghij "
SYLLABLES = ["ab", "ca", "de", "fa", "gi", "hi", "ja", "be", "ce", "di"]


def name(rng):
    return "".join(rng.choice(SYLLABLES) for _ in range(rng.randint(2, 4)))


def mistaken(text, rng):
    """The text with a letter changed, doubled or left out."""
    i, what = rng.randrange(len(text)), rng.randrange(3)
    between = [rng.choice(LETTERS), text[i] * 2, ""][what]
    return text[:i] + between + text[i + 1 :]


class Encoder:
    def __init__(self, model, options):
        self.chars = model.add_lookup_parameters(
            (len(LETTERS), options.chars), init=dy.NormalInitializer(0, 1)
        )
        self.rnn = dy.BiRNNBuilder(
            2, options.chars, options.hidden, model, dy.VanillaLSTMBuilder
        )
        self.scale = model.add_parameters(options.hidden, init=dy.ConstInitializer(1))
        self.shift = model.add_parameters(options.hidden, init=dy.ConstInitializer(0))
        self.W = model.add_parameters((options.dim, options.hidden))

    def __call__(self, text):
        states = self.rnn.transduce([self.chars[LETTERS.index(c)] for c in text])
        return self.W * dy.layer_norm(dy.average(states), self.scale, self.shift)


def cosine(a, b):
    return dy.cdiv(dy.dot_product(a, b), dy.l2_norm(a) * dy.l2_norm(b))


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--updates", type=int, default=50)
    arguments.add_argument("--chars", type=int, default=8)
    arguments.add_argument("--hidden", type=int, default=16)
    arguments.add_argument("--dim", type=int, default=12)
    arguments.add_argument("--batch", type=int, default=6)
    arguments.add_argument("--margin", type=float, default=0.5)
    options, _ = arguments.parse_known_args()

    model = dy.ParameterCollection()
    encode = Encoder(model, options)
    trainer = dy.CyclicalSGDTrainer(
        model, learning_rate_min=0.005, learning_rate_max=0.02, step_size=10
    )
    rng = random.Random(1)
    for update in range(1, options.updates + 1):
        dy.renew_cg()
        names = [name(rng) for _ in range(options.batch)]
        lefts = [encode(n) for n in names]
        rights = [encode(mistaken(n, rng)) for n in names]
        losses = []
        for i, left in enumerate(lefts):
            others = [cosine(left, r) for j, r in enumerate(rights) if j != i]
            right = cosine(left, rights[i])
            for other in others:
                losses.append(dy.pairwise_rank_loss(right, other, options.margin))
        loss = dy.average(losses) + 0.1 * dy.average(
            [dy.bmax(dy.scalarInput(0), 0.8 - dy.l2_norm(v)) for v in lefts]
        )
        print(update, f"{loss.value():.6f}")
        loss.backward()
        trainer.update()

    dy.renew_cg()
    names = [name(rng) for _ in range(20)]
    matrix = dy.concatenate_cols([encode(n) for n in names])
    table = matrix.npvalue() / np.linalg.norm(matrix.npvalue(), axis=0)
    found = 0
    for i, n in enumerate(names):
        v = encode(mistaken(n, rng)).npvalue()
        found += names[int(np.argmax(v @ table))] == names[i]
    print(found, "of 20 names are found")


if __name__ == "__main__":
    main()
