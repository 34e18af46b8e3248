"""BiLSTM tagger in eager PyTorch, with its own fused LSTM."""

import corpora
import harness
import torch
import torch_runner
from torch import nn
from torch.nn import functional

EMBEDDING, HIDDEN, LAYER = 128, 50, 32


class Tagger(nn.Module):
    """A bidirectional LSTM, a hidden layer, and scores for every word."""

    def __init__(self, data, args):
        super().__init__()
        self.words, self.rare, self.tags = data.words, data.rare, data.tags
        self.table = nn.Embedding(len(self.words), EMBEDDING, sparse=args.sparse)
        self.rnn = nn.LSTM(EMBEDDING, HIDDEN, bidirectional=True)
        self.hidden = nn.Linear(2 * HIDDEN, LAYER, bias=False)
        self.out = nn.Linear(LAYER, len(self.tags), bias=False)

    def embed(self, words):
        """``[words, EMBEDDING]``."""
        known = [corpora.UNKNOWN if word in self.rare else word for word in words]
        return self.table(torch.tensor([self.words[word] for word in known]))

    def scores(self, sentence):
        """``[words, tags]``."""
        outputs, _ = self.rnn(self.embed([word for word, _ in sentence]))
        return self.out(torch.tanh(self.hidden(outputs)))

    def loss(self, sentence):
        """Negative log likelihood of the sentence's tags."""
        gold = torch.tensor([self.tags[tag] for _, tag in sentence])
        return functional.cross_entropy(self.scores(sentence), gold, reduction="sum")

    def predict(self, sentence):
        """The likeliest tag of each word."""
        return self.scores(sentence).argmax(dim=1).tolist()


def run(task, network, description):
    """Measure a tagger."""
    args = harness.arguments(description)
    data = corpora.read_tagged(args)
    torch_runner.run(task, network, args, data, corpora.sentence_units(data))


if __name__ == "__main__":
    run("tagger", Tagger, __doc__)
