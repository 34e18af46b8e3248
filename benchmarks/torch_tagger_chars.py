"""BiLSTM tagger that spells rare words, in eager PyTorch; spellings are packed."""

import corpora
import torch
from torch import nn
from torch.nn.utils import rnn
from torch_tagger import EMBEDDING, Tagger, run

CHARACTER = 20


class CharacterTagger(Tagger):
    """A tagger whose rare words are read by an LSTM over their characters."""

    def __init__(self, data, args):
        super().__init__(data, args)
        self.characters = data.characters
        count = len(self.characters)
        self.spelling = nn.Embedding(count, CHARACTER, sparse=args.sparse)
        self.char_rnn = nn.LSTM(CHARACTER, EMBEDDING // 2, bidirectional=True)

    def embed(self, words):
        """A row of the table for a frequent word, else what its spelling says."""
        rare = [k for k, word in enumerate(words) if word in self.rare]
        found = super().embed(words)
        if not rare:
            return found
        spelled = self.spell([words[k] for k in rare])
        return found.index_copy(0, torch.tensor(rare), spelled)

    def spell(self, words):
        """``[words, EMBEDDING]``: the last outputs of both directions."""
        spelled = [[corpora.BOUNDARY, *word, corpora.BOUNDARY] for word in words]
        ids = [torch.tensor([self.characters[c] for c in word]) for word in spelled]
        xs = [self.spelling(word) for word in ids]
        _, (last, _) = self.char_rnn(rnn.pack_sequence(xs, enforce_sorted=False))
        return torch.cat([last[0], last[1]], dim=1)


if __name__ == "__main__":
    run("tagger_chars", CharacterTagger, __doc__)
