"""Arc-hybrid dependency parser that learns from its own mistakes.

Goldberg & Nivre 2013, "Training deterministic parsers with non-deterministic oracles":
a dynamic oracle tells which steps lose no arc that can still be found, wherever the
parser has gone. Sentences are made up: verbs take nouns on both sides, nouns take
adjectives, and a word may have any of several forms.
"""

import argparse
import random

import dynet as dy
import numpy as np

SHIFT, LEFT, RIGHT = range(3)
FORMS = 12  # of each class
VERB, NOUN, ADJECTIVE, ADVERB = range(4)
DEPENDANTS = {
    VERB: ([NOUN, ADVERB], [NOUN, ADVERB]),
    NOUN: ([ADJECTIVE], []),
    ADJECTIVE: ([ADVERB], []),
    ADVERB: ([], []),
}


def sentence(rng):
    """Words and heads; the root comes last, as word 0 of the table."""
    words, heads = [], []

    def grow(kind):
        before, after = DEPENDANTS[kind]
        mine = [grow(k) for k in before if rng.random() < 0.6]
        place = len(words)
        words.append(1 + kind * FORMS + rng.randrange(FORMS))
        heads.append(None)
        mine += [grow(k) for k in after if rng.random() < 0.6]
        for dependant in mine:
            heads[dependant] = place
        return place

    top = grow(VERB)
    heads[top] = len(words)
    return [*words, 0], [*heads, None]


def costs(stack, buffer, heads):
    """How many right arcs each step loses, for those steps that are possible."""
    found = {}
    if len(buffer) > 1:
        b = buffer[0]
        lost = sum(heads[b] == s for s in stack[:-1])
        lost += sum(heads[s] == b for s in stack)
        found[SHIFT] = lost
    if stack:
        s, others = stack[-1], buffer[1:] + stack[-2:-1]
        lost = sum(heads[s] == o for o in others)
        found[LEFT] = lost + sum(heads[b] == s for b in buffer)
    if len(stack) > 1:
        s = stack[-1]
        lost = sum(heads[s] == b for b in buffer)
        found[RIGHT] = lost + sum(heads[b] == s for b in buffer)
    return found


class Parser:
    def __init__(self, model, options):
        pc = model.add_subcollection("parser")
        self.E = pc.lookup_parameters_from_numpy(options.table)
        dim = options.table.shape[1]
        self.rnns = [dy.CoupledLSTMBuilder(1, dim, options.lstm, pc) for _ in "fb"]
        self.W1 = pc.add_parameters((options.hidden, 8 * options.lstm), name="W1")
        self.b1 = pc.add_parameters(options.hidden, init=0.0, name="b1")
        self.W2 = pc.add_parameters((3, options.hidden), name="W2")
        self.nothing = pc.add_parameters(2 * options.lstm, name="nothing")

    def encode(self, words):
        xs = [dy.lookup(self.E, w) for w in words]
        forward = self.rnns[0].initial_state().add_inputs(xs)
        backward = self.rnns[1].initial_state().add_inputs(reversed(xs))
        return [
            dy.concatenate([f.output(), b.output()])
            for f, b in zip(forward, reversed(backward), strict=True)
        ]

    def scores(self, vectors, stack, buffer):
        nothing = dy.parameter(self.nothing)
        around = [vectors[i] for i in stack[:-4:-1]]
        around += [nothing] * (3 - len(around)) + [vectors[buffer[0]]]
        W1, b1, W2 = map(dy.parameter, (self.W1, self.b1, self.W2))
        return W2 * dy.rectify(dy.affine_transform([b1, W1, dy.concatenate(around)]))

    def run(self, words, heads, wanders):
        """Margins of what was wrong, and how many heads were found."""
        vectors = self.encode(words)
        stack, buffer, margins, right = [], list(range(len(words))), [], 0
        while len(buffer) > 1 or stack:
            scores = self.scores(vectors, stack, buffer)
            values = scores.value()
            cost = costs(stack, buffer, heads)
            best = min(cost.values())
            good = max((a for a in cost if cost[a] == best), key=values.__getitem__)
            bad = [a for a in cost if cost[a] > best]
            if bad:
                worst = max(bad, key=values.__getitem__)
                if values[good] - values[worst] < 1:
                    margins.append(1 - scores[good] + scores[worst])
            step = max(cost, key=values.__getitem__) if wanders() else good
            if step == SHIFT:
                stack.append(buffer.pop(0))
                continue
            dependant = stack.pop()
            right += heads[dependant] == (buffer[0] if step == LEFT else stack[-1])
        return margins, right


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--updates", type=int, default=50)
    arguments.add_argument("--lstm", type=int, default=16)
    arguments.add_argument("--hidden", type=int, default=32)
    options, _ = arguments.parse_known_args()

    options.table = np.random.RandomState(1).randn(1 + 4 * FORMS, 20) * 0.2
    model = dy.Model()
    trainer = dy.MomentumSGDTrainer(model, 0.01, 0.9)
    parser = Parser(model, options)
    rng = random.Random(2)
    right = total = updates = 0
    while updates < options.updates:
        dy.renew_cg()
        words, heads = sentence(rng)
        margins, found = parser.run(words, heads, lambda: rng.random() < 0.9)
        right, total = right + found, total + len(words) - 1
        if margins:
            loss = dy.esum(margins)
            updates += 1
            print(updates, f"{loss.scalar_value() / len(words):.6f}")
            loss.backward()
            trainer.update()
    print(f"heads found while learning: {right / total:.3f}")
    print(*[f"{p.name()} {p.shape()}" for p in model.parameters_list()], sep="\n")


if __name__ == "__main__":
    main()
