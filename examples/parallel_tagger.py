"""The tagger of bilstm_tagger.py, trained by several processes.

Each has the model in shared memory: it computes the gradient of a sentence, and changes
the parameters by it while others compute theirs. With ``--synchronous`` they wait for
one another, and go by the mean of their gradients.

    python examples/parallel_tagger.py [--processes N] [--synchronous] [--quick]
"""

import argparse
import random

from bilstm_tagger import UNKNOWN, Tagger, numbered, standard_library

import dynetjax as dy


class Right:
    """How many words of a sentence get the right tag."""

    def __init__(self, tagger):
        self.tagger = tagger

    def __call__(self, sentence):
        dy.renew_cg()
        scores = dy.npvalues(self.tagger.scores(sentence))
        tags = [self.tagger.tags.get(tag) for _, tag in sentence]
        best = [int(score.argmax()) for score in scores]
        return sum(a == b for a, b in zip(best, tags, strict=True))


def tell(report):
    """A line an epoch."""
    speed = (report.epoch + 1) * report.seen / report.seconds
    print(
        f"epoch {report.epoch + 1}: loss {report.loss:.2f} a sentence, held out"
        f" {report.dev_loss:.2f}, {speed:.0f} sentences/s"
    )


def main():
    """Train, and print losses, speed, accuracy and the number of compilations."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--synchronous", action="store_true")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="a few seconds only")
    args = parser.parse_args()
    dy.reset_random_seed(1)
    random.seed(1)
    train, dev = standard_library()
    random.shuffle(train)
    train, dev = (train[:60], dev[:20]) if args.quick else (train[:4000], dev[:500])
    words = numbered([w for s in train for w, _ in s] + [UNKNOWN] * 5, least=5)
    tags = numbered(tag for s in train for _, tag in s)
    model = dy.ParameterCollection()
    tagger = Tagger(model, words, tags)
    dy.parallel.train(
        tagger.loss,
        train,
        dev,
        trainer=dy.AdamTrainer(model),
        processes=args.processes,
        epochs=args.epochs,
        report=tell,
        synchronous=args.synchronous,
        seed=1,
    )
    right = sum(dy.parallel.map(Right(tagger), dev, processes=args.processes))
    print(f"XLA compilations: {dy.stats().compilations}")
    print(f"right: {right / sum(map(len, dev)):.1%} of {len(dev)} sentences' words")


if __name__ == "__main__":
    main()
