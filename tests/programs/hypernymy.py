"""Is one word a kind of the other? Paths between the two in sentences tell.

Shwartz, Goldberg & Dagan 2016, arXiv:1603.06076: an LSTM reads each path's edges, of a
lemma, a part of speech, a label and a direction; the vectors of all paths of a pair are
averaged by how often each was seen, and stand between those of the words. Paths are
made up: some patterns are those of kinds.
"""

import argparse
import random

import dynet as dy
import numpy as np

LEMMAS, TAGS, LABELS, DIRECTIONS, WORDS = 14, 4, 5, 3, 24
PATTERNS = [[(1, 0, 0, 0), (2, 1, 1, 1), (3, 0, 2, 2)], [(4, 0, 0, 0), (5, 2, 3, 2)]]


def pairs(count, rng):
    """Two words, how often each path joins them, and if one is a kind of the other."""
    dims = LEMMAS, TAGS, LABELS, DIRECTIONS
    for _ in range(count):
        x, y, label = rng.randrange(WORDS), rng.randrange(WORDS), rng.randrange(2)
        paths = {}
        for _ in range(rng.randint(0, 4)):
            if label and rng.random() < 0.7:
                path = list(rng.choice(PATTERNS))
            else:
                length = rng.randint(1, 4)
                path = [tuple(map(rng.randrange, dims)) for _ in range(length)]
            paths[tuple(path)] = paths.get(tuple(path), 0) + rng.randint(1, 3)
        yield (x, y), paths, label


class Network:
    def __init__(self, model, vectors, hidden):
        self.model = model
        self.hidden = hidden
        dims = {
            "lemma": (LEMMAS, 8),
            "tag": (TAGS, 3),
            "label": (LABELS, 4),
            "way": (3, 1),
        }
        self.tables = [model.add_lookup_parameters(d, name=n) for n, d in dims.items()]
        self.words = model.add_lookup_parameters(vectors.shape)
        self.words.init_from_array(vectors)
        inputs = sum(size for _, size in dims.values())
        self.lstm = dy.VanillaLSTMBuilder(2, inputs, hidden, model)
        features = hidden + 2 * vectors.shape[1]
        self.W1 = model.add_parameters((hidden, features))
        self.b1 = model.add_parameters((hidden,))
        self.W2 = model.add_parameters((2, hidden))
        self.b2 = model.add_parameters((2,))

    def embed(self, path, cache):
        if path not in cache:
            state = self.lstm.initial_state()
            for edge in path:
                parts = [
                    dy.lookup(t, i) for t, i in zip(self.tables, edge, strict=True)
                ]
                state = state.add_input(dy.concatenate(parts))
            cache[path] = state.output()
        return cache[path]

    def probabilities(self, x, y, paths, cache):
        if paths:
            vectors = [self.embed(p, cache) * n for p, n in paths.items()]
            mean = dy.esum(vectors) * (1.0 / sum(paths.values()))
        else:
            mean = dy.inputVector([0.0] * self.hidden)
        # The words' own vectors are as they were given.
        ends = [dy.lookup(self.words, w, update=False) for w in (x, y)]
        features = dy.concatenate([ends[0], mean, ends[1]])
        h = dy.tanh(self.W1 * features + self.b1)
        return dy.softmax(self.W2 * h + self.b2)


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--updates", type=int, default=50)
    arguments.add_argument("--hidden", type=int, default=16)
    arguments.add_argument("--batch", type=int, default=10)
    options, _ = arguments.parse_known_args()

    vectors = np.random.RandomState(1).uniform(-0.5, 0.5, (WORDS, 6))
    model = dy.ParameterCollection()
    network = Network(model, vectors, options.hidden)
    trainer = dy.AdamTrainer(model, alpha=0.01)
    rng = random.Random(1)
    data = list(pairs(120, rng))
    for update in range(1, options.updates + 1):
        dy.renew_cg()
        cache, losses = {}, []
        for (x, y), paths, label in rng.sample(data, options.batch):
            p = network.probabilities(x, y, paths, cache)
            losses.append(-dy.log(dy.pick(p, label)))
        loss = dy.average(losses)
        print(update, f"{loss.value():.6f}")
        loss.backward()
        trainer.update()
    assert np.allclose(network.words.as_array(), vectors)
    right = 0
    for (x, y), paths, label in data:
        dy.renew_cg()
        right += network.probabilities(x, y, paths, {}).npvalue().argmax() == label
    print(f"{right} of {len(data)} are right")


if __name__ == "__main__":
    main()
