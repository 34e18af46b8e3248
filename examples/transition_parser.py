"""Greedy transition parser over BiLSTM features: how does a line of code hang together?

The lines come with every Python: the standard library's own source. `ast` says which
tokens belong to which part of an expression; the parser sees spellings only, and joins
the tokens by shifts and arcs, each chosen by a network that looks at the stack
(Kiperwasser & Goldberg 2016, arXiv:1603.04351).

    python examples/transition_parser.py [--epochs N] [--quick]
"""

import argparse
import ast
import collections
import io
import pathlib
import random
import sysconfig
import tokenize
import warnings

from progress import tqdm

import dynetjax as dy

SHIFT, LEFT, RIGHT = range(3)
END, UNKNOWN = "</s>", "<unk>"


def heads_of(tree, tokens):
    """The token that each token hangs on in the syntax tree, None for the root."""
    maps: list[dict] = [{}, {}, {}]
    owner, above, top = maps  # the part that has a token, a part's parent and top token
    for node in ast.walk(tree):  # from the root down, so that the innermost part stays
        above.update(dict.fromkeys(ast.iter_child_nodes(node), node))
        first, end = (getattr(node, at, 0) for at in ("col_offset", "end_col_offset"))
        owner |= {k: node for k, t in enumerate(tokens) if first <= t.start[1] < end}
    for k in sorted(owner, key=lambda k: tokens[k].string in "()"):
        top.setdefault(owner[k], k)  # a part's first token stands for it
    heads = []
    for k in range(len(tokens)):
        part = owner.get(k)
        while part is not None and top.get(part, k) == k:
            part = above.get(part)
        heads.append(top.get(part))
    return heads


def parsed(line):
    """(spellings, heads) of a line; None if it is no statement, or another kind."""
    try:
        tree = ast.parse(line)
    except SyntaxError:
        return None
    tokens = list(tokenize.generate_tokens(io.StringIO(line).readline))[:-2]
    if not 4 <= len(tokens) <= 20 or "f'" in line or 'f"' in line:
        return None
    heads = heads_of(tree, tokens)
    return ([t.string for t in tokens], heads) if heads.count(None) == 1 else None


def standard_library(count):
    """(train, dev) lists of parsed lines, each line once, split at random."""
    root = pathlib.Path(sysconfig.get_paths()["stdlib"])
    text = "\n".join(f.read_text("utf-8") for f in sorted(root.glob("[a-l]*.py")))
    lines = sorted({line.strip() for line in text.splitlines() if line.isascii()})
    warnings.simplefilter("ignore", SyntaxWarning)  # of lines that are half a string
    found = [pair for pair in map(parsed, random.sample(lines, 4 * count)) if pair]
    return found[count // 10 : count], found[: count // 10]


def gold_action(stack, heads, waiting):
    """What to do: join the top two once the dependant has all of its own."""
    if len(stack) > 1:
        below, top = stack[-2:]
        if heads[below] == top and not waiting[below]:
            return LEFT
        if heads[top] == below and not waiting[top]:
            return RIGHT
    return SHIFT


class Parser:
    """Scores of the next action, from the stack's top three and the next token."""

    def __init__(self, model, words, size=48):
        self.numbers = {word: k for k, word in enumerate(words)}
        self.table = model.add_lookup_parameters((len(words), size))
        self.bilstm = dy.BiRNNBuilder(1, size, 2 * size, model, dy.VanillaLSTMBuilder)
        self.hidden = model.add_parameters((size, 8 * size))
        self.out = model.add_parameters((3, size))

    def parse(self, words, gold=None):
        """The heads that the best actions lead to; or the gold heads, and losses."""
        known = [word if word in self.numbers else UNKNOWN for word in words]
        xs = [self.table[self.numbers[word]] for word in [*known, END]]
        vectors = self.bilstm.transduce(xs)  # the last one where a place is empty
        stack: list[int] = []
        heads: dict[int, int] = {}
        first, losses, waiting = 0, [], collections.Counter(gold)
        while first < len(words) or len(stack) > 1:
            seen = [vectors[k] for k in [*[-1, -1, -1, *stack][-3:], first]]
            scores = self.out * dy.tanh(self.hidden * dy.concatenate(seen))
            if gold:
                action = gold_action(stack, gold, waiting)
                losses.append(dy.pickneglogsoftmax(scores, action))
            else:
                possible = range(first == len(words), 3 if len(stack) > 1 else 1)
                action = max(possible, key=scores.npvalue().__getitem__)
            if action == SHIFT:
                stack, first = [*stack, first], first + 1
            else:
                dependant = stack.pop(-2 if action == LEFT else -1)
                heads[dependant] = stack[-1]
                waiting[stack[-1]] -= 1
        return [heads.get(k) for k in range(len(words))], losses


def main():
    """Train, and print how many tokens find their heads."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="a few seconds only")
    args = parser.parse_args()
    dy.reset_random_seed(1)
    random.seed(1)
    train, dev = standard_library(100 if args.quick else 3000)
    counts = collections.Counter(word for words, _ in train for word in words)
    words = [END, UNKNOWN, *sorted(word for word, n in counts.items() if n >= 3)]
    model = dy.ParameterCollection()
    network, trainer = Parser(model, words), dy.AdamTrainer(model, 0.005)
    for epoch in range(1, args.epochs + 1):
        for k in tqdm(range(0, len(train), 8), desc=f"epoch {epoch}", unit="batch"):
            dy.renew_cg()
            losses = [x for line in train[k : k + 8] for x in network.parse(*line)[1]]
            dy.average(losses).backward()
            trainer.update()
    right, places = 0, collections.Counter[int | None]()
    for spelled, heads in tqdm(dev, desc="test", unit="line", leave=False):
        dy.renew_cg()
        found, _ = network.parse(spelled)
        right += sum(f == h for f, h in zip(found, heads, strict=True))
        places.update(None if h is None else h - k for k, h in enumerate(heads))
    stats, base = dy.stats(), max(places.values()) / places.total()
    print(f"heads: {right / places.total():.1%} (most frequent distance: {base:.1%})")
    print(f"XLA compilations: {stats.compilations} ({stats.loads} read from its cache)")


if __name__ == "__main__":
    main()
