"""Language model with highway layers and a softmax along a tree of words.

Srivastava et al. 2015, arXiv:1505.00387, between a stacked LSTM and a hierarchical
softmax, Morin & Bengio 2005: a word is a way through a tree of Huffman's, and every
branch a decision. Truncated backpropagation hands on states as numbers. Text is made
up: a chain of words, most of them rare.
"""

import argparse
import collections
import heapq
import itertools
import math
import random

import dynet as dy

WORDS = 40


def text(rng, length):
    word = 0
    for _ in range(length):
        yield word
        likely = (3 * word + 1) % WORDS
        word = likely if rng.random() < 0.6 else int(rng.expovariate(0.2)) % WORDS


def huffman(counts):
    """For each word the inner nodes on its way, and the branch taken at each."""
    heap = [(count, word, (word,)) for word, count in counts.items()]
    heapq.heapify(heap)
    ways, inner = collections.defaultdict(list), itertools.count()
    ids = itertools.count(WORDS)
    while len(heap) > 1:
        node = next(inner)
        (a, _, lefts), (b, _, rights) = heapq.heappop(heap), heapq.heappop(heap)
        for branch, words in ((0, lefts), (1, rights)):
            for word in words:
                ways[word].append((node, branch))
        heapq.heappush(heap, (a + b, next(ids), lefts + rights))
    return {word: way[::-1] for word, way in ways.items()}


class Highway:
    def __init__(self, pc, dim):
        self.pc = pc.add_subcollection("highway")
        self.W = self.pc.add_parameters((dim, dim))
        self.b = self.pc.add_parameters((dim,), init=dy.ConstInitializer(0))
        self.Wt = self.pc.add_parameters((dim, dim))
        self.bt = self.pc.add_parameters((dim,), init=dy.ConstInitializer(-1))

    def __call__(self, x):
        t = dy.logistic(dy.affine_transform([self.bt, self.Wt, x]))
        h = dy.rectify(dy.affine_transform([self.b, self.W, x]))
        return dy.cmult(t, h) + dy.cmult(1 - t, x)


class LanguageModel:
    def __init__(self, pc, ways, options):
        dim = options.dim
        self.ways = ways
        self.E = pc.add_lookup_parameters((WORDS, dim), init=dy.UniformInitializer(0.1))
        self.layers = [Highway(pc, dim) for _ in range(options.layers)]
        self.rnn = dy.CoupledLSTMBuilder(2, dim, dim, pc)
        self.nodes = pc.add_lookup_parameters((WORDS - 1, dim))
        self.biases = pc.add_lookup_parameters((WORDS - 1, 1))
        self.rnn.disable_dropout()

    def losses(self, words, numbers):
        """-log p of each word after the first, and the last state's numbers."""
        init = None if numbers is None else [dy.inputVector(v) for v in numbers]
        state = self.rnn.initial_state(init)
        losses = []
        for word, following in itertools.pairwise(words):
            state = state.add_input(self.E[word])
            h = state.output() + self.E[word]
            for layer in self.layers:
                h = layer(h)
            for node, branch in self.ways[following]:
                score = dy.dot_product(self.nodes[node], h) + self.biases[node]
                losses.append(-dy.log_sigmoid(score if branch else -score))
        return losses, [e.vec_value() for e in state.s()]


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--updates", type=int, default=50)
    arguments.add_argument("--dim", type=int, default=24)
    arguments.add_argument("--layers", type=int, default=2)
    arguments.add_argument("--steps", type=int, default=12)
    options, _ = arguments.parse_known_args()

    words = list(text(random.Random(1), options.steps * options.updates + 1))
    first = words[: 10 * options.steps]
    seen = collections.Counter(range(WORDS)) + collections.Counter(first)
    pc = dy.ParameterCollection()
    lm = LanguageModel(pc, huffman(seen), options)
    trainer = dy.AdadeltaTrainer(pc, eps=1e-5, rho=0.9)
    numbers, total = None, 0.0
    for update in range(1, options.updates + 1):
        dy.renew_cg()
        start = (update - 1) * options.steps
        losses, numbers = lm.losses(words[start : start + options.steps + 1], numbers)
        loss = dy.esum(losses)
        total += loss.value()
        print(update, f"{loss.value() / options.steps:.6f}")
        loss.backward()
        trainer.update()
    print(f"perplexity: {math.exp(total / options.steps / options.updates):.2f}")


if __name__ == "__main__":
    main()
