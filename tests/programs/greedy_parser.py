"""Greedy arc-standard dependency parser over BiLSTM features.

Kiperwasser & Goldberg 2016, arXiv:1603.04351, with a static oracle, a margin loss, and
an update whenever some 25 errors have come together. Sentences are made up: a word's
class says which words it takes as dependants.
"""

import argparse
import random

import dynet as dy

SHIFT, LEFT, RIGHT = range(3)
CLASSES, WORDS = 5, 60


def sentences(count, rng):
    """Lists of words and of heads (0 is the root), all projective."""

    def grow(words, heads, kind, depth):
        left = rng.randrange(3) if depth < 2 else 0
        right = rng.randrange(2) if depth < 2 else 0
        dependants = [
            grow(words, heads, (kind + 1) % CLASSES, depth + 1) for _ in range(left)
        ]
        me = len(words) + 1
        words.append(kind + CLASSES * rng.randrange(WORDS // CLASSES))
        heads.append(None)
        dependants += [
            grow(words, heads, (kind + 2) % CLASSES, depth + 1) for _ in range(right)
        ]
        for dependant in dependants:
            heads[dependant - 1] = me
        return me

    for _ in range(count):
        words, heads = [], []
        root = grow(words, heads, 0, 0)
        heads[root - 1] = 0
        yield words, heads


class Parser:
    def __init__(self, model, options):
        self.lookup = model.add_lookup_parameters((WORDS, options.embedding))
        self.bilstm = dy.BiRNNBuilder(
            2, options.embedding, options.lstm, model, dy.LSTMBuilder
        )
        self.W1 = model.add_parameters((options.hidden, 4 * options.lstm))
        self.b1 = model.add_parameters(options.hidden)
        self.W2 = model.add_parameters((3, options.hidden))
        self.b2 = model.add_parameters(3)
        self.empty = model.add_parameters(options.lstm)

    def errors(self, words, heads):
        """Margins of the steps whose best action was not the oracle's."""
        W1, b1 = dy.parameter(self.W1), dy.parameter(self.b1)
        W2, b2 = dy.parameter(self.W2), dy.parameter(self.b2)
        empty = dy.tanh(dy.parameter(self.empty))
        vectors = self.bilstm.transduce([self.lookup[w] for w in words])
        waiting = [heads.count(i + 1) for i in range(len(words))]
        stack, buffer, margins = [], list(range(len(words))), []
        while buffer or len(stack) > 1:
            around = stack[-3:] + buffer[:1]
            around = [vectors[i] for i in around] + [empty] * (4 - len(around))
            x = dy.concatenate(around)
            scores = W2 * dy.tanh(W1 * x + b1) + b2
            gold = oracle(stack, heads, waiting)
            values = scores.npvalue()
            wrong = max((a for a in range(3) if a != gold), key=lambda a: values[a])
            if values[gold] < values[wrong] + 1.0:
                margins.append(1.0 - dy.pick(scores, gold) + dy.pick(scores, wrong))
            if gold == SHIFT:
                stack.append(buffer.pop(0))
            else:
                dependant = stack.pop(-2 if gold == LEFT else -1)
                waiting[heads[dependant] - 1] -= 1
        return margins


def oracle(stack, heads, waiting):
    """What to do: join the top two once the dependant has all of its own."""
    if len(stack) > 1:
        below, top = stack[-2:]
        if heads[below] == top + 1 and not waiting[below]:
            return LEFT
        if heads[top] == below + 1 and not waiting[top]:
            return RIGHT
    return SHIFT


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--updates", type=int, default=50)
    arguments.add_argument("--embedding", type=int, default=20)
    arguments.add_argument("--lstm", type=int, default=24)
    arguments.add_argument("--hidden", type=int, default=30)
    options, _ = arguments.parse_known_args()

    model = dy.ParameterCollection()
    trainer = dy.AdamTrainer(model)
    parser = Parser(model, options)
    data = list(sentences(1000, random.Random(1)))
    updates, margins = 0, []
    dy.renew_cg()
    for words, heads in data:
        margins += parser.errors(words, heads)
        if len(margins) > 25:
            loss = dy.esum(margins) / len(margins)
            updates += 1
            print(updates, f"{loss.scalar_value():.6f}")
            loss.backward()
            trainer.update()
            dy.renew_cg()
            margins = []
            if updates == options.updates:
                break


if __name__ == "__main__":
    main()
