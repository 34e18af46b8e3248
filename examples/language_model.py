"""LSTM language model over Python's own documentation.

The sentences come with every Python: the help topics of `pydoc`. Sentences of like
length make a minibatch; where one has ended, a mask leaves its losses out. With
``--data DIR`` it learns from train.txt and dev.txt, a sentence a line.

    python examples/language_model.py [--epochs N] [--quick] [--data DIR]
"""

import argparse
import collections
import itertools
import math
import pathlib
import pydoc_data.topics
import random
import re

from progress import tqdm

import dynetjax as dy

END, UNKNOWN = "</s>", "<unk>"


def words_of(text):
    """Words, numbers and marks, in small letters."""
    return re.findall(r"\w+|[^\w\s]", text.lower())


def help_topics():
    """(train, dev) lists of sentences; code and grammars are left out."""
    found: dict = {}  # each sentence once: topics repeat each other
    for _, topic in sorted(pydoc_data.topics.topics.items()):
        for paragraph in re.split(r"\n\s*\n", topic):
            if paragraph[:4].isspace() or re.search(r"::=|>>>|\*\*\*|===", paragraph):
                continue
            for sentence in re.split(r"(?<=[.:])\s+(?=[A-Z])", paragraph):
                words = words_of(sentence)
                if 4 <= len(words) <= 40:
                    found[tuple(words)] = None
    sentences = [list(words) for words in found]
    random.shuffle(sentences)
    return sentences[len(sentences) // 10 :], sentences[: len(sentences) // 10]


def from_files(folder):
    """The same from files of one's own."""
    for name in ("train.txt", "dev.txt"):
        yield [words_of(line) for line in (folder / name).open(encoding="utf-8")]


class LanguageModel:
    """An LSTM, and after each word a score for every word that may follow."""

    def __init__(self, model, words, embedding=64, hidden=128):
        self.words = words
        self.numbers = {word: k for k, word in enumerate(words)}
        self.table = model.add_lookup_parameters((len(words), embedding))
        self.lstm = dy.LSTMBuilder(1, embedding, hidden, model)
        self.out = model.add_parameters((len(words), hidden))
        self.bias = model.add_parameters(len(words), init=0)

    def number(self, sentence):
        """A sentence in numbers, between two marks of its end."""
        words = [word if word in self.numbers else UNKNOWN for word in sentence]
        return [self.numbers[word] for word in [END, *words, END]]

    def loss(self, batch):
        """Negative log likelihood of a sentence on average; the number of words."""
        rows = [self.number(sentence) for sentence in batch]
        losses, state = [], self.lstm.initial_state()
        columns = itertools.zip_longest(*rows, fillvalue=self.numbers[END])
        for k, (before, after) in enumerate(itertools.pairwise(columns), 1):
            state = state.add_input(dy.lookup_batch(self.table, before))
            scores = self.out * state.output() + self.bias
            mask = dy.inputTensor([[float(k < len(row)) for row in rows]], batched=True)
            losses.append(dy.cmult(mask, dy.pickneglogsoftmax_batch(scores, after)))
        return dy.mean_batches(dy.esum(losses)), sum(len(row) - 1 for row in rows)

    def sample(self, longest=20):
        """Words drawn one after the other, each given those before it."""
        state, words = self.lstm.initial_state(), [END]
        while len(words) == 1 or (words[-1] != END and len(words) <= longest):
            state = state.add_input(self.table[self.numbers[words[-1]]])
            chances = dy.softmax(self.out * state.output() + self.bias).npvalue()
            chances[self.numbers[UNKNOWN]] = 0  # nothing to be said with it
            words += random.choices(self.words, chances.tolist())
        return " ".join(words[1:]).removesuffix(" " + END)


def run_epoch(network, sentences, title, trainer=None):
    """One pass, training if there is a trainer; the average loss a word."""
    total, words, ordered = 0.0, 0, sorted(sentences, key=len)
    parts = [ordered[k : k + 16] for k in range(0, len(ordered), 16)]
    random.shuffle(parts)
    for batch in (progress := tqdm(parts, desc=title, unit="batch", mininterval=0.5)):
        dy.renew_cg()
        loss, count = network.loss(batch)
        total, words = total + loss.value() * len(batch), words + count
        if trainer:
            loss.backward()
            trainer.update()
        progress.set_postfix(perplexity=f"{math.exp(total / words):.0f}", refresh=False)
    return total / words


def unigram(network, train, dev):
    """The average loss a word of a model that knows only how frequent words are."""
    counts = collections.Counter(n for s in train for n in network.number(s)[1:])
    total = counts.total() + len(network.words)  # each word is seen once more
    gold = [n for s in dev for n in network.number(s)[1:]]
    return -sum(math.log((counts[n] + 1) / total) for n in gold) / len(gold)


def main():
    """Train, print samples, and the perplexity of sentences never seen."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--data", type=pathlib.Path, metavar="DIR")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="a few seconds only")
    args = parser.parse_args()
    dy.reset_random_seed(1)
    random.seed(1)
    train, dev = from_files(args.data) if args.data else help_topics()
    if args.quick:
        train, dev = ([s for s in part if len(s) <= 12] for part in (train, dev))
        train, dev, args.epochs = train[:400], dev[:32], 2
    counts = collections.Counter(word for s in train for word in s)
    words = [END, UNKNOWN, *sorted(word for word, n in counts.items() if n >= 3)]
    model = dy.ParameterCollection()
    network = LanguageModel(model, words)
    trainer = dy.AdamTrainer(model, 0.005)
    print(f"{len(train)} sentences to train, {len(dev)} to test, {len(words)} words")
    for epoch in range(1, args.epochs + 1):
        run_epoch(network, train, f"epoch {epoch}", trainer)
    loss = run_epoch(network, dev, "dev")
    for _ in range(3):
        dy.renew_cg()
        print("sample:", network.sample())
    base = unigram(network, train, dev)
    stats = dy.stats()
    print(f"perplexity: {math.exp(loss):.1f} (unigram: {math.exp(base):.1f})")
    print(f"bits a word saved: {1 - loss / base:.1%} (more is better)")
    print(f"XLA compilations: {stats.compilations} ({stats.loads} read from its cache)")


if __name__ == "__main__":
    main()
