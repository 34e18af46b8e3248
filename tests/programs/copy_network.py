"""Encoder and decoder that may copy words of the source.

See, Liu & Manning 2017, arXiv:1704.04368: a switch mixes the softmax over the
vocabulary with the attention over source words, which stand for themselves even if no
table has them. The made-up task: repeat the names
that a list mentions, with a fixed word before each.
"""

import argparse
import random

import dynet as dy
import numpy as np

FIXED = ["<s>", "</s>", "<unk>", "and", "hello", "the"]
NAMES, AT_MOST = 40, 3  # all names are unknown to the table
START, END, UNKNOWN, AND, HELLO, THE = range(len(FIXED))


def pairs(rng):
    """Endless lists of words (strings) with what is to be written."""
    while True:
        names = [f"name{rng.randrange(NAMES)}" for _ in range(rng.randint(1, AT_MOST))]
        source = []
        for name in names:
            source += rng.choice([["the", name], [name], ["the", "and", name]])
        target = [word for name in names for word in ("hello", name)]
        yield source, [*target, "</s>"]


def known(word):
    return FIXED.index(word) if word in FIXED else UNKNOWN


class Copier:
    def __init__(self, model, dim, hidden):
        rng = np.random.RandomState(5)
        self.table = model.add_lookup_parameters(
            (len(FIXED), dim), init=rng.uniform(-0.2, 0.2, (len(FIXED), dim))
        )
        self.encoder = dy.BiRNNBuilder(1, dim, 2 * hidden, model, dy.LSTMBuilder)
        self.decoder = dy.LSTMBuilder(1, dim + 2 * hidden, hidden, model)
        self.W_init = model.add_parameters((hidden, 2 * hidden))
        self.W_h = model.add_parameters((hidden, 2 * hidden))
        self.W_s = model.add_parameters((hidden, hidden))
        self.v = model.add_parameters(hidden)
        self.W_vocab = model.add_parameters((len(FIXED), 3 * hidden))
        self.w_gen = model.add_parameters((1, 3 * hidden + dim))
        self.b_gen = model.add_parameters(1, init=dy.ConstInitializer(0))

    def loss(self, source, target):
        """-log p of the target."""
        words = [self.table[known(word)] for word in source]
        H = dy.concatenate_cols(self.encoder.transduce(words))
        keys = self.W_h * H
        # Names have numbers of their own in each source, after the fixed words.
        order = sorted({*source} - {*FIXED})
        extended = {w: i for i, w in enumerate([*FIXED, *order])}
        size = len(FIXED) + AT_MOST
        where = dy.concatenate_cols([dy.one_hot(size, extended[w]) for w in source])

        c0 = dy.tanh(self.W_init * dy.mean_dim(H, [1], False))
        state = self.decoder.initial_state([c0, dy.tanh(c0)])
        losses, last = [], self.table[START]
        context = dy.zeros(H.dim()[0][0])
        for word in target:
            state = state.add_input(dy.concatenate([last, context]))
            s = state.output()
            scores = dy.tanh(dy.colwise_add(keys, self.W_s * s))
            attention = dy.softmax(dy.transpose(dy.transpose(self.v) * scores))
            context = H * attention
            features = dy.concatenate([s, context])
            vocab = dy.softmax(self.W_vocab * features)
            switch = dy.logistic(
                self.w_gen * dy.concatenate([features, last]) + self.b_gen
            )
            vocab = dy.concatenate([vocab, dy.zeros(AT_MOST)])
            p = dy.cmult(vocab, switch) + dy.cmult(where * attention, 1 - switch)
            losses.append(-dy.log(dy.pick(p, extended[word]) + 1e-8))
            last = self.table[known(word)]
        return dy.esum(losses)


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--updates", type=int, default=50)
    arguments.add_argument("--dim", type=int, default=12)
    arguments.add_argument("--hidden", type=int, default=16)
    arguments.add_argument("--batch", type=int, default=4)
    options, _ = arguments.parse_known_args()

    model = dy.ParameterCollection()
    copier = Copier(model, options.dim, options.hidden)
    trainer = dy.AdagradTrainer(model, learning_rate=0.05)
    trainer.set_clip_threshold(2.0)
    data = pairs(random.Random(5))
    for update in range(1, options.updates + 1):
        dy.renew_cg()
        losses, count = [], 0
        for _ in range(options.batch):
            source, target = next(data)
            losses.append(copier.loss(source, target))
            count += len(target)
        total = dy.esum(losses) / count
        print(update, f"{total.value():.6f}")
        total.backward()
        trainer.update()


if __name__ == "__main__":
    main()
