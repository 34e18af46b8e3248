"""Part-of-speech tagger whose rare words are read letter by letter; saved, then read.

Ling et al. 2015, arXiv:1508.02096, as in many a DyNet tutorial: a word that is frequent
has a vector of its own, another one gets it from an LSTM over its letters. Words are
made up: the ending tells the tag, and some words are frequent.
"""

import argparse
import collections
import os
import random
import tempfile

import dynet as dy
import numpy as np

ENDINGS = {
    "N": ["tion", "er", "ness"],
    "V": ["ize", "ed"],
    "A": ["ly", "ful"],
    "P": [""],
}
FREQUENT = {"N": ["man"], "V": ["is", "has"], "A": ["so"], "P": ["of", "in", "to"]}
FOLLOWS = {"N": "VP", "V": "ANP", "A": "AN", "P": "AN"}
TAGS = sorted(ENDINGS)
LETTERS = "abcdefghijklmnopqrstuvwxyz*"  # the last one stands at both ends


def sentences(count, rng):
    for _ in range(count):
        tag, sentence = "N", []
        for _ in range(rng.randint(3, 7)):
            word = rng.choice(FREQUENT[tag])
            if tag != "P" and rng.random() < 0.7:
                stem = "".join(rng.choice("abdegiklmoprst") for _ in range(3))
                word = stem + rng.choice(ENDINGS[tag])
            sentence.append((word, tag))
            tag = rng.choice(FOLLOWS[tag])
        yield sentence


class Tagger:
    def __init__(self, options, frequent):
        self.model = dy.Model()
        self.trainer = dy.AdamTrainer(self.model, 0.01)
        self.ids = {word: i for i, word in enumerate(frequent)}
        size = options.embedding
        self.words = self.model.add_lookup_parameters((len(self.ids), size))
        self.chars = self.model.add_lookup_parameters((len(LETTERS), options.chars))
        half = size // 2
        self.char_fwd = dy.LSTMBuilder(1, options.chars, half, self.model)
        self.char_bwd = dy.LSTMBuilder(1, options.chars, half, self.model)
        self.fwd = dy.LSTMBuilder(1, size, options.hidden, self.model)
        self.bwd = dy.LSTMBuilder(1, size, options.hidden, self.model)
        self.pH = self.model.add_parameters((options.mlp, options.hidden * 2))
        self.pO = self.model.add_parameters((len(TAGS), options.mlp))

    def represent(self, word, cf, cb):
        if word in self.ids:
            return self.words[self.ids[word]]
        pad = LETTERS.index("*")
        ids = [pad, *[LETTERS.index(c) for c in word], pad]
        embedded = [self.chars[c] for c in ids]
        forward, backward = cf.transduce(embedded), cb.transduce(embedded[::-1])
        return dy.concatenate([forward[-1], backward[-1]])

    def build(self, words):
        """The scores of all tags for each word."""
        dy.renew_cg()
        builders = self.fwd, self.bwd, self.char_fwd, self.char_bwd
        f, b, cf, cb = [builder.initial_state() for builder in builders]
        H, O = dy.parameter(self.pH), dy.parameter(self.pO)  # noqa: E741
        xs = [self.represent(w, cf, cb) for w in words]
        forward = [s.output() for s in f.add_inputs(xs)]
        backward = [s.output() for s in b.add_inputs(xs[::-1])][::-1]
        both = map(dy.concatenate, map(list, zip(forward, backward, strict=True)))
        return [O * dy.tanh(H * x) for x in both]

    def loss(self, sentence):
        scores = self.build([word for word, _ in sentence])
        errs = []
        for v, (_, tag) in zip(scores, sentence, strict=True):
            errs.append(dy.pickneglogsoftmax(v, TAGS.index(tag)))
        return dy.esum(errs)

    def tag(self, words):
        for v in self.build(words):
            probabilities = dy.softmax(v).npvalue()
            yield TAGS[np.argmax(probabilities)], float(np.max(probabilities))


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--updates", type=int, default=50)
    arguments.add_argument("--embedding", type=int, default=20)
    arguments.add_argument("--chars", type=int, default=8)
    arguments.add_argument("--hidden", type=int, default=16)
    arguments.add_argument("--mlp", type=int, default=12)
    options, _ = arguments.parse_known_args()

    data = list(sentences(options.updates, random.Random(1)))
    counts = collections.Counter(word for sentence in data for word, _ in sentence)
    frequent = sorted({w for ws in FREQUENT.values() for w in ws})
    assert all(counts[w] < 5 for w in counts if w not in frequent)
    tagger = Tagger(options, frequent)
    for update, sentence in enumerate(data, 1):
        loss = tagger.loss(sentence)
        print(update, f"{loss.scalar_value() / len(sentence):.6f}")
        loss.backward()
        tagger.trainer.update()

    other = Tagger(options, frequent)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "tagger.model")
        tagger.model.save(path)
        other.model.populate(path)
    for sentence in data[:4]:
        words = [word for word, _ in sentence]
        found = list(tagger.tag(words))
        assert found == list(other.tag(words))
        print(*[f"{w}/{t}" for w, (t, _) in zip(words, found, strict=True)])


if __name__ == "__main__":
    main()
