"""Early exit: a classifier that reads word by word, and stops once it is sure.

Which package is this function taken from? The texts come with every Python: functions
of the standard library's own source. The network looks at its own probabilities in the
middle of a graph, with ``value()``, and Python decides whether to read another word.
With ``--data DIR`` it learns from train.txt and dev.txt: a label, a tab, a text a line.

    python examples/early_exit.py [--epochs N] [--sure P] [--quick] [--data DIR]
"""

import argparse
import ast
import collections
import pathlib
import random
import re
import sysconfig

from progress import tqdm

import dynetjax as dy

PACKAGES = ("asyncio", "email", "json", "logging", "tkinter", "unittest", "urllib")
UNKNOWN, LONGEST = "<unk>", 60


def words_of(text):
    """The first words, in small letters; names are split at underscores."""
    return re.findall(r"[a-z]+|[^\w\s]", text.lower())[:LONGEST]


def functions(file):
    """The texts of the functions in a file."""
    source = file.read_text(encoding="utf-8")
    lines = source.splitlines()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield words_of("\n".join(lines[node.lineno - 1 : node.end_lineno]))


def standard_library():
    """(train, dev) lists of (words, package), split at random."""
    root = pathlib.Path(sysconfig.get_paths()["stdlib"])
    texts = []
    for file in (f for p in PACKAGES for f in sorted((root / p).glob("*.py"))):
        label = file.parent.name
        texts += [(text, label) for text in functions(file) if len(text) > 15]
    random.shuffle(texts)
    return texts[600:], texts[:600]


def from_files(folder):
    """The same from files of one's own."""
    for name in ("train.txt", "dev.txt"):
        lines = [line.split("\t", 1) for line in (folder / name).open(encoding="utf-8")]
        yield [(words_of(text), label) for label, text in lines]


class Reader:
    """An LSTM, and after each word a score for each label."""

    def __init__(self, model, words, labels, size=64):
        self.numbers = {word: k for k, word in enumerate(words)}
        self.labels = labels
        self.table = model.add_lookup_parameters((len(words), size))
        self.lstm = dy.LSTMBuilder(1, size, size, model)
        self.out = model.add_parameters((len(labels), size))
        self.bias = model.add_parameters(len(labels), init=0)

    def read(self, words):
        """The labels' scores after each word, as far as the caller wants to know."""
        state = self.lstm.initial_state()
        for word in words:
            number = self.numbers.get(word, self.numbers[UNKNOWN])
            state = state.add_input(self.table[number])
            yield self.out * state.output() + self.bias

    def loss(self, words, label):
        """How wrong the scores are after each word, on average."""
        gold = self.labels.index(label)
        return dy.average([dy.pickneglogsoftmax(s, gold) for s in self.read(words)])

    def classify(self, words, sure):
        """The label once its probability is `sure`, and how many words that took."""
        for count, scores in enumerate(self.read(words), 1):  # noqa: B007
            chances = dy.softmax(scores).npvalue()
            if chances.max() >= sure:
                break
        return self.labels[int(chances.argmax())], count


def train_epoch(network, trainer, texts, title):
    """One pass, eight texts an update."""
    total = 0.0
    progress = tqdm(range(0, len(texts), 8), desc=title, unit="batch", mininterval=0.5)
    for k in progress:
        dy.renew_cg()
        loss = dy.average([network.loss(*text) for text in texts[k : k + 8]])
        total += loss.value()
        loss.backward()
        trainer.update()
        progress.set_postfix(loss=f"{total / (k / 8 + 1):.3f}", refresh=False)


def test(network, texts, sure):
    """The share of texts with the right label, and of words that were read."""
    right = read = 0
    for words, label in tqdm(texts, desc="test", unit="text", leave=False):
        dy.renew_cg()
        found, count = network.classify(words, sure)
        right += found == label
        read += count
    return right / len(texts), read / len(texts)


def main():
    """Train, and compare stopping early with reading all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--data", type=pathlib.Path, metavar="DIR")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--sure", type=float, default=0.9, help="when to stop reading")
    parser.add_argument("--quick", action="store_true", help="a few seconds only")
    args = parser.parse_args()
    dy.reset_random_seed(1)
    random.seed(1)
    train, dev = from_files(args.data) if args.data else standard_library()
    if args.quick:
        train, dev, args.epochs = train[:80], dev[:10], 1
    counts = collections.Counter(word for words, _ in train for word in words)
    words = [UNKNOWN, *sorted(word for word, n in counts.items() if n >= 3)]
    model = dy.ParameterCollection()
    network = Reader(model, words, sorted({label for _, label in train}))
    trainer = dy.AdamTrainer(model, 0.002)
    print(f"{len(train)} texts to train, {len(dev)} to test, {len(words)} words")
    for epoch in range(1, args.epochs + 1):
        random.shuffle(train)
        train_epoch(network, trainer, train, f"epoch {epoch}")
    early, few = test(network, dev, args.sure)
    late, every = test(network, dev, 2)  # never so sure
    majority = max(collections.Counter(label for _, label in dev).values())
    stats = dy.stats()
    print(f"stopping early: {early:.1%} right, {few:.1f} words read of {every:.1f}")
    print(f"reading all: {late:.1%} (majority class: {majority / len(dev):.1%})")
    print(f"XLA compilations: {stats.compilations} ({stats.loads} read from its cache)")


if __name__ == "__main__":
    main()
