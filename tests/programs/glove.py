"""Word vectors from counts of words that occur together.

Pennington, Socher & Manning 2014, "GloVe: global vectors for word representation": the
product of two vectors, with a bias for each, tells the logarithm of the count; frequent
pairs weigh more. Minibatches of pairs go through in one piece. Text is made up: a word
likes those of its own topic.
"""

import argparse
import collections
import math
import random

import dynet as dy
import numpy as np

TOPICS, WORDS = 4, 8  # of each topic


def counts(rng, tokens=4000, window=2):
    """How often each pair was seen, the nearer the more."""
    text = []
    while len(text) < tokens:
        topic = rng.randrange(TOPICS)
        for _ in range(rng.randint(3, 8)):
            which = topic if rng.random() < 0.8 else rng.randrange(TOPICS)
            text.append(which * WORDS + min(rng.randrange(WORDS), rng.randrange(WORDS)))
    found = collections.Counter()
    for i, word in enumerate(text):
        for away in range(1, window + 1):
            if i + away < len(text):
                found[word, text[i + away]] += 1 / away
                found[text[i + away], word] += 1 / away
    return sorted(found.items())


class GloVe:
    def __init__(self, model, dim):
        count = TOPICS * WORDS
        small = dy.UniformInitializer(0.5 / dim)
        self.W = model.add_lookup_parameters((count, dim), init=small, name="W")
        self.C = model.add_lookup_parameters((count, dim), init=small, name="C")
        self.bW = model.add_lookup_parameters((count, 1), init=dy.ConstInitializer(0))
        self.bC = model.add_lookup_parameters((count, 1), init=dy.ConstInitializer(0))

    def loss(self, batch, most=50.0, alpha=0.75):
        words, contexts = [w for (w, _), _ in batch], [c for (_, c), _ in batch]
        w, c = self.W.batch(words), self.C.batch(contexts)
        bias = dy.lookup_batch(self.bW, words) + dy.lookup_batch(self.bC, contexts)
        logs = dy.inputTensor([math.log(x) for _, x in batch], batched=True)
        weights = np.minimum(1, np.array([x for _, x in batch]) / most) ** alpha
        weights = dy.inputTensor(weights.reshape(1, -1), batched=True)
        errors = dy.square(dy.dot_product(w, c) + bias - logs)
        return dy.mean_batches(dy.cmult(weights, errors))

    def similar(self, word):
        vectors = self.W.npvalue().T + self.C.npvalue().T
        vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return np.argsort(-vectors @ vectors[word])[1:4]


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--updates", type=int, default=50)
    arguments.add_argument("--dim", type=int, default=10)
    arguments.add_argument("--batch", type=int, default=64)
    options, _ = arguments.parse_known_args()

    model = dy.ParameterCollection()
    glove = GloVe(model, options.dim)
    trainer = dy.AdagradTrainer(model, 0.2)
    trainer.set_sparse_updates(False)
    rng = random.Random(1)
    data = counts(rng)
    for update in range(1, options.updates + 1):
        dy.renew_cg()
        loss = glove.loss(rng.sample(data, options.batch))
        print(update, f"{loss.scalar_value():.6f}")
        loss.backward()
        trainer.update()
    print(len(data), "pairs;", glove.W.name(), glove.W.shape(), glove.W.npvalue().shape)
    for topic in range(TOPICS):
        print(topic * WORDS, "is like", *sorted(glove.similar(topic * WORDS)))


if __name__ == "__main__":
    main()
