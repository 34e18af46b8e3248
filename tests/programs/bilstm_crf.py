"""BiLSTM-CRF tagger: Lample et al. 2016, arXiv:1603.01360.

The forward algorithm is written tag by tag, with a log-sum-exp that looks at the values
for the greatest one. Sentences are made up: names of one or more words in BIO tags;
only the first word of a name says of what kind it is.
"""

import argparse
import random

import dynet as dy
import numpy as np

TAGS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC", "<START>", "<STOP>"]
START, STOP = TAGS.index("<START>"), TAGS.index("<STOP>")
WORDS = 40
IMPOSSIBLE = -1e10


def sentences(count, rng):
    """Lists of words and of tags. Words 0-15 are plain, 28-39 begin names."""
    for _ in range(count):
        words, tags = [], []
        for _ in range(rng.randint(2, 5)):
            if rng.random() < 0.5:
                words.append(rng.randrange(16))
                tags.append(TAGS.index("O"))
                continue
            kind = rng.choice(["PER", "LOC"])
            words.append(rng.randrange(28, 34) + 6 * (kind == "LOC"))
            tags.append(TAGS.index("B-" + kind))
            for _ in range(rng.randrange(3)):
                words.append(rng.randrange(12, 28))
                tags.append(TAGS.index("I-" + kind))
        yield words, tags


def log_sum_exp(scores):
    greatest = dy.pick(scores, int(np.argmax(scores.npvalue())))
    shifted = scores - dy.concatenate([greatest] * len(TAGS))
    return greatest + dy.log(dy.sum_elems(dy.exp(shifted)))


class Tagger:
    def __init__(self, model, options):
        self.lookup = model.add_lookup_parameters((WORDS, options.embedding))
        # In row t, the scores of going to the tag t from any other.
        self.transitions = model.add_lookup_parameters((len(TAGS), len(TAGS)))
        half = options.lstm // 2
        self.forward_lstm = dy.LSTMBuilder(1, options.embedding, half, model)
        self.backward_lstm = dy.LSTMBuilder(1, options.embedding, half, model)
        self.pW = model.add_parameters((len(TAGS), options.lstm))
        self.pb = model.add_parameters(len(TAGS))

    def emissions(self, words):
        embedded = [dy.lookup(self.lookup, w) for w in words]
        ahead = self.forward_lstm.initial_state().transduce(embedded)
        back = self.backward_lstm.initial_state().transduce(embedded[::-1])
        W, b = dy.parameter(self.pW), dy.parameter(self.pb)
        both = zip(ahead, back[::-1], strict=True)
        return [W * dy.concatenate([f, r]) + b for f, r in both]

    def log_partition(self, emissions):
        alphas = [IMPOSSIBLE] * len(TAGS)
        alphas[START] = 0.0
        alphas = dy.inputVector(alphas)
        for scores in emissions:
            following = []
            for tag in range(len(TAGS)):
                score = dy.concatenate([dy.pick(scores, tag)] * len(TAGS))
                following.append(log_sum_exp(alphas + self.transitions[tag] + score))
            alphas = dy.concatenate(following)
        return log_sum_exp(alphas + self.transitions[STOP])

    def score(self, emissions, tags):
        total, before = dy.scalarInput(0), START
        for scores, tag in zip(emissions, tags, strict=True):
            total += dy.pick(self.transitions[tag], before) + dy.pick(scores, tag)
            before = tag
        return total + dy.pick(self.transitions[STOP], before)

    def loss(self, words, tags):
        emissions = self.emissions(words)
        return self.log_partition(emissions) - self.score(emissions, tags)

    def decode(self, words):
        """The best tags, by Viterbi's algorithm."""
        transitions = np.array(
            [self.transitions[t].npvalue() for t in range(len(TAGS))]
        )
        best = np.full(len(TAGS), IMPOSSIBLE)
        best[START] = 0.0
        steps = []
        for scores in self.emissions(words):
            through = best + transitions
            steps.append(through.argmax(axis=1))
            best = through.max(axis=1) + scores.npvalue()
        path = [int(np.argmax(best + transitions[STOP]))]
        for step in steps[:0:-1]:
            path.append(int(step[path[-1]]))
        return path[::-1]


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--updates", type=int, default=50)
    arguments.add_argument("--embedding", type=int, default=16)
    arguments.add_argument("--lstm", type=int, default=24)
    options, _ = arguments.parse_known_args()

    model = dy.Model()
    trainer = dy.AdamTrainer(model, 0.02)
    tagger = Tagger(model, options)
    data = list(sentences(options.updates, random.Random(1)))
    for update, (words, tags) in enumerate(data, 1):
        dy.renew_cg()
        loss = tagger.loss(words, tags) / len(words)
        print(update, f"{loss.scalar_value():.6f}")
        loss.backward()
        trainer.update()
        if update % 25 == 0:
            trainer.update_epoch(1.0)
    for words, tags in data[:3]:
        dy.renew_cg()
        decoded = tagger.decode(words)
        print("decoded", *[TAGS[t] for t in decoded])
        print("correct", *[TAGS[t] for t in tags])


if __name__ == "__main__":
    main()
