"""Training with any optax chain, against plain SGD on the same task.

The task is made up: an LSTM reads a row of letters and is to name the first one, which
it has to keep while all others pass. `OptaxTrainer` is given Adam with clipping and a
rate that warms up and then falls like a cosine; the other run is `SimpleSGDTrainer`.

    python examples/optax_schedule.py [--updates N] [--quick] [--plot FILE]
"""

import argparse
import pathlib
import random

import optax
from progress import trange

import dynetjax as dy

LETTERS, LENGTH, BATCH = 8, 12, 32


def rows(rng):
    """A batch: for every position, the letter of each row."""
    return [[rng.randrange(LETTERS) for _ in range(BATCH)] for _ in range(LENGTH)]


class Network:
    """Embeddings, an LSTM, and scores of the letters."""

    def __init__(self, model, size=32):
        self.letters = model.add_lookup_parameters((LETTERS, size))
        self.lstm = dy.VanillaLSTMBuilder(1, size, size, model)
        self.out = model.add_parameters((LETTERS, size))

    def loss(self, batch):
        """The average negative log likelihood of the first letters."""
        xs = [dy.lookup_batch(self.letters, letters) for letters in batch]
        last = self.lstm.initial_state().transduce(xs)[-1]
        return dy.mean_batches(dy.pickneglogsoftmax_batch(self.out * last, batch[0]))


def warm_up_then_cosine(model, updates):
    """Adam, clipped by the global norm, with a rate that rises and then falls."""
    rate = optax.warmup_cosine_decay_schedule(
        init_value=0.0,
        peak_value=0.02,
        warmup_steps=updates // 10,
        decay_steps=updates,
    )
    trainer = dy.OptaxTrainer(
        model, optax.chain(optax.clip_by_global_norm(1.0), optax.adam(rate))
    )
    trainer.set_clip_threshold(0)  # the chain clips
    return trainer


def plain(model, updates):
    """DyNet's SGD with a constant rate."""
    return dy.SimpleSGDTrainer(model, learning_rate=0.5)


def train(make_trainer, updates, title):
    """The loss of every update; both runs see the same numbers and the same rows."""
    dy.reset_random_seed(1)
    rng = random.Random(1)
    model = dy.ParameterCollection()
    network = Network(model)
    trainer = make_trainer(model, updates)
    losses = []
    for _ in trange(updates, desc=title, unit="update", mininterval=0.5):
        dy.renew_cg()
        loss = network.loss(rows(rng))
        losses.append(loss.value())
        loss.backward()
        trainer.update()
    return losses


def plot(runs, path):
    """Draw the losses of all runs."""
    try:
        import matplotlib
    except ImportError:
        raise SystemExit("--plot needs matplotlib: pip install matplotlib") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    for name, losses in runs.items():
        pyplot.plot(losses, label=name)
    pyplot.xlabel("update")
    pyplot.ylabel("loss")
    pyplot.legend()
    pyplot.savefig(path)


def main():
    """Train twice, and print both losses at the end."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--updates", type=int, default=600)
    parser.add_argument("--quick", action="store_true", help="a few seconds only")
    parser.add_argument("--plot", type=pathlib.Path, metavar="FILE", help="a picture")
    args = parser.parse_args()
    updates = 60 if args.quick else args.updates
    random.seed(1)
    runs = {
        "optax: clip, Adam, warm-up, cosine": train(
            warm_up_then_cosine, updates, "optax"
        ),
        "SimpleSGDTrainer": train(plain, updates, "SGD"),
    }
    if args.plot:
        plot(runs, args.plot)
    for name, losses in runs.items():
        last = losses[-max(1, updates // 10) :]
        print(f"{name}: loss {losses[0]:.3f} -> {sum(last) / len(last):.3f}")
    stats = dy.stats()
    print(f"XLA compilations: {stats.compilations} ({stats.loads} read from its cache)")


if __name__ == "__main__":
    main()
