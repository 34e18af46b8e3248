"""What the tasks read: sentences, tagged sentences and trees, and the units of work."""

import collections
import dataclasses
import itertools
import pathlib
import random
import re
import sysconfig
import tokenize

UNKNOWN = "<unk>"
BOUNDARY = "<s>"
RARE = 5  # words seen less often are unknown
SENTIMENTS = 5


class Tree:
    """A labelled binary tree: a leaf has a word, an inner node two children."""

    __slots__ = ("children", "label", "word")

    def __init__(self, label, word=None, children=()):
        self.label, self.word, self.children = label, word, children

    def words(self):
        """The words, from left to right."""
        found, rest = [], [self]
        while rest:
            tree = rest.pop()
            if tree.word is None:
                rest += reversed(tree.children)
            else:
                found.append(tree.word)
        return found


@dataclasses.dataclass
class Text:
    """Sentences for a language model: numbers of words, `BOUNDARY` (0) last."""

    words: dict
    sentences: list


@dataclasses.dataclass
class Tagged:
    """Sentences of (word, tag), and numbers for words, tags and characters.

    `rare` words have a row too, as in the paper's benchmark, but no one reads it.
    """

    words: dict
    rare: set
    tags: dict
    characters: dict
    sentences: list


@dataclasses.dataclass
class Trees:
    """Trees, and numbers for their frequent words."""

    words: dict
    trees: list


def lines_of(args, *path):
    """The lines of a file of the data, as many as ``--limit`` allows."""
    with args.data.joinpath(*path).open(encoding="utf-8") as file:
        return [line.strip() for line in itertools.islice(file, args.limit)]


def standard_library(limit):
    """Lines of Python's own source: lists of (token, class), for want of real data."""
    found = []
    for path in sorted(pathlib.Path(sysconfig.get_paths()["stdlib"]).glob("[a-l]*.py")):
        line = []
        with tokenize.open(path) as file:
            for token in tokenize.generate_tokens(file.readline):
                if token.string.strip() and token.type != tokenize.COMMENT:
                    word = re.sub(r"\s", "_", token.string[:20])
                    line.append((word, tokenize.tok_name[token.type]))
                elif token.type == tokenize.NEWLINE:
                    found += [line] if 3 <= len(line) <= 40 else []
                    line = []
        if limit and len(found) >= limit:
            break
    return found[: limit or 4000]


def numbered(names, *first, least=1):
    """Numbers for the names that occur often enough, after those in `first`."""
    counts = collections.Counter(names)
    often = sorted(n for n, k in counts.items() if k >= least and n not in first)
    return {name: k for k, name in enumerate([*first, *often])}


def read_text(args):
    """Penn Treebank text, or source code."""
    if args.data:
        sentences = [line.split() for line in lines_of(args, "text", "train.txt")]
    else:
        sentences = [[w for w, _ in line] for line in standard_library(args.limit)]
    words = numbered(itertools.chain(*sentences), BOUNDARY)
    return Text(words, [[*map(words.get, s), 0] for s in sentences])


def read_tagged(args):
    """Named entities of WikiNER, or classes of tokens."""
    if args.data:
        lines = lines_of(args, "wikiner", "train.txt")
        sentences = [[tuple(w.rsplit("|", 1)) for w in line.split()] for line in lines]
        sentences = [s for s in sentences if s]
    else:
        sentences = standard_library(args.limit)
    tokens = [word for s in sentences for word, _ in s]
    counts = collections.Counter(tokens)
    return Tagged(
        words=numbered(tokens, UNKNOWN),
        rare={word for word, count in counts.items() if count < RARE},
        tags=numbered(tag for s in sentences for _, tag in s),
        characters=numbered(itertools.chain(*tokens), BOUNDARY),
        sentences=sentences,
    )


_PART = re.compile(r"\((\d+) (?:([^ ()]+)\))?|\)")  # a leaf, or a tree's start or end


def from_sexpr(line):
    """A tree of the Stanford Sentiment Treebank: ``(3 (2 It) (4 works))``."""
    found, around = [], []  # trees side by side; of each around them, what was before
    for label, word in _PART.findall(line):
        if word:
            found.append(Tree(int(label), word))
        elif label:
            around.append((found, int(label)))
            found = []
        else:
            children, (found, label) = tuple(found), around.pop()
            found.append(Tree(label, None, children))
    return found[0]


def any_tree(line, rng):
    """A random binary tree over a line of tokens, labelled by their classes."""
    label = sum(len(kind) for _, kind in line) % SENTIMENTS
    if len(line) == 1:
        return Tree(label, line[0][0])
    middle = rng.randrange(1, len(line))
    return Tree(
        label, None, (any_tree(line[:middle], rng), any_tree(line[middle:], rng))
    )


def read_trees(args):
    """Trees of sentiments, or random ones over source code."""
    if args.data:
        trees = [from_sexpr(line) for line in lines_of(args, "sst", "train.txt")]
    else:
        rng = random.Random(args.seed)
        trees = [any_tree(line, rng) for line in standard_library(args.limit)]
    words = numbered((w for t in trees for w in t.words()), UNKNOWN, least=RARE)
    return Trees(words, trees)


# Units: what one update is made from


@dataclasses.dataclass
class Unit:
    """What goes into one graph: `items` are what speed is counted in."""

    content: object
    sentences: int
    items: int


def sentence_units(tagged):
    """One sentence a graph, counted in words."""
    return [Unit(s, 1, len(s)) for s in tagged.sentences]


def minibatch_units(text, size):
    """Sentences of about the same length together, counted in words; longest first."""
    ordered = sorted(text.sentences, key=len, reverse=True)
    parts = [ordered[k : k + size] for k in range(0, len(ordered), size)]
    return [Unit(part, len(part), sum(map(len, part))) for part in parts]


def pair_units(text, words, size, longest=50):
    """Pairs of a sentence and the next, in groups, counted in words of the targets.

    All but the most frequent words are word 0.
    """
    counts = collections.Counter(itertools.chain(*text.sentences))
    often = {w: k + 1 for k, (w, _) in enumerate(counts.most_common(words - 1))}
    sentences = [[often.get(w, 0) for w in s] for s in text.sentences]
    fitting = [s for s in sentences if 3 <= len(s) <= longest]
    pairs = list(itertools.pairwise(fitting))
    parts = [pairs[k : k + size] for k in range(0, len(pairs), size)]
    return [Unit(p, len(p), sum(len(target) for _, target in p)) for p in parts]


def tree_units(trees, size):
    """Trees in groups, counted in trees."""
    parts = [trees.trees[k : k + size] for k in range(0, len(trees.trees), size)]
    return [Unit(part, len(part), len(part)) for part in parts]


# The timed loop
