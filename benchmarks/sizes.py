"""Networks of every kind, by hidden size and sentences a graph: does each one run?

Each configuration is a process of its own: a few updates and one inference over random
sentences of different lengths. The table has a line for each: the exit status, the
seconds, and how often XLA compiled. The exit status is 1 if any process failed.

    python benchmarks/sizes.py [--networks attention,cnn] [--hidden 8,1024] [--batch 1]
"""

import argparse
import itertools
import json
import random
import subprocess
import sys
import time

HIDDEN = 8, 50, 256, 1024
BATCH = 1, 4, 16, 64
WORDS, CLASSES, MASK = 60, 12, 0
UPDATES = 3
LIMIT = 900  # seconds for one process


class Attention:
    """An encoder-decoder with additive attention, one pair of sentences at a time."""

    def __init__(self, dy, model, hidden):
        self.dy = dy
        self.table = model.add_lookup_parameters((WORDS, hidden))
        self.encoder = dy.VanillaLSTMBuilder(1, hidden, hidden, model)
        self.decoder = dy.VanillaLSTMBuilder(1, 2 * hidden, hidden, model)
        self.W_key = model.add_parameters((max(4, hidden // 2), hidden))
        self.W_query = model.add_parameters((max(4, hidden // 2), hidden))
        self.v = model.add_parameters((1, max(4, hidden // 2)))
        self.W = model.add_parameters((WORDS, 2 * hidden))

    def loss(self, words):
        """Of the same words, read backwards."""
        dy = self.dy
        states = self.encoder.initial_state().transduce([self.table[w] for w in words])
        values = dy.concatenate_cols(states)
        keys = self.W_key * values
        state, losses = self.decoder.initial_state(), []
        context, last = states[-1], MASK
        for word in reversed(words):
            state = state.add_input(dy.concatenate([self.table[last], context]))
            query = self.W_query * state.output()
            scores = self.v * dy.tanh(dy.colwise_add(keys, query))
            context = values * dy.softmax(dy.transpose(scores))
            both = dy.concatenate([state.output(), context])
            losses.append(dy.pickneglogsoftmax(self.W * both, word))
            last = word
        return dy.esum(losses)


class Tagger:
    """A bidirectional LSTM with a class for each word."""

    def __init__(self, dy, model, hidden):
        self.dy = dy
        self.table = model.add_lookup_parameters((WORDS, hidden))
        self.ahead = dy.VanillaLSTMBuilder(1, hidden, hidden, model)
        self.back = dy.VanillaLSTMBuilder(1, hidden, hidden, model)
        self.W = model.add_parameters((CLASSES, 2 * hidden))

    def states(self, words):
        """Of each word, from both sides."""
        read = [self.table[w] for w in words]
        ahead = self.ahead.initial_state().transduce(read)
        back = self.back.initial_state().transduce(read[::-1])[::-1]
        return [self.dy.concatenate([a, b]) for a, b in zip(ahead, back, strict=True)]

    def loss(self, words):
        """Of classes that follow from the words."""
        scores = [self.W * state for state in self.states(words)]
        of = self.dy.pickneglogsoftmax
        return self.dy.esum(
            [of(s, w % CLASSES) for s, w in zip(scores, words, strict=True)]
        )


class TreeLSTM:
    """A Tree-LSTM over the balanced tree of the words."""

    def __init__(self, dy, model, hidden):
        self.dy = dy
        self.table = model.add_lookup_parameters((WORDS, hidden))
        self.builder = dy.NaryTreeLSTMBuilder(2, 1, hidden, hidden, model)
        self.W = model.add_parameters((CLASSES, hidden))

    def loss(self, words):
        """Of a class for every node."""
        dy, losses = self.dy, []

        def encode(several):
            half = len(several) // 2
            children = [encode(several[:half]), encode(several[half:])] if half else []
            x = self.table[several[0] if not half else MASK]
            state = self.builder.add_input(x, children)
            label = several[0] % CLASSES
            losses.append(dy.pickneglogsoftmax(self.W * state.output(), label))
            return state

        encode(words)
        return dy.esum(losses)


class GRU:
    """A language model with two layers of GRUs and dropout."""

    def __init__(self, dy, model, hidden):
        self.dy = dy
        self.table = model.add_lookup_parameters((WORDS, hidden))
        self.builder = dy.GRUBuilder(2, hidden, hidden, model)
        self.builder.set_dropout(0.3)
        self.W = model.add_parameters((WORDS, hidden))

    def loss(self, words):
        """Of each next word."""
        read = [self.table[w] for w in words[:-1]]
        states = self.builder.initial_state().transduce(read)
        of = self.dy.pickneglogsoftmax
        return self.dy.esum(
            [of(self.W * s, w) for s, w in zip(states, words[1:], strict=True)]
        )


class CNN:
    """Windows of three words, and the largest of each feature."""

    def __init__(self, dy, model, hidden):
        self.dy = dy
        self.table = model.add_lookup_parameters((WORDS, hidden))
        self.row, self.hidden = (1, 1, hidden), hidden
        self.window = model.add_parameters((1, 3, hidden, hidden))
        self.b = model.add_parameters(hidden)
        self.W = model.add_parameters((CLASSES, hidden))

    def loss(self, words):
        """Of a class that follows from the first word."""
        dy = self.dy
        rows = dy.concatenate([dy.reshape(self.table[w], self.row) for w in words], 1)
        found = dy.conv2d_bias(rows, self.window, self.b, stride=(1, 1), is_valid=True)
        top = dy.max_dim(dy.reshape(found, (len(words) - 2, self.hidden)), 0)
        return dy.pickneglogsoftmax(self.W * dy.rectify(top), words[0] % CLASSES)


class MaskedWords(Tagger):
    """A masked language model: some words are hidden, and told from the others."""

    def __init__(self, dy, model, hidden):
        super().__init__(dy, model, hidden)
        self.W = model.add_parameters((WORDS, 2 * hidden))

    def loss(self, words):
        """Of every third word."""
        hidden = range(0, len(words), 3)
        shown = [MASK if k in hidden else w for k, w in enumerate(words)]
        states = self.states(shown)
        of = self.dy.pickneglogsoftmax
        return self.dy.esum([of(self.W * states[k], words[k]) for k in hidden])


class Biaffine(Tagger):
    """A scorer of heads: every word with every other."""

    def __init__(self, dy, model, hidden):
        super().__init__(dy, model, hidden)
        self.U = model.add_parameters((2 * hidden, 2 * hidden))

    def loss(self, words):
        """Of heads that follow from the words."""
        dy = self.dy
        states = dy.concatenate_cols(self.states(words))
        scores = dy.transpose(states) * (self.U * states)
        heads = [w % len(words) for w in words]
        columns = [dy.pick(scores, k, 1) for k in range(len(words))]
        of = dy.pickneglogsoftmax
        return dy.esum([of(c, h) for c, h in zip(columns, heads, strict=True)])


NETWORKS = {
    "attention": Attention,
    "tagger": Tagger,
    "treelstm": TreeLSTM,
    "gru": GRU,
    "cnn": CNN,
    "masked": MaskedWords,
    "biaffine": Biaffine,
}


def train(name, hidden, batch):
    """Some updates and one inference; prints a line of JSON."""
    import dynetjax as dy

    model = dy.ParameterCollection()
    network = NETWORKS[name](dy, model, hidden)
    trainer = dy.AdamTrainer(model)
    draw = random.Random(1)
    for _ in range(UPDATES):
        dy.renew_cg()
        sentences = [sentence(draw) for _ in range(batch)]
        loss = dy.esum([network.loss(words) for words in sentences])
        before = loss.value()
        loss.backward()
        trainer.update()
    dy.renew_cg()
    found = network.loss(sentence(draw)).value()
    if not (before > 0 and found > 0):
        raise ValueError(f"losses are positive: got {before} and {found}")
    print(json.dumps({"compilations": dy.stats().compilations}))


def sentence(draw):
    """Words of one sentence."""
    return [draw.randrange(1, WORDS) for _ in range(draw.randrange(4, 12))]


def numbers(text):
    """A list of numbers from the command line."""
    return [int(number) for number in text.split(",")]


def main():
    """Run every configuration, each in a process of its own."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    add = parser.add_argument
    add("--networks", default=",".join(NETWORKS))
    add("--hidden", default=HIDDEN, type=numbers)
    add("--batch", default=BATCH, type=numbers, help="sentences a graph")
    add("--one", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        name, hidden, batch = args.one
        train(name, int(hidden), int(batch))
        return
    print(f"{'network':12}{'hidden':>7}{'batch':>6}{'exit':>6}{'s':>8}{'XLA':>5}")
    several = itertools.product(args.networks.split(","), args.hidden, args.batch)
    failed = [run_one(*about) for about in several]
    sys.exit(any(failed))


def run_one(name, hidden, batch):
    """Run one configuration; returns its exit status."""
    command = [sys.executable, __file__, "--one", name, str(hidden), str(batch)]
    start = time.monotonic()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
        status, out, errors = done.returncode, done.stdout, done.stderr
    except subprocess.TimeoutExpired:
        status, out, errors = "late", "", ""
    spent = time.monotonic() - start
    compiled = "" if status else json.loads(out.splitlines()[-1])["compilations"]
    line = f"{name:12}{hidden:7}{batch:6}{status:>6}{spent:8.1f}{compiled:>5}"
    print(line, flush=True)
    if status:
        print(*[f"  {text}" for text in errors.splitlines()[-3:]], sep="\n")
    return status


if __name__ == "__main__":
    main()
