"""Documents classified with attention to words, then to sentences.

Yang et al. 2016, "Hierarchical attention networks for document classification": two
recurrent networks, one above the other, each with a learned query. A mixture of states
is a sum of products, state by state. Documents are made up: one sentence decides, and
tells so by its first word.
"""

import argparse
import random

import dynet as dy
import numpy as np

WORDS, CLASSES, TELLS = 30, 3, 0


def documents(count, rng):
    for _ in range(count):
        label, sentences = rng.randrange(CLASSES), []
        for _ in range(rng.randint(2, 4)):
            words = [rng.randrange(1, WORDS) for _ in range(rng.randint(3, 6))]
            sentences.append(words)
        told = rng.choice(sentences)
        told[0] = TELLS
        told[1] = 1 + label + CLASSES * rng.randrange(3)
        yield sentences, label


class Attention:
    """A BiGRU, and a vector for all its states."""

    def __init__(self, model, inputs, hidden):
        self.forward = dy.GRUBuilder(1, inputs, hidden, model)
        self.backward = dy.GRUBuilder(1, inputs, hidden, model)
        self.W = model.add_parameters((hidden, 2 * hidden))
        self.b = model.add_parameters(hidden)
        self.u = model.add_parameters((1, hidden))

    def __call__(self, vectors):
        W, b, u = dy.parameter(self.W, self.b, self.u)
        s = self.forward.initial_state()
        forward = []
        for v in vectors:
            s = s.add_input(v)
            forward.append(s.output())
        s = self.backward.initial_state()
        backward = []
        for v in reversed(vectors):
            s = s.add_input(v)
            backward.append(s.output())
        backward.reverse()
        states = [
            dy.concatenate([f, r]) for f, r in zip(forward, backward, strict=True)
        ]
        scores = [u * dy.tanh(W * h + b) for h in states]
        weights = dy.softmax(dy.concatenate(scores))
        mixed = [dy.cmult(h, weights[i]) for i, h in enumerate(states)]
        return dy.esum(mixed), weights


class Classifier:
    def __init__(self, model, options):
        self.lookup = model.add_lookup_parameters((WORDS, options.embedding))
        self.words = Attention(model, options.embedding, options.hidden)
        self.sentences = Attention(model, 2 * options.hidden, options.hidden)
        self.W = model.add_parameters((CLASSES, 2 * options.hidden))
        self.b = model.add_parameters(CLASSES)

    def scores(self, document):
        sentences = []
        for words in document:
            vector, _ = self.words([self.lookup[w] for w in words])
            sentences.append(vector)
        vector, weights = self.sentences(sentences)
        return dy.parameter(self.W) * vector + dy.parameter(self.b), weights


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--updates", type=int, default=50)
    arguments.add_argument("--embedding", type=int, default=16)
    arguments.add_argument("--hidden", type=int, default=12)
    arguments.add_argument("--batch", type=int, default=4)
    options, _ = arguments.parse_known_args()

    model = dy.Model()
    classifier = Classifier(model, options)
    trainer = dy.AdamTrainer(model, 0.01, 0.9, 0.99, 1e-7)
    data = list(documents(options.batch * 15, random.Random(1)))
    updates = 0
    while updates < options.updates:
        for i in range(0, len(data), options.batch):
            dy.renew_cg()
            losses = []
            for document, label in data[i : i + options.batch]:
                scores, _ = classifier.scores(document)
                losses.append(dy.pickneglogsoftmax(scores, label))
            loss = dy.esum(losses) / len(losses)
            updates += 1
            print(updates, "%.6f" % loss.value())  # noqa: UP031
            loss.backward()
            trainer.update()
            if updates == options.updates:
                break
        trainer.learning_rate *= 0.9

    right = 0
    for document, label in data:
        dy.renew_cg()
        scores, weights = classifier.scores(document)
        right += np.argmax(scores.npvalue()) == label
    print("accuracy", right, "of", len(data), "and of the last one", weights.dim())


if __name__ == "__main__":
    main()
