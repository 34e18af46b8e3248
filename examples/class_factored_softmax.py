"""A softmax by way of classes, against the full softmax: the same language model twice.

Words are those of the standard library's source, which comes with every Python. A
network reads the three words before each (Bengio et al. 2003) and is to predict it. The
full softmax scores all words; the factored one (Goodman 2001, arXiv:cs/0108006) scores
the classes, and then the words of one class. Words of a class are about equally
frequent here, as many as there are classes. ``--data FILE`` takes any text instead.

    python examples/class_factored_softmax.py [--words N] [--quick] [--data FILE]
"""

import argparse
import collections
import itertools
import math
import pathlib
import random
import re
import sysconfig
import tempfile
import time

from progress import tqdm

import dynetjax as dy

UNKNOWN, CONTEXT, BATCH = "<unk>", 3, 64


def spelled(source):
    """The words and other symbols of a text."""
    return re.findall(r"[^\W\d_]+|\d|[^\w\s]|_", source)


def standard_library():
    """(train, dev) lists of words, split by file."""
    parts: tuple[list, list] = [], []
    files = pathlib.Path(sysconfig.get_paths()["stdlib"]).glob("[a-z]*.py")
    for k, file in enumerate(sorted(files)):
        parts[k % 8 == 2].extend(spelled(file.read_text(encoding="utf-8")))
    return parts


def text_file(path):
    """(train, dev) lists of the words of a file, whose last tenth is dev."""
    words = spelled(path.read_text(encoding="utf-8"))
    cut = len(words) * 9 // 10
    return words[:cut], words[cut:]


def numbered(words, limit):
    """Numbers for the most frequent words, frequent ones first."""
    common = collections.Counter(words).most_common(limit - 1)
    return {word: k for k, word in enumerate([UNKNOWN, *(word for word, _ in common)])}


def batches(words, vocabulary):
    """Batches of CONTEXT lists of words, and a list of those that follow."""
    ids = [vocabulary.get(word, 0) for word in words]
    for k in range(0, len(ids) - CONTEXT - BATCH + 1, BATCH):
        yield [ids[k + c : k + c + BATCH] for c in range(CONTEXT + 1)]


def factored(size, vocabulary, model):
    """A softmax over classes of similar frequency."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "clusters.txt")
        size_of_class = math.isqrt(len(vocabulary))
        lines = [f"class{k // size_of_class} {w}\n" for w, k in vocabulary.items()]
        file.write_text("".join(lines), encoding="utf-8")
        return dy.ClassFactoredSoftmaxBuilder(size, file, vocabulary, model)


def full(size, vocabulary, model):
    """A softmax over all words."""
    return dy.StandardSoftmaxBuilder(size, len(vocabulary), model)


class LanguageModel:
    """Embeddings of the words before, a hidden layer, and a softmax."""

    def __init__(self, make_softmax, vocabulary, embedding=64, hidden=128):
        self.model = dy.ParameterCollection()
        self.table = self.model.add_lookup_parameters((len(vocabulary), embedding))
        self.W = self.model.add_parameters((hidden, CONTEXT * embedding))
        self.b = self.model.add_parameters(hidden, init=0)
        self.softmax = make_softmax(hidden, vocabulary, self.model)

    def loss(self, batch):
        """The average -log p of the words that follow."""
        *before, words = batch
        xs = dy.concatenate([dy.lookup_batch(self.table, ids) for ids in before])
        h = dy.tanh(self.W * xs + self.b)
        return dy.mean_batches(self.softmax.neg_log_softmax_batch(h, words))


def run(network, data, title, trainer=None):
    """Train or test in one pass; the average loss, and words a second.

    The first tenth, in which programs are compiled, is not timed.
    """
    losses, warm, start = [], len(data) // 10, time.perf_counter()
    for k, batch in enumerate(tqdm(data, desc=title, unit="batch", mininterval=0.5)):
        if k == warm:
            start = time.perf_counter()
        dy.renew_cg()
        loss = network.loss(batch)
        losses.append(loss.value())
        if trainer:
            loss.backward()
            trainer.update()
    speed = (len(data) - warm) * BATCH / (time.perf_counter() - start)
    return sum(losses) / len(losses), speed


def main():
    """Train with both, and print loss and speed of both."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--words", type=int, default=60_000, help="to train on")
    parser.add_argument("--vocabulary", type=int, default=16_000)
    parser.add_argument("--quick", action="store_true", help="a few seconds only")
    parser.add_argument("--data", type=pathlib.Path, metavar="FILE", help="a text")
    args = parser.parse_args()
    random.seed(1)
    train_words, dev_words = text_file(args.data) if args.data else standard_library()
    if args.quick:
        args.words, args.vocabulary = 6000, 1000
    vocabulary = numbered(train_words, args.vocabulary)
    data = list(itertools.islice(batches(train_words, vocabulary), args.words // BATCH))
    dev = list(
        itertools.islice(batches(dev_words, vocabulary), 20 if args.quick else 200)
    )
    random.shuffle(data)
    print(f"{len(data) * BATCH} words to train, {len(vocabulary)} different ones")
    results = {}
    for name, make in {"full softmax": full, "factored softmax": factored}.items():
        dy.reset_random_seed(1)
        network = LanguageModel(make, vocabulary)
        _, speed = run(network, data, name, dy.AdamTrainer(network.model))
        results[name] = speed, *run(network, dev, "test")
    for name, (speed, loss, test_speed) in results.items():
        print(f"{name}: loss {loss:.3f} a word of other files;", end=" ")
        print(f"training {speed:.0f} words/s, testing {test_speed:.0f} words/s")
    stats = dy.stats()
    print(f"XLA compilations: {stats.compilations} ({stats.loads} read from its cache)")


if __name__ == "__main__":
    main()
