"""LSTM language model in eager PyTorch, padded by hand."""

import corpora
import harness
import torch
import torch_runner
from torch import nn
from torch.nn import functional

EMBEDDING, HIDDEN = 128, 256
PADDING = -1


class LanguageModel(nn.Module):
    """An LSTM that predicts every next word."""

    def __init__(self, data, args):
        super().__init__()
        self.table = nn.Embedding(len(data.words), EMBEDDING, sparse=args.sparse)
        self.rnn = nn.LSTM(EMBEDDING, HIDDEN)
        self.out = nn.Linear(HIDDEN, len(data.words))

    def loss(self, sentences):
        """Negative log likelihood of the sentences, the longest of them first."""
        parts = [torch.tensor(s) for s in sentences]
        words = nn.utils.rnn.pad_sequence(parts, padding_value=PADDING)
        first = torch.zeros_like(words[:1])
        outputs, _ = self.rnn(self.table(torch.cat([first, words[:-1].clamp(min=0)])))
        return functional.cross_entropy(
            self.out(outputs).flatten(0, 1),
            words.flatten(),
            ignore_index=PADDING,
            reduction="sum",
        )

    def predict(self, sentences):
        """The sentences' loss."""
        return self.loss(sentences).item()


def main():
    """Measure the language model."""
    args = harness.arguments(__doc__, minibatch=1)
    data = corpora.read_text(args)
    units = corpora.minibatch_units(data, args.minibatch)
    torch_runner.run("rnnlm", LanguageModel, args, data, units)


if __name__ == "__main__":
    main()
