"""Encoder and decoder with attention, and beam search once it is trained.

Bahdanau et al. 2015, arXiv:1409.0473: a bidirectional LSTM reads a string, and an LSTM
writes another, at each step with a mixture of the encoder's states, weighted by an MLP.
The made-up language: strings are reversed, and each letter becomes another one.
"""

import argparse
import itertools
import random

import dynet as dy

LETTERS = "abcdefgh"
END = len(LETTERS)


def pairs(rng):
    """Endless pairs of a string and its translation, as lists of numbers."""
    while True:
        source = [rng.randrange(END) for _ in range(rng.randint(3, 8))]
        yield source, [(letter + 3) % END for letter in reversed(source)]


def text(letters):
    return "".join(LETTERS[letter] for letter in letters)


class Translator:
    def __init__(self, model, options):
        self.context = 2 * options.lstm
        size = options.embedding
        self.read = model.add_lookup_parameters((END + 1, size))
        self.written = model.add_lookup_parameters((END + 1, size))
        self.forward = dy.LSTMBuilder(1, size, options.lstm, model)
        self.backward = dy.LSTMBuilder(1, size, options.lstm, model)
        self.decoder = dy.LSTMBuilder(1, size + self.context, options.lstm, model)
        self.W1 = model.add_parameters((options.attention, self.context))
        self.W2 = model.add_parameters((options.attention, 2 * options.lstm))
        self.v = model.add_parameters((1, options.attention))
        self.W = model.add_parameters((END + 1, options.lstm))
        self.b = model.add_parameters(END + 1)

    def encode(self, source):
        """A matrix with a column for each letter, and what attention makes of it."""
        embedded = [self.read[letter] for letter in source]
        forward = self.forward.initial_state().transduce(embedded)
        backward = self.backward.initial_state().transduce(embedded[::-1])[::-1]
        columns = [
            dy.concatenate(list(both)) for both in zip(forward, backward, strict=True)
        ]
        encoded = dy.concatenate_cols(columns)
        return encoded, dy.parameter(self.W1) * encoded

    def attend(self, state, encoded, keys):
        query = dy.parameter(self.W2) * dy.concatenate(list(state.s()))
        scores = dy.parameter(self.v) * dy.tanh(dy.colwise_add(keys, query))
        return encoded * dy.softmax(dy.transpose(scores))

    def start(self):
        nothing = dy.vecInput(self.context)
        embedded = dy.concatenate([nothing, self.written[END]])
        return self.decoder.initial_state().add_input(embedded)

    def step(self, state, last, encoded, keys):
        """The state after one more letter, and the scores of the next."""
        context = self.attend(state, encoded, keys)
        state = state.add_input(dy.concatenate([context, self.written[last]]))
        return state, dy.parameter(self.W) * state.output() + dy.parameter(self.b)

    def losses(self, source, target):
        encoded, keys = self.encode(source)
        state, last = self.start(), END
        for letter in [*target, END]:
            state, scores = self.step(state, last, encoded, keys)
            yield dy.pickneglogsoftmax(scores, letter)
            last = letter

    def beam_search(self, source, width):
        """The most probable translation among those that a beam finds."""
        encoded, keys = self.encode(source)
        beam, done = [(0.0, [], self.start())], []
        for _ in range(2 * len(source)):
            longer = []
            for score, letters, prev in beam:
                last = letters[-1] if letters else END
                state, scores = self.step(prev, last, encoded, keys)
                log_probs = dy.log_softmax(scores).npvalue()
                for letter in log_probs.argsort()[-width:]:
                    total = score + float(log_probs[letter])
                    longer.append((total, [*letters, int(letter)], state))
            longer.sort(key=lambda hypothesis: -hypothesis[0])
            done += [(s, ls[:-1]) for s, ls, _ in longer[:width] if ls[-1] == END]
            beam = [best for best in longer[:width] if best[1][-1] != END]
            if not beam or (done and max(done)[0] > beam[0][0]):
                break
        return max(done)[1] if done else beam[0][1]


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--updates", type=int, default=50)
    arguments.add_argument("--embedding", type=int, default=16)
    arguments.add_argument("--lstm", type=int, default=24)
    arguments.add_argument("--attention", type=int, default=20)
    arguments.add_argument("--batch", type=int, default=8)
    arguments.add_argument("--beam", type=int, default=3)
    options, _ = arguments.parse_known_args()

    model = dy.Model()
    trainer = dy.AdamTrainer(model, 0.02)
    translator = Translator(model, options)
    data = pairs(random.Random(1))
    for updates in range(1, options.updates + 1):
        dy.renew_cg()
        batch = itertools.islice(data, options.batch)
        losses = [loss for pair in batch for loss in translator.losses(*pair)]
        loss = dy.esum(losses) / len(losses)
        print(updates, f"{loss.scalar_value():.6f}")
        loss.backward()
        trainer.update()

    for source, target in itertools.islice(data, 5):
        dy.renew_cg()
        found = translator.beam_search(source, options.beam)
        print(f"beam: {text(source)} -> {text(found)}, should be {text(target)}")


if __name__ == "__main__":
    main()
