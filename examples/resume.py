"""Training that is stopped in the middle, and goes on as if nothing had been.

A small tagger with dropout learns, by Adam, which letters of a made-up string stand
between brackets. One run does all updates; another is stopped half-way, saved with
`save_checkpoint` and taken up again with a new model and trainer. Under
``init(deterministic=True)`` both end with the same numbers, bit by bit. A third run
goes on from the parameters alone, as `save` and `populate` keep them, and ends
elsewhere.

    python examples/resume.py [--updates N] [--quick] [--checkpoint FILE]
"""

import argparse
import pathlib
import random
import tempfile
from typing import Any

import numpy as np
from progress import trange

import dynetjax as dy

SYMBOLS = "abcde()"


def example(step):
    """A string and whether each symbol is inside of brackets, the same for a step."""
    rng = random.Random(step)
    text = "".join(rng.choice(SYMBOLS) for _ in range(rng.randint(4, 12)))
    inside, labels = False, []
    for symbol in text:
        inside = symbol == "(" or (inside and symbol != ")")
        labels.append(int(inside))
    return [SYMBOLS.index(symbol) for symbol in text], labels


class Training:
    """A model with its trainer, and all that updates change."""

    def __init__(self, size=24):
        dy.reset_random_seed(1)
        self.model = dy.ParameterCollection()
        self.symbols = self.model.add_lookup_parameters((len(SYMBOLS), size))
        self.lstm = dy.VanillaLSTMBuilder(1, size, size, self.model)
        self.lstm.set_dropout(0.2)
        self.out = self.model.add_parameters((2, size))
        self.trainer = dy.AdamTrainer(self.model, 0.005)

    def run(self, steps, title):
        """Do these updates; the average loss a symbol in the last ten."""
        losses = []
        for step in trange(
            steps.start, steps.stop, desc=title, unit="update", mininterval=0.5
        ):
            dy.renew_cg()
            text, labels = example(step)
            states = self.lstm.initial_state().transduce(
                [self.symbols[symbol] for symbol in text]
            )
            loss = dy.average(
                [
                    dy.pickneglogsoftmax(self.out * state, label)
                    for state, label in zip(states, labels, strict=True)
                ]
            )
            losses.append(loss.value())
            loss.backward()
            self.trainer.update()
        return sum(losses[-10:]) / len(losses[-10:])

    def numbers(self):
        """All parameters and tables, one after the other."""
        parts: list[Any] = [*self.model.parameters_list()]
        parts += self.model.lookup_parameters_list()
        return np.concatenate([part.as_array().ravel() for part in parts])


def resumed(checkpoint, updates):
    """A new training that goes on from a checkpoint."""
    training = Training()
    done = dy.load_checkpoint(checkpoint, training.model, training.trainer)
    loss = training.run(range(done, updates), "resumed")
    return training, loss


def from_parameters(saved, done, updates):
    """A new training that has only the parameters of the one that was stopped."""
    training = Training()
    training.model.populate(saved)
    loss = training.run(range(done, updates), "parameters only")
    return training, loss


def compare(name, loss, training, truth):
    """Print how the numbers of a run differ from those of the whole run."""
    mine, theirs = training.numbers().view(np.int32), truth.view(np.int32)
    print(f"{name}: loss {loss:.6f}, {(mine != theirs).sum()} of {mine.size} differ")


def compare_all(folder, args):
    """Train without a stop, with one, and from the parameters alone."""
    half = args.updates // 2
    whole = Training()
    loss = whole.run(range(args.updates), "whole")
    stopped = Training()
    stopped.run(range(half), "stopped")
    checkpoint, saved = args.checkpoint or folder / "checkpoint", folder / "model"
    dy.save_checkpoint(checkpoint, stopped.model, stopped.trainer, step=half)
    stopped.model.save(str(saved))
    del stopped
    second, second_loss = resumed(checkpoint, args.updates)
    third, third_loss = from_parameters(str(saved), half, args.updates)
    print(f"not stopped: loss {loss:.6f}")
    compare(f"resumed after {half} updates", second_loss, second, whole.numbers())
    compare("parameters only", third_loss, third, whole.numbers())
    same = np.array_equal(
        second.numbers().view(np.int32), whole.numbers().view(np.int32)
    )
    print(f"equal bit by bit: {same}")
    return same


def main():
    """Compare the runs, and print the number of compilations."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--updates", type=int, default=600)
    parser.add_argument("--quick", action="store_true", help="a few seconds only")
    parser.add_argument("--checkpoint", type=pathlib.Path, metavar="FILE")
    args = parser.parse_args()
    if args.quick:
        args.updates = 60
    dy.init(deterministic=True)
    random.seed(1)
    with tempfile.TemporaryDirectory() as folder:
        same = compare_all(pathlib.Path(folder), args)
    stats = dy.stats()
    print(f"XLA compilations: {stats.compilations} ({stats.loads} read from its cache)")
    if not same:
        raise SystemExit("the resumed run is not the same")


if __name__ == "__main__":
    main()
