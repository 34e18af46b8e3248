"""Segmental recurrent network: a semi-Markov model whose segments are read by LSTMs.

Kong, Dyer & Smith 2016, arXiv:1511.06018: every segment of at most a few symbols has a
vector, made by two LSTMs from what a BiLSTM says of its symbols, and a score for every
label. The loss sums over all segmentations. Strings are made up: runs of a digit's
strokes, of any length.
"""

import argparse
import random

import dynet as dy

STROKES, DIGITS, LONGEST = 8, 4, 4


def strings(rng):
    """Endless strokes, and segments: start, end, and the digit."""
    while True:
        strokes, segments = [], []
        for _ in range(rng.randint(2, 4)):
            digit, length = rng.randrange(DIGITS), rng.randint(1, LONGEST)
            start = len(strokes)
            for _ in range(length):
                noise = rng.random() < 0.1
                which = rng.randrange(STROKES) if noise else digit
                strokes.append(which + DIGITS * (rng.random() < 0.3) & STROKES - 1)
            segments.append((start, len(strokes), digit))
        yield strokes, segments


class SegmentalRNN:
    def __init__(self, model, dim, hidden):
        self.E = model.add_lookup_parameters(
            (STROKES, dim), init=dy.NormalInitializer(0, 0.1)
        )
        self.context = dy.BiRNNBuilder(1, dim, 2 * hidden, model, dy.VanillaLSTMBuilder)
        self.ahead = dy.GRUBuilder(1, 2 * hidden, hidden, model)
        self.back = dy.GRUBuilder(1, 2 * hidden, hidden, model)
        self.lengths = model.add_lookup_parameters((LONGEST + 1, 4))
        self.W = model.add_parameters((hidden, 2 * hidden + 4))
        self.b = model.add_parameters(hidden, init=dy.ConstInitializer(0.0))
        self.V = model.add_parameters((DIGITS, hidden))

    def segment_scores(self, strokes):
        """For each segment the scores of all digits."""
        W, b, V = dy.parameter(self.W), dy.parameter(self.b), dy.parameter(self.V)
        xs = self.context.transduce([dy.lookup(self.E, s) for s in strokes])
        n, ahead, back = len(xs), {}, {}
        for i in range(n):
            ends = range(i + 1, min(i + LONGEST, n) + 1)
            states = self.ahead.initial_state().transduce(xs[i : ends[-1]])
            ahead |= {(i, j): h for j, h in zip(ends, states, strict=True)}
        for j in range(1, n + 1):
            starts = range(j - 1, max(-1, j - 1 - LONGEST), -1)
            reversed_xs = [xs[i] for i in starts]
            states = self.back.initial_state().transduce(reversed_xs)
            back |= {(i, j): h for i, h in zip(starts, states, strict=True)}
        scores = {}
        for i, j in ahead:
            length = self.lengths[j - i]
            h = dy.concatenate([ahead[i, j], back[i, j], length])
            scores[i, j] = V * dy.rectify(W * h + b)
        return scores

    def log_partition(self, scores, n):
        alphas = [dy.scalarInput(0)]
        for j in range(1, n + 1):
            through = []
            for i in range(max(0, j - LONGEST), j):
                through.append(alphas[i] + dy.logsumexp_dim(scores[i, j], d=0))
            alphas.append(dy.logsumexp(through))
        return alphas[n]

    def loss(self, strokes, segments):
        scores = self.segment_scores(strokes)
        gold = dy.esum([dy.pick(scores[i, j], digit) for i, j, digit in segments])
        return self.log_partition(scores, len(strokes)) - gold

    def decode(self, strokes):
        scores = self.segment_scores(strokes)
        best = [(0.0, [])]
        for j in range(1, len(strokes) + 1):
            through = []
            for i in range(max(0, j - LONGEST), j):
                values = scores[i, j].npvalue()
                digit = int(values.argmax())
                total = best[i][0] + float(values[digit])
                through.append((total, [*best[i][1], (i, j, digit)]))
            best.append(max(through))
        return best[-1][1]


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--updates", type=int, default=50)
    arguments.add_argument("--dim", type=int, default=8)
    arguments.add_argument("--hidden", type=int, default=12)
    options, _ = arguments.parse_known_args()

    model = dy.Model()
    network = SegmentalRNN(model, options.dim, options.hidden)
    trainer = dy.AdamTrainer(model, alpha=0.02)
    data = strings(random.Random(4))
    for update in range(1, options.updates + 1):
        strokes, segments = next(data)
        dy.renew_cg()
        loss = network.loss(strokes, segments)
        print(update, f"{loss.scalar_value() / len(strokes):.6f}")
        loss.backward()
        trainer.update()
    for _ in range(3):
        strokes, segments = next(data)
        dy.renew_cg()
        print("found", *network.decode(strokes))
        print("right", *segments)


if __name__ == "__main__":
    main()
