"""BiLSTM tagger over word embeddings, against DyNet's API."""

import corpora
import harness

dy = harness.dynet()
EMBEDDING, HIDDEN, LAYER = 128, 50, 32


class Tagger:
    """Two LSTMs, a hidden layer, and scores for every word."""

    def __init__(self, model, data, args):
        del args
        self.words, self.rare, self.tags = data.words, data.rare, data.tags
        self.table = model.add_lookup_parameters((len(self.words), EMBEDDING))
        self.hidden = model.add_parameters((LAYER, 2 * HIDDEN))
        self.out = model.add_parameters((len(self.tags), LAYER))
        self.forward = dy.VanillaLSTMBuilder(1, EMBEDDING, HIDDEN, model)
        self.backward = dy.VanillaLSTMBuilder(1, EMBEDDING, HIDDEN, model)

    def embed(self, words):
        """One vector per word."""
        known = [corpora.UNKNOWN if word in self.rare else word for word in words]
        return [self.table[self.words[word]] for word in known]

    def scores(self, sentence):
        """One vector of scores per word."""
        xs = self.embed([word for word, _ in sentence])
        forth = self.forward.initial_state().transduce(xs)
        back = self.backward.initial_state().transduce(xs[::-1])[::-1]
        return [
            self.out * dy.tanh(self.hidden * dy.concatenate([f, b]))
            for f, b in zip(forth, back, strict=True)
        ]

    def loss(self, sentence):
        """Negative log likelihood of the sentence's tags."""
        pairs = zip(self.scores(sentence), sentence, strict=True)
        return dy.esum(
            [dy.pickneglogsoftmax(score, self.tags[tag]) for score, (_, tag) in pairs]
        )

    def predict(self, sentence, clock):
        """The likeliest tag of each word."""
        scores = self.scores(sentence)
        clock.mark("build")
        best = [int(score.npvalue().argmax()) for score in scores]
        clock.mark("value")
        return best


def run(task, network, description):
    """Measure a tagger."""
    args = harness.arguments(description, harness.DYNETS)
    data = corpora.read_tagged(args)
    runner = harness.DynetRunner(dy, network, data, args)
    harness.measure(task, args.backend, args, runner, corpora.sentence_units(data))


if __name__ == "__main__":
    run("tagger", Tagger, __doc__)
