"""BiLSTM tagger that spells rare words with character LSTMs, against DyNet's API."""

import corpora
from tagger import EMBEDDING, Tagger, dy, run

CHARACTER = 20


class CharacterTagger(Tagger):
    """A tagger whose rare words are read by two LSTMs over their characters."""

    def __init__(self, model, data, args):
        super().__init__(model, data, args)
        self.characters = data.characters
        self.spelling = model.add_lookup_parameters((len(self.characters), CHARACTER))
        half = EMBEDDING // 2
        self.char_forward = dy.VanillaLSTMBuilder(1, CHARACTER, half, model)
        self.char_backward = dy.VanillaLSTMBuilder(1, CHARACTER, half, model)

    def embed(self, words):
        """A row of the table for a frequent word, else what its spelling says."""
        return [
            self.spell(word) if word in self.rare else self.table[self.words[word]]
            for word in words
        ]

    def spell(self, word):
        """The last outputs of both character LSTMs."""
        spelled = [corpora.BOUNDARY, *word, corpora.BOUNDARY]
        xs = [self.spelling[self.characters[c]] for c in spelled]
        forth = self.char_forward.initial_state().transduce(xs)
        back = self.char_backward.initial_state().transduce(xs[::-1])
        return dy.concatenate([forth[-1], back[-1]])


if __name__ == "__main__":
    run("tagger_chars", CharacterTagger, __doc__)
