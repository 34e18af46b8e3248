"""Language model by noise-contrastive estimation.

Mnih & Teh 2012, arXiv:1206.6426: instead of a softmax, the model tells the word that
came from words drawn by their frequency, in Python. A log-bilinear model with a matrix
for each place of the context. Text is made up by a chain of words.
"""

import argparse
import bisect
import itertools
import math
import random

import dynet as dy
import numpy as np

WORDS, CONTEXT = 50, 3


def text(rng, length):
    """Each word is followed by one of three, or by any."""
    words = [0]
    while len(words) < length:
        last = words[-1]
        follows = [(7 * last + k) % WORDS for k in (1, 2, 3)]
        words.append(
            rng.choice(follows) if rng.random() < 0.8 else rng.randrange(WORDS)
        )
    return words


class Noise:
    """Words by their frequency to the power of 3/4."""

    def __init__(self, words, rng):
        weights = np.bincount(words, minlength=WORDS) ** 0.75
        self.p = weights / weights.sum()
        self.sums = list(itertools.accumulate(self.p))
        self.rng = rng

    def draw(self, count):
        found = (bisect.bisect(self.sums, self.rng.random()) for _ in range(count))
        return [min(word, WORDS - 1) for word in found]


class Model:
    def __init__(self, pc, dim):
        self.pc = pc.add_subcollection("lbl")
        self.R = self.pc.add_lookup_parameters((WORDS, dim), name="R")
        self.C = [
            self.pc.add_parameters((dim, dim), init="glorot", name=f"C{i}")
            for i in range(CONTEXT)
        ]
        self.Q = self.pc.add_parameters(
            (WORDS, dim), init="uniform", scale=0.1, name="Q"
        )
        self.b = self.pc.add_parameters(WORDS, init="normal", mean=-3, std=0.01)

    def predict(self, context):
        parts = [C * self.R[w] for C, w in zip(self.C, context, strict=True)]
        return dy.esum(parts)

    def losses(self, context, word, noise, k):
        """-log p that the word is one, and that the others are noise."""
        drawn = noise.draw(k)
        ids = [word, *drawn]
        q = self.predict(context)
        scores = dy.select_rows(self.Q, ids) * q + dy.select_rows(self.b, ids)
        offsets = dy.inputVector([math.log(k * noise.p[w]) for w in ids])
        deltas = scores - offsets
        yield -dy.log_sigmoid(dy.pick(deltas, 0))
        yield -dy.sum_elems(dy.log_sigmoid(-deltas[1:]))

    def log_p(self, context, word):
        """Of the softmax."""
        return -dy.pickneglogsoftmax(self.Q * self.predict(context) + self.b, word)


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--updates", type=int, default=50)
    arguments.add_argument("--dim", type=int, default=16)
    arguments.add_argument("--noise", type=int, default=5)
    arguments.add_argument("--batch", type=int, default=20)
    options, _ = arguments.parse_known_args()

    pc = dy.ParameterCollection()
    model = Model(pc, options.dim)
    trainer = dy.AdagradTrainer(pc, learning_rate=0.2, eps=1e-10)
    rng = random.Random(1)
    words = text(rng, 2000)
    noise = Noise(words, rng)
    for update in range(1, options.updates + 1):
        dy.renew_cg()
        losses = []
        for _ in range(options.batch):
            i = rng.randrange(CONTEXT, len(words))
            context = words[i - CONTEXT : i]
            losses.extend(model.losses(context, words[i], noise, options.noise))
        loss = dy.esum(losses)
        print(update, f"{loss.value() / options.batch:.6f}")
        loss.backward()
        trainer.update()

    dy.renew_cg()
    held = text(rng, 100)
    found = [model.log_p(held[i - CONTEXT : i], held[i]) for i in range(CONTEXT, 100)]
    print(f"perplexity by the softmax: {math.exp(-dy.average(found).value()):.1f}")
    print(*[f"{p.name()}{p.shape()}" for p in pc.parameters_list()])
    print(*[f"{p.name()}{p.shape()}" for p in pc.lookup_parameters_list()])


if __name__ == "__main__":
    main()
