"""LSTM language model with minibatches and masks, against DyNet's API."""

import corpora
import harness

dy = harness.dynet()
EMBEDDING, HIDDEN = 128, 256


class LanguageModel:
    """An LSTM that predicts every next word."""

    def __init__(self, model, data, args):
        del args
        size = len(data.words)
        self.table = model.add_lookup_parameters((size, EMBEDDING))
        self.rnn = dy.VanillaLSTMBuilder(1, EMBEDDING, HIDDEN, model)
        self.out = model.add_parameters((size, HIDDEN))
        self.bias = model.add_parameters(size)

    def loss(self, sentences):
        """Negative log likelihood of the sentences, the longest of them first."""
        boundary = [0] * len(sentences)
        state = self.rnn.initial_state().add_input(
            dy.lookup_batch(self.table, boundary)
        )
        losses = []
        for k in range(len(sentences[0])):
            words = [s[k] if k < len(s) else 0 for s in sentences]
            mask = [1.0 if k < len(s) else 0.0 for s in sentences]
            score = dy.affine_transform([self.bias, self.out, state.output()])
            loss = dy.pickneglogsoftmax_batch(score, words)
            if mask[-1] != 1:
                masks = dy.reshape(dy.inputVector(mask), (1,), len(sentences))
                loss = dy.cmult(loss, masks)
            losses.append(loss)
            if k + 1 < len(sentences[0]):
                state = state.add_input(dy.lookup_batch(self.table, words))
        return dy.sum_batches(dy.esum(losses))

    def predict(self, sentences, clock):
        """The sentences' loss."""
        loss = self.loss(sentences)
        clock.mark("build")
        value = loss.value()
        clock.mark("value")
        return value


def main():
    """Measure the language model."""
    args = harness.arguments(__doc__, harness.DYNETS, minibatch=1)
    data = corpora.read_text(args)
    runner = harness.DynetRunner(dy, LanguageModel, data, args)
    units = corpora.minibatch_units(data, args.minibatch)
    harness.measure("rnnlm", args.backend, args, runner, units)


if __name__ == "__main__":
    main()
