"""Encoder and decoder with attention, against DyNet's API.

From a sentence to the one that follows it, so lengths of the two are independent.
Attention is additive (Bahdanau et al. 2015); ``--batch`` pairs are in a graph.
"""

import corpora
import harness

dy = harness.dynet()
EMBEDDING, HIDDEN, ATTENTION, WORDS = 128, 256, 128, 2000


class Translator:
    """An LSTM that reads, one that writes, and attention between them."""

    def __init__(self, model, data, args):
        del data, args
        add = model.add_parameters
        self.source = model.add_lookup_parameters((WORDS, EMBEDDING))
        self.target = model.add_lookup_parameters((WORDS, EMBEDDING))
        self.reader = dy.VanillaLSTMBuilder(1, EMBEDDING, HIDDEN, model)
        self.writer = dy.VanillaLSTMBuilder(1, EMBEDDING + HIDDEN, HIDDEN, model)
        self.of_states = add((ATTENTION, HIDDEN))
        self.of_query = add((ATTENTION, HIDDEN))
        self.energy = add((1, ATTENTION))
        self.out, self.bias = add((WORDS, HIDDEN)), add(WORDS)

    def losses(self, source, target):
        """The loss of each word of a target."""
        xs = [self.source[w] for w in source]
        states = dy.concatenate_cols(self.reader.initial_state().transduce(xs))
        keys = self.of_states * states
        state, context = self.writer.initial_state(), dy.pick(states, 0, 1)
        last, losses = 0, []
        for word in target:
            state = state.add_input(dy.concatenate([self.target[last], context]))
            query = self.of_query * state.output()
            energies = self.energy * dy.tanh(dy.colwise_add(keys, query))
            context = states * dy.softmax(dy.transpose(energies))
            scores = dy.affine_transform([self.bias, self.out, state.output()])
            losses.append(dy.pickneglogsoftmax(scores, word))
            last = word
        return losses

    def loss(self, pairs):
        """Negative log likelihood of all targets."""
        return dy.esum([loss for pair in pairs for loss in self.losses(*pair)])

    def predict(self, pairs, clock):
        """The loss of each pair."""
        totals = [dy.esum(self.losses(*pair)) for pair in pairs]
        clock.mark("build")
        found = [total.value() for total in totals]
        clock.mark("value")
        return found


if __name__ == "__main__":
    args = harness.arguments(__doc__, harness.DYNETS, batch=16)
    text = corpora.read_text(args)
    runner = harness.DynetRunner(dy, Translator, text, args)
    units = corpora.pair_units(text, WORDS, args.batch)
    harness.measure("seq2seq", args.backend, args, runner, units)
