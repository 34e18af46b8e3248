"""Language model over minibatches of sentences of several lengths, with masks.

As in DyNet's own manual: sentences are sorted by length and padded, words that are not
there count by a mask of zeros, and the losses of a step come out at once. Saved and
read again with its builder. Text is made up by a small grammar.
"""

import argparse
import os
import random
import tempfile

import dynet as dy
import numpy as np

END = 0
NOUNS, VERBS, OTHERS = range(1, 11), range(11, 19), range(19, 24)
WORDS = 24


def sentences(count, rng):
    for _ in range(count):
        words = [rng.choice(NOUNS), rng.choice(VERBS)]
        while rng.random() < 0.6 and len(words) < 9:
            words += [rng.choice(OTHERS), rng.choice(NOUNS)]
        yield [*words, END]


def minibatches(data, size):
    data = sorted(data, key=len, reverse=True)
    return [data[i : i + size] for i in range(0, len(data), size)]


class LanguageModel:
    def __init__(self, model, options):
        size = options.embedding
        self.lookup = model.add_lookup_parameters((WORDS, size), name="words")
        self.lstm = dy.LSTMBuilder(2, size, options.hidden, model)
        self.W = model.add_parameters((WORDS, options.hidden), name="W")
        self.b = model.add_parameters((WORDS,), name="b")

    def loss(self, batch):
        """The sum over all words of all sentences, and how many these are."""
        longest = len(batch[0])
        columns = [[s[i] if i < len(s) else END for s in batch] for i in range(longest)]
        masks = [[float(i < len(s)) for s in batch] for i in range(longest)]
        state = self.lstm.initial_state()
        state = state.add_input(dy.lookup_batch(self.lookup, [END] * len(batch)))
        losses = []
        for words, mask in zip(columns, masks, strict=True):
            scores = dy.affine_transform([self.b, self.W, state.output()])
            loss = dy.pickneglogsoftmax_batch(scores, words)
            if not all(mask):
                expression = dy.inputVector(mask)
                expression = dy.reshape(expression, (1,), len(batch))
                loss = loss * expression
            losses.append(loss)
            state = state.add_input(dy.lookup_batch(self.lookup, words))
        return dy.sum_batches(dy.esum(losses)), sum(map(sum, masks))

    def generate(self, most=12):
        """The most probable words, one after the other."""
        state, words = self.lstm.initial_state(), [END]
        while len(words) <= most:
            state = state.add_input(self.lookup[words[-1]])
            scores = dy.softmax(self.W * state.output() + self.b)
            words.append(int(np.argmax(scores.npvalue())))
            if words[-1] == END:
                break
        return words[1:]

    def parts(self):
        return [self.lookup, self.lstm, self.W, self.b]


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--updates", type=int, default=50)
    arguments.add_argument("--embedding", type=int, default=16)
    arguments.add_argument("--hidden", type=int, default=20)
    arguments.add_argument("--batch", type=int, default=16)
    options, _ = arguments.parse_known_args()

    model = dy.ParameterCollection()
    lm = LanguageModel(model, options)
    trainer = dy.SimpleSGDTrainer(model, learning_rate=2.0)
    rng = random.Random(1)
    data = minibatches(sentences(200, rng), options.batch)
    updates = 0
    while updates < options.updates:
        rng.shuffle(data)
        for batch in data:
            dy.renew_cg()
            loss, words = lm.loss(batch)
            updates += 1
            print(updates, f"{loss.value() / words:.6f}")
            (loss / words).backward()
            trainer.update()
            if updates == options.updates:
                break
        trainer.restart(1.0)

    other = dy.ParameterCollection()
    with tempfile.TemporaryDirectory() as folder:
        base = os.path.join(folder, "lm")
        dy.save(base, lm.parts())
        same = LanguageModel(dy.ParameterCollection(), options)
        same.lookup, same.lstm, same.W, same.b = dy.load(base, other)
    dy.renew_cg()
    print("most probable:", *lm.generate())
    print("after reading:", *same.generate())


if __name__ == "__main__":
    main()
