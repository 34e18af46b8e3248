"""BiLSTM tagger over lines of code: which class is each token of?

The sentences come with every Python: logical lines of the standard library's own
source. The tagger sees how the tokens are spelled, and learns whether each is a
keyword, an operator, a number, a string, or what kind of name. With ``--wikiner DIR``
it learns named entities from train.txt and dev.txt, lines of ``word|TAG``.

    python examples/bilstm_tagger.py [--epochs N] [--quick] [--wikiner DIR]
"""

import argparse
import collections
import io
import keyword
import pathlib
import random
import sysconfig
import time
import tokenize

from progress import tqdm

import dynetjax as dy

UNKNOWN = "<unk>"
KINDS = {tokenize.NUMBER: "number", tokenize.STRING: "string", tokenize.NAME: "name"}


def token_class(token, before, after):
    """The class of a token between two others."""
    if keyword.iskeyword(token.string):
        return "keyword"
    kind = KINDS.get(token.type, "operator")
    if kind == "name" and after == "(":
        return "definition" if before in ("def", "class") else "call"
    return "attribute" if kind == "name" and before == "." else kind


def tagged_lines(source):
    """The logical lines of a file, each a list of (spelling, class)."""
    line: list[tokenize.TokenInfo] = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.NEWLINE:
            spelled = ["", *(t.string for t in line), ""]
            yield [
                (t.string[:20], token_class(t, spelled[k], spelled[k + 2]))
                for k, t in enumerate(line)
            ]
            line = []
        elif token.string.strip() and token.type != tokenize.COMMENT:
            line.append(token)


def standard_library():
    """(train, dev) lists of tagged lines, split by file."""
    root = pathlib.Path(sysconfig.get_paths()["stdlib"])
    train: list = []
    dev: list = []
    for k, file in enumerate(sorted(root.glob("[a-l]*.py"))):
        part = dev if k % 5 == 2 else train
        source = file.read_text(encoding="utf-8")
        part += [line for line in tagged_lines(source) if 3 <= len(line) <= 40]
    return train, dev


def wikiner(folder):
    """(train, dev) lists of sentences with entity tags."""
    texts = [(folder / f"{part}.txt").read_text("utf-8") for part in ("train", "dev")]
    found = [[line.split() for line in text.splitlines()] for text in texts]
    return [[[tuple(w.rsplit("|", 1)) for w in s] for s in part] for part in found]


class Tagger:
    """Two LSTMs over word embeddings, a hidden layer, and scores for every word."""

    def __init__(self, model, words, tags, embedding=128, hidden=50, layer=32):
        self.words, self.tags = words, tags
        self.table = model.add_lookup_parameters((len(words), embedding))
        self.hidden = model.add_parameters((layer, 2 * hidden))
        self.out = model.add_parameters((len(tags), layer))
        self.forward = dy.LSTMBuilder(1, embedding, hidden, model)
        self.backward = dy.LSTMBuilder(1, embedding, hidden, model)

    def scores(self, sentence):
        """One vector of scores per word."""
        rare = self.words[UNKNOWN]
        xs = [self.table[self.words.get(word, rare)] for word, _ in sentence]
        forth = self.forward.initial_state().transduce(xs)
        back = self.backward.initial_state().transduce(xs[::-1])[::-1]
        both = map(dy.concatenate, map(list, zip(forth, back, strict=True)))
        return [self.out * dy.tanh(self.hidden * x) for x in both]

    def loss(self, sentence):
        """Negative log likelihood of the sentence's tags."""
        pairs = zip(self.scores(sentence), sentence, strict=True)
        return dy.esum(
            [dy.pickneglogsoftmax(score, self.tags[tag]) for score, (_, tag) in pairs]
        )


def numbered(names, least=1):
    """Numbers for the names that occur often enough."""
    counts = collections.Counter(names)
    return {n: k for k, n in enumerate(sorted(n for n in counts if counts[n] >= least))}


def main():
    """Train, and print loss, accuracy, speed and the number of compilations."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--wikiner", type=pathlib.Path, metavar="DIR")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="a few seconds only")
    args = parser.parse_args()
    dy.reset_random_seed(1)
    random.seed(1)
    train, dev = wikiner(args.wikiner) if args.wikiner else standard_library()
    random.shuffle(train)
    train, dev = (train[:60], dev[:20]) if args.quick else (train[:4000], dev[:500])
    words = numbered([w for s in train for w, _ in s] + [UNKNOWN] * 5, least=5)
    tags = numbered(tag for s in train for _, tag in s)
    print(f"{len(train)} sentences to train, {len(dev)} to test, {len(tags)} tags")
    model = dy.ParameterCollection()
    tagger = Tagger(model, words, tags)
    trainer = dy.AdamTrainer(model)
    count = sum(map(len, train))
    for epoch in range(1, args.epochs + 1):
        total, start = 0.0, time.perf_counter()
        shuffled = random.sample(train, len(train))
        for sentence in tqdm(shuffled, f"epoch {epoch}", leave=False):
            dy.renew_cg()
            loss = tagger.loss(sentence)
            total += loss.value()
            loss.backward()
            trainer.update()
        speed = count / (time.perf_counter() - start)
        print(f"epoch {epoch}: loss {total / count:.3f} a word, {speed:.0f} words/s")
    right = 0
    for sentence in tqdm(dev, "dev", leave=False):
        dy.renew_cg()
        best = [int(s.argmax()) for s in dy.npvalues(tagger.scores(sentence))]
        pairs = zip(best, sentence, strict=True)
        right += sum(b == tags.get(tag) for b, (_, tag) in pairs)
    counts = collections.Counter(tag for s in dev for _, tag in s)
    most, all_words = max(counts.values()), counts.total()
    print(f"XLA compilations: {dy.stats().compilations}")
    print(f"right: {right / all_words:.1%} (most frequent tag: {most / all_words:.1%})")


if __name__ == "__main__":
    main()
