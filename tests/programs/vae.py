"""Variational autoencoder of small black and white pictures.

Kingma & Welling 2014, arXiv:1312.6114: the encoder gives mean and variance of a
Gaussian, a point is drawn from it by scaling and moving noise, and the decoder gives a
Bernoulli distribution for every pixel. The loss is the negative evidence lower bound.
Pictures are made up: a rectangle each, with some noise.
"""

import argparse
import random

import dynet as dy
import numpy as np

SIDE = 8
PIXELS = SIDE * SIDE


def pictures(count, rng):
    """A matrix with a column of zeros and ones for each picture."""
    columns = []
    for _ in range(count):
        top, left = rng.randrange(5), rng.randrange(5)
        height, width = rng.randint(2, SIDE - top), rng.randint(2, SIDE - left)
        picture = np.zeros((SIDE, SIDE))
        picture[top : top + height, left : left + width] = 1
        columns.append([pixel != (rng.random() < 0.02) for pixel in picture.flat])
    return np.array(columns, dtype=float).T


class Dense:
    def __init__(self, model, inputs, outputs):
        self.W = model.add_parameters((outputs, inputs))
        self.b = model.add_parameters(outputs)

    def __call__(self, x):
        return dy.affine_transform([dy.parameter(self.b), dy.parameter(self.W), x])


class VAE:
    def __init__(self, model, hidden, latent):
        self.model = model.add_subcollection("vae")
        self.latent = latent
        self.encoder = Dense(self.model, PIXELS, hidden)
        self.mean = Dense(self.model, hidden, latent)
        self.log_variance = Dense(self.model, hidden, latent)
        self.hidden = Dense(self.model, latent, hidden)
        self.pixels = Dense(self.model, hidden, PIXELS)

    def encode(self, x):
        h = dy.tanh(self.encoder(x))
        return self.mean(h), self.log_variance(h)

    def decode(self, z):
        return dy.logistic(self.pixels(dy.tanh(self.hidden(z))))

    def loss(self, batch, noise):
        """Negative lower bound of the batch's log-likelihood, per picture."""
        x = dy.inputTensor(batch, batched=True)
        mean, log_variance = self.encode(x)
        epsilon = dy.inputTensor(noise, batched=True)
        z = mean + dy.cmult(dy.exp(0.5 * log_variance), epsilon)
        y = self.decode(z)
        likelihoods = dy.cmult(x, dy.log(y + 1e-6))
        likelihoods += dy.cmult(1 - x, dy.log(1 - y + 1e-6))
        kl = 0.5 * (dy.square(mean) + dy.exp(log_variance) - log_variance - 1)
        bounds = dy.sum_elems(likelihoods) - dy.sum_elems(kl)
        return -dy.sum_batches(bounds) / batch.shape[1]


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--updates", type=int, default=50)
    arguments.add_argument("--hidden", type=int, default=32)
    arguments.add_argument("--latent", type=int, default=4)
    arguments.add_argument("--batch", type=int, default=8)
    options, _ = arguments.parse_known_args()

    model = dy.ParameterCollection()
    trainer = dy.AdamTrainer(model, alpha=0.005)
    vae = VAE(model, options.hidden, options.latent)
    rng, noise = random.Random(1), np.random.RandomState(1)
    data = pictures(160, rng)
    for update in range(options.updates):
        dy.renew_cg()
        chosen = rng.sample(range(data.shape[1]), options.batch)
        epsilon = noise.randn(options.latent, options.batch)
        loss = vae.loss(data[:, chosen], epsilon)
        print(update + 1, f"{loss.scalar_value():.6f}")
        loss.backward()
        trainer.update()

    for _ in range(2):
        dy.renew_cg()
        z = dy.inputVector(noise.randn(options.latent))
        drawn = vae.decode(z).npvalue().reshape(SIDE, SIDE)
        print("sample:")
        for row in drawn:
            print("".join("#" if pixel > 0.5 else "." for pixel in row))


if __name__ == "__main__":
    main()
