"""End-to-end memory network: questions answered from a story.

Sukhbaatar et al. 2015, arXiv:1503.08895: every sentence is a sum of its words' vectors,
weighted by position; three hops of attention, with a table for each that is the next
hop's other one. Stories are made up: people go to rooms, and are asked for.
"""

import argparse
import random

import dynet as dy
import numpy as np

PEOPLE = ["ann", "bob", "cleo", "dan"]
ROOMS = ["attic", "bath", "cellar", "den", "yard"]
WORDS = [*PEOPLE, *ROOMS, "went", "to", "the", "where", "is"]
IDS = {word: i for i, word in enumerate(WORDS)}
MEMORY = 6  # sentences that are remembered


def stories(rng):
    while True:
        story, where = [], {}
        for _ in range(rng.randint(2, MEMORY)):
            person, room = rng.choice(PEOPLE), rng.choice(ROOMS)
            where[person] = room
            story.append([person, "went", "to", "the", room])
        person = rng.choice(sorted(where))
        yield story, ["where", "is", person], where[person]


def positions(length, dim):
    """How much the k-th number of the j-th word counts."""
    j = np.arange(1, length + 1)[None, :] / length
    k = np.arange(1, dim + 1)[:, None] / dim
    return (1 - j) - k * (1 - 2 * j)


class MemoryNetwork:
    def __init__(self, model, dim, hops):
        normal = dy.NormalInitializer(0, 0.01)
        self.tables = [
            model.add_lookup_parameters((len(WORDS), dim), init=normal, name=f"C{k}")
            for k in range(hops + 1)
        ]
        self.times = [
            model.add_parameters((dim, MEMORY), init=normal) for _ in self.tables
        ]
        self.H = model.add_parameters((dim, dim), init=dy.IdentityInitializer())
        self.W = model.add_parameters((len(ROOMS), dim))
        self.dim = dim

    def embed(self, table, sentence):
        weights = positions(len(sentence), self.dim)
        rows = [table[IDS[word]] for word in sentence]
        return dy.sum_dim(
            dy.cmult(dy.concatenate_cols(rows), dy.inputTensor(weights)), [1]
        )

    def memory(self, k, story):
        """A matrix with a column for each sentence, the last one first."""
        columns = [self.embed(self.tables[k], s) for s in reversed(story)]
        times = [
            dy.reshape(t, (self.dim,))
            for t in (
                dy.select_cols(dy.parameter(self.times[k]), [i])
                for i in range(len(story))
            )
        ]
        return dy.concatenate_cols([c + t for c, t in zip(columns, times, strict=True)])

    def scores(self, story, question):
        u = self.embed(self.tables[0], question)
        m = self.memory(0, story)
        for k in range(1, len(self.tables)):
            p = dy.softmax(dy.transpose(m) * u)
            m = self.memory(k, story)
            u = dy.parameter(self.H) * u + m * p
        return dy.parameter(self.W) * u, p


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--updates", type=int, default=50)
    arguments.add_argument("--dim", type=int, default=16)
    arguments.add_argument("--hops", type=int, default=3)
    arguments.add_argument("--batch", type=int, default=6)
    options, _ = arguments.parse_known_args()

    model = dy.Model()
    network = MemoryNetwork(model, options.dim, options.hops)
    trainer = dy.AdamTrainer(model, 0.02)
    trainer.set_clip_threshold(10)
    data = stories(random.Random(1))
    for update in range(1, options.updates + 1):
        dy.renew_cg()
        losses = []
        for _ in range(options.batch):
            story, question, answer = next(data)
            scores, _ = network.scores(story, question)
            losses.append(dy.hinge(scores, ROOMS.index(answer), 1.0))
        loss = dy.esum(losses) / options.batch
        print(update, f"{loss.npvalue()[0]:.6f}")
        loss.backward()
        trainer.update()
    dy.renew_cg()
    story, question, answer = next(data)
    scores, p = network.scores(story, question)
    found = ROOMS[int(np.argmax(scores.npvalue()))]
    print(
        *question,
        "->",
        found,
        "should be",
        answer,
        "by sentence",
        np.argmax(p.vec_value()),
    )


if __name__ == "__main__":
    main()
