"""A tagger that spells rare words: character LSTMs in the place of an unknown word.

The task is like that of bilstm_tagger.py: lines of the standard library's source, and
for each token whether it is a keyword, an operator, a number, a string, or what kind of
name. Frequent words have vectors of their own; two LSTMs read the characters of all
others (Plank et al. 2016). So the graph of a line has as many more LSTMs as the line
has rare words. The same tagger is trained with one vector for all rare words, too. With
``--data DIR`` both learn from train.txt and dev.txt, lines of ``word|TAG``.

    python examples/tagger_with_characters.py [--lines N] [--quick] [--data DIR]
"""

import argparse
import collections
import io
import keyword
import pathlib
import random
import sysconfig
import tokenize

from progress import tqdm

import dynetjax as dy

KINDS = {tokenize.NUMBER: "number", tokenize.STRING: "string", tokenize.OP: "operator"}


def token_class(token, before):
    """The class of a token after another one."""
    if token.type != tokenize.NAME:
        return KINDS[token.type]
    if keyword.iskeyword(token.string):
        return "keyword"
    if before in ("def", "class"):
        return "definition"
    if token.string.isupper():
        return "constant"
    return "attribute" if before == "." else "name"


def tagged_lines(source):
    """The logical lines of a file, each a list of (word, tag)."""
    line: list[tuple[str, str]] = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.NEWLINE:
            yield line
            line = []
        elif token.type in KINDS or token.type == tokenize.NAME:
            tag = token_class(token, line[-1][0] if line else "")
            line.append((token.string[:20], tag))


def standard_library():
    """(train, dev) lists of tagged lines, split by file."""
    parts: tuple[list, list] = [], []
    files = pathlib.Path(sysconfig.get_paths()["stdlib"]).glob("[a-l]*.py")
    for k, file in enumerate(sorted(files)):
        lines = tagged_lines(file.read_text(encoding="utf-8"))
        parts[k % 5 == 2].extend(line for line in lines if 3 <= len(line) <= 30)
    return parts


def tagged_files(folder):
    """The sentences of train.txt, and those of dev.txt."""
    for name in ("train.txt", "dev.txt"):
        with open(folder / name, encoding="utf-8") as file:
            yield [[tuple(w.rsplit("|", 1)) for w in line.split()] for line in file]


class Tagger:
    """Two LSTMs over words, two over the characters of rare ones, and scores."""

    def __init__(self, words, tags, spell, size=64, char=24):
        self.words, self.tags, self.spell = words, tags, spell
        self.model = model = dy.ParameterCollection()
        self.table = model.add_lookup_parameters((len(words) + 1, size))
        self.chars = model.add_lookup_parameters((256, char))
        self.read = dy.BiRNNBuilder(1, char, size, model, dy.VanillaLSTMBuilder)
        self.context = dy.BiRNNBuilder(1, size, size, model, dy.VanillaLSTMBuilder)
        self.out = model.add_parameters((len(tags), size))

    def vector(self, word):
        """A vector of its own for a frequent word, else what the characters say."""
        if word in self.words or not self.spell:
            return self.table[self.words.get(word, len(self.words))]
        states = self.read.add_inputs([self.chars[min(ord(c), 255)] for c in word])
        return dy.concatenate([states[-1][0].output(), states[0][1].output()])

    def scores(self, sentence):
        """One vector of scores per word."""
        contexts = self.context.transduce([self.vector(word) for word, _ in sentence])
        return [self.out * context for context in contexts]

    def train(self, sentences, title):
        """One pass over the sentences."""
        trainer = dy.AdamTrainer(self.model, 0.003)
        for sentence in tqdm(sentences, desc=title, unit="line", mininterval=0.5):
            dy.renew_cg()
            pairs = zip(self.scores(sentence), sentence, strict=True)
            losses = [dy.pickneglogsoftmax(s, self.tags[tag]) for s, (_, tag) in pairs]
            dy.average(losses).backward()
            trainer.update()

    def right(self, sentences):
        """Whether each word gets its tag: of frequent words, and of rare ones."""
        found: dict[bool, list[bool]] = {False: [], True: []}
        for sentence in tqdm(sentences, desc="dev", unit="line", leave=False):
            dy.renew_cg()
            best = [int(s.argmax()) for s in dy.npvalues(self.scores(sentence))]
            for tag, (word, gold) in zip(best, sentence, strict=True):
                found[word not in self.words].append(tag == self.tags.get(gold))
        return found[False], found[True]


def main():
    """Train both taggers, and print how many words each gets right."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--lines", type=int, default=700, help="to train on")
    parser.add_argument("--quick", action="store_true", help="a few seconds only")
    parser.add_argument("--data", type=pathlib.Path, metavar="DIR")
    args = parser.parse_args()
    random.seed(1)
    train, dev = tagged_files(args.data) if args.data else standard_library()
    random.shuffle(train)
    train, dev = train[: args.lines], dev[:400]
    if args.quick:
        train, dev = ([line for line in p if len(line) < 7][:30] for p in (train, dev))
    counts = collections.Counter(word for line in train for word, _ in line)
    words = {w: k for k, w in enumerate(sorted(w for w in counts if counts[w] >= 5))}
    tags = {t: k for k, t in enumerate(sorted({t for line in train for _, t in line}))}
    print(f"{len(train)} lines to train, {len(words)} frequent words, {len(tags)} tags")
    results = {}
    for name, spell in {"characters": True, "one vector for all": False}.items():
        dy.reset_random_seed(1)
        tagger = Tagger(words, tags, spell)
        tagger.train(train, name)
        results[name] = tagger.right(dev)
    for name, (frequent, rare) in results.items():
        every, spelled = (sum(f) / len(f) for f in (frequent + rare, rare))
        print(f"rare words by {name}: {spelled:.1%} right; all words: {every:.1%}")
    stats = dy.stats()
    print(f"XLA compilations: {stats.compilations} ({stats.loads} read from its cache)")


if __name__ == "__main__":
    main()
