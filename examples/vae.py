"""Variational autoencoder of small pictures (Kingma & Welling 2014, arXiv:1312.6114).

The pictures are made up: a box each, somewhere, of some size, with stray pixels.
The encoder gives mean and variance of a Gaussian for each picture; `dy.random_normal`
draws the noise in the graph, and the decoder gives a probability for every pixel. What
is maximised is the evidence lower bound, over minibatches.

    python examples/vae.py [--epochs N] [--quick] [--plot FILE]
"""

import argparse
import pathlib
import random

import numpy as np
from progress import tqdm

import dynetjax as dy

SIDE, BATCH = 12, 64
PIXELS = SIDE * SIDE


def pictures(count):
    """A matrix of zeros and ones, with a column for each picture."""
    columns = np.zeros((count, SIDE, SIDE), np.float32)
    for picture in columns:
        top, left = random.randrange(SIDE - 4), random.randrange(SIDE - 4)
        bottom, right = random.randint(top + 3, SIDE), random.randint(left + 3, SIDE)
        picture[top:bottom, left:right] = 1
        for _ in range(random.randrange(3)):
            picture[random.randrange(SIDE), random.randrange(SIDE)] = 1
    return columns.reshape(count, PIXELS).T


class Dense:
    """An affine layer."""

    def __init__(self, model, inputs, outputs):
        self.W = model.add_parameters((outputs, inputs))
        self.b = model.add_parameters(outputs, init=0)

    def __call__(self, x):
        return dy.affine_transform([self.b, self.W, x])


class Autoencoder:
    """Encoder and decoder with a hidden layer each."""

    def __init__(self, model, hidden=200, latent=12):
        self.latent = latent
        self.read = Dense(model, PIXELS, hidden)
        self.mean = Dense(model, hidden, latent)
        self.log_variance = Dense(model, hidden, latent)
        self.hidden = Dense(model, latent, hidden)
        self.pixels = Dense(model, hidden, PIXELS)

    def decode(self, z):
        """Scores of the pixels: logits of their probabilities."""
        return self.pixels(dy.rectify(self.hidden(z)))

    def bound(self, batch):
        """The lower bound of a picture's log-likelihood, on average over a batch."""
        x = dy.inputTensor(batch, batched=True)
        h = dy.rectify(self.read(x))
        mean, log_variance = self.mean(h), self.log_variance(h)
        noise = dy.random_normal(self.latent, batch_size=batch.shape[1])
        scores = self.decode(mean + dy.cmult(dy.exp(0.5 * log_variance), noise))
        # A pixel's score has the sign of its value where the picture is right.
        likelihood = dy.sum_elems(dy.log_sigmoid(dy.cmult(2 * x - 1, scores)))
        divergence = dy.square(mean) + dy.exp(log_variance) - log_variance - 1
        return dy.mean_batches(likelihood - 0.5 * dy.sum_elems(divergence))

    def samples(self, count):
        """Probabilities of pixels of new pictures, ``(count, SIDE, SIDE)``."""
        dy.renew_cg()
        z = dy.random_normal(self.latent, batch_size=count)
        drawn = dy.logistic(self.decode(z)).npvalue()
        return drawn.T.reshape(count, SIDE, SIDE)


def train_epoch(network, trainer, data, title):
    """One pass over the pictures, in another order each time."""
    order = np.array(random.sample(range(data.shape[1]), data.shape[1]))
    batches = np.array_split(order, max(1, len(order) // BATCH))
    for chosen in tqdm(batches, desc=title, unit="batch", mininterval=0.5):
        dy.renew_cg()
        loss = -network.bound(data[:, chosen])
        loss.backward()
        trainer.update()


def pixel_by_pixel(train, test):
    """Log-likelihood of a picture if pixels did not depend on each other."""
    p = (train.sum(1, keepdims=True) + 1) / (train.shape[1] + 2)
    return (test * np.log(p) + (1 - test) * np.log(1 - p)).sum(0).mean()


def plot(samples, path):
    """Draw pictures in rows of eight."""
    try:
        import matplotlib
    except ImportError:
        raise SystemExit("--plot needs matplotlib: pip install matplotlib") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    _, axes = pyplot.subplots(len(samples) // 8, 8, figsize=(8, len(samples) // 8))
    for axis, sample in zip(axes.flat, samples, strict=True):
        axis.imshow(sample, cmap="gray_r", vmin=0, vmax=1)
        axis.axis("off")
    pyplot.savefig(path)


def main():
    """Train, and print the bound before and after."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--quick", action="store_true", help="a few seconds only")
    parser.add_argument("--plot", type=pathlib.Path, metavar="FILE", help="samples")
    args = parser.parse_args()
    dy.reset_random_seed(1)
    random.seed(1)
    train, test = pictures(640 if args.quick else 6400), pictures(512)
    epochs = 3 if args.quick else args.epochs
    model = dy.ParameterCollection()
    network = Autoencoder(model)
    trainer = dy.AdamTrainer(model, alpha=0.002)
    before = network.bound(test).value()
    for epoch in range(1, epochs + 1):
        train_epoch(network, trainer, train, f"epoch {epoch}")
    dy.renew_cg()
    after = network.bound(test).value()
    if args.plot:
        plot(network.samples(32), args.plot)
    for rows in zip(*network.samples(4), strict=True):
        print("   ".join("".join(".#"[int(p > 0.5)] for p in row) for row in rows))
    baseline = pixel_by_pixel(train, test)
    print(f"bound of other pictures, in nats: {before:.1f} -> {after:.1f}", end=" ")
    print(f"(pixels by themselves: {baseline:.1f})")
    stats = dy.stats()
    print(f"XLA compilations: {stats.compilations} ({stats.loads} read from its cache)")


if __name__ == "__main__":
    main()
