"""Variational auto-encoder of sentences: Bowman et al. 2016, arXiv:1511.06349.

An LSTM reads a minibatch of sentences of one length, and another one writes them again
from a point drawn around what was read. The divergence counts more and more, and words
that the decoder reads are dropped, both by Python's own numbers. Sentences are made up:
each counts up or down from some number.
"""

import argparse
import math
import random

import dynet as dy
import numpy as np

NUMBERS, START, UNKNOWN = 10, 10, 11


def minibatch(size, rng):
    """Sentences of one length, as rows of words."""
    length, rows = rng.randint(4, 7), []
    for _ in range(size):
        first, step = rng.randrange(NUMBERS), rng.choice([1, -1])
        rows.append([(first + step * i) % NUMBERS for i in range(length)])
    return rows


class SentenceVAE:
    def __init__(self, model, options):
        size, latent = options.hidden, options.latent
        self.E = model.add_lookup_parameters((NUMBERS + 2, options.embedding))
        self.reader = dy.VanillaLSTMBuilder(1, options.embedding, size, model)
        self.writer = dy.VanillaLSTMBuilder(2, options.embedding + latent, size, model)
        glorot = dy.GlorotInitializer()
        self.W_mean = model.add_parameters((latent, size), init=glorot)
        self.W_spread = model.add_parameters((latent, size), init=glorot)
        self.b_spread = model.add_parameters(latent, init=dy.ConstInitializer(-1))
        self.W_start = model.add_parameters((2 * size, latent), init=glorot)
        self.W_out = model.add_parameters((NUMBERS, size), init=glorot)
        self.b_out = model.add_parameters(NUMBERS, init=dy.ConstInitializer(0))
        self.latent, self.size = latent, size

    def encode(self, columns):
        state = self.reader.initial_state()
        for words in columns:
            state = state.add_input(dy.lookup_batch(self.E, words))
        h = state.h()[-1]
        return self.W_mean * h, self.W_spread * h + self.b_spread

    def decode(self, z, columns, drop):
        """-log p of each word, for all sentences at once."""
        start = self.W_start * z
        cells = dy.pick_range(start, 0, self.size), start[self.size : 2 * self.size]
        hiddens = [dy.tanh(c) for c in cells]
        state = self.writer.initial_state([*cells, *hiddens])
        last = [START] * len(columns[0])
        for words in columns:
            last = [UNKNOWN if drop() else w for w in last]
            x = dy.concatenate([self.E.batch(last), z])
            state = state.add_input(x)
            scores = dy.affine_transform([self.b_out, self.W_out, state.output()])
            yield dy.pickneglogsoftmax_batch(scores, words)
            last = words

    def losses(self, rows, noise, drop):
        """Reconstruction and divergence, per sentence."""
        columns = list(map(list, zip(*rows, strict=True)))
        mean, spread = self.encode(columns)
        epsilon = dy.inputTensor(noise.randn(self.latent, len(rows)), batched=True)
        z = mean + dy.cmult(dy.exp(spread * 0.5), epsilon)
        lost = dy.sum_batches(dy.esum(list(self.decode(z, columns, drop))))
        terms = 1 + spread - dy.square(mean) - dy.exp(spread)
        divergence = -0.5 * dy.sum_batches(dy.sum_elems(terms))
        return lost / len(rows), divergence / len(rows)


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--updates", type=int, default=50)
    arguments.add_argument("--embedding", type=int, default=12)
    arguments.add_argument("--hidden", type=int, default=20)
    arguments.add_argument("--latent", type=int, default=6)
    arguments.add_argument("--batch", type=int, default=8)
    arguments.add_argument("--drop", type=float, default=0.3)
    options, _ = arguments.parse_known_args()

    model = dy.ParameterCollection()
    vae = SentenceVAE(model, options)
    trainer = dy.AmsgradTrainer(model, 0.01)
    rng, noise = random.Random(1), np.random.RandomState(1)
    for update in range(1, options.updates + 1):
        dy.renew_cg(immediate_compute=False, check_validity=False)
        rows = minibatch(options.batch, rng)
        lost, divergence = vae.losses(rows, noise, lambda: rng.random() < options.drop)
        weight = 1 / (1 + math.exp((20 - update) / 5))
        loss = lost + dy.scalarInput(weight) * divergence
        loss.forward()
        print(update, f"{loss.scalar_value():.6f}")
        loss.backward()
        trainer.update()
    for first in range(3):
        dy.renew_cg()
        mean, spread = vae.encode([[(first + i) % NUMBERS] for i in range(5)])
        widest = int(np.argmax(spread.npvalue()))
        print(f"from {first}: widest in direction {widest}, mean of {mean.dim()}")


if __name__ == "__main__":
    main()
