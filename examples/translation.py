"""Encoder and decoder with attention: dates in words into dates in numbers.

An LSTM in each direction reads "Thursday, 12 March 1987" letter by letter, and another
writes "1987-03-12", looking at each step at the letters that matter (Luong et al. 2015,
arXiv:1508.04025). The program makes up the dates; ``--plot FILE`` draws where it looks.

    python examples/translation.py [--epochs N] [--quick] [--plot FILE]
"""

import argparse
import datetime
import random

from progress import tqdm

import dynetjax as dy

END = "\n"
FORMS = (
    *("{d} {t:%B %Y}", "{t:%B} {d}, {t:%Y}", "{t:%A}, {d} {t:%B %Y}"),
    *("{t:%A}, {t:%d/%m/%Y}", "{t:%b} {d} '{t:%y}", "{t:%a}, {d}.{t.month}.{t:%Y}"),
)


def date_pair():
    """A date as people write it, and as the standard does."""
    date = datetime.date(1970, 1, 1) + datetime.timedelta(random.randrange(25_000))
    return random.choice(FORMS).format(d=date.day, t=date), date.isoformat()


class Translator:
    """An encoder of letters, and a decoder that attends to them."""

    def __init__(self, model, letters, size=64):
        self.letters = letters
        self.numbers = {letter: k for k, letter in enumerate(letters)}
        self.read = model.add_lookup_parameters((len(letters), size))
        self.written = model.add_lookup_parameters((len(letters), size))
        self.forward = dy.VanillaLSTMBuilder(1, size, size, model)
        self.backward = dy.VanillaLSTMBuilder(1, size, size, model)
        self.decoder = dy.VanillaLSTMBuilder(1, size, size, model)
        self.query = model.add_parameters((2 * size, size))
        self.out = model.add_parameters((len(letters), 3 * size))

    def encode(self, text):
        """A matrix with a column for each letter."""
        xs = [self.read[self.numbers.get(c, 0)] for c in text]
        forth = self.forward.initial_state().transduce(xs)
        back = self.backward.initial_state().transduce(xs[::-1])[::-1]
        both = zip(forth, back, strict=True)
        return dy.concatenate_cols([dy.concatenate([f, b]) for f, b in both])

    def step(self, state, last, encoded):
        """After one more letter: the state, where it looks, and scores of the next."""
        state = state.add_input(self.written[self.numbers[last]])
        weights = dy.softmax(dy.transpose(encoded) * (self.query * state.output()))
        scores = self.out * dy.concatenate([state.output(), encoded * weights])
        return state, weights, scores

    def loss(self, source, target):
        """Negative log likelihood of a translation."""
        encoded = self.encode(source)
        losses, state = [], self.decoder.initial_state()
        for last, letter in zip(END + target, target + END, strict=True):
            state, _, scores = self.step(state, last, encoded)
            losses.append(dy.pickneglogsoftmax(scores, self.numbers[letter]))
        return dy.esum(losses)

    def translate(self, source, longest=12):
        """The likeliest letters, one by one, and for each how much it looks where."""
        encoded = self.encode(source)
        state, found, rows = self.decoder.initial_state(), END, []
        while len(found) <= longest:
            state, weights, scores = self.step(state, found[-1], encoded)
            letter = self.letters[int(scores.npvalue().argmax())]
            if letter == END:
                break
            found += letter
            rows.append(weights.npvalue())
        return found[1:], rows


def train_epoch(network, trainer, pairs, title):
    """One pass, sixteen pairs an update."""
    progress = tqdm(range(0, len(pairs), 16), desc=title, unit="batch", mininterval=0.5)
    for k in progress:
        dy.renew_cg()
        loss = dy.average([network.loss(*pair) for pair in pairs[k : k + 16]])
        progress.set_postfix(loss=f"{loss.value():.2f}", refresh=False)
        loss.backward()
        trainer.update()


def plot(network, pairs, file):
    """Draws where the decoder looked: a row for each letter written."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise SystemExit("--plot needs matplotlib: pip install matplotlib") from None
    figure = Figure(figsize=(7, 4 * len(pairs)), layout="constrained")
    for axes, (source, _) in zip(figure.subplots(len(pairs)), pairs, strict=True):
        dy.renew_cg()
        found, rows = network.translate(source)
        axes.imshow(rows, cmap="Blues", vmin=0, vmax=1)
        axes.set_xticks(range(len(source)), list(source))
        axes.set_yticks(range(len(found)), list(found))
    figure.savefig(file)


def main():
    """Train, and print how many dates come out right."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument(
        "--plot", metavar="FILE", help="draw attention, as .png or .svg"
    )
    parser.add_argument("--quick", action="store_true", help="a few seconds only")
    args = parser.parse_args()
    dy.reset_random_seed(1)
    random.seed(1)
    pairs = [date_pair() for _ in range(4000)]
    if args.quick:  # lengths that are alike need fewer compilations
        pairs, args.epochs = [p for p in pairs if 25 <= len(p[0]) <= 32][:100], 1
    dev, train = pairs[: len(pairs) // 20], pairs[len(pairs) // 20 :]
    letters = [END, *sorted({c for pair in train for c in "".join(pair)})]
    model = dy.ParameterCollection()
    network = Translator(model, letters)
    trainer = dy.AdamTrainer(model, 0.002)
    for epoch in range(1, args.epochs + 1):
        train_epoch(network, trainer, train, f"epoch {epoch}")
    right, known = 0, dict(train)
    for k, (source, target) in enumerate(tqdm(dev, desc="dev", leave=False)):
        dy.renew_cg()
        found, _ = network.translate(source)
        right += found == target
        if k < 3:
            tqdm.write(f"{source} -> {found}")
    if args.plot:
        plot(network, dev[:3], args.plot)
    memory = sum(known.get(source) == target for source, target in dev) / len(dev)
    stats = dy.stats()
    print(
        f"translated right: {right / len(dev):.1%} (memory of training: {memory:.1%})"
    )
    print(f"XLA compilations: {stats.compilations} ({stats.loads} read from its cache)")


if __name__ == "__main__":
    main()
