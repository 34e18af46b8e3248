"""The trainers' formulas in NumPy, one array at a time."""

import numpy as np


class Sgd:
    """p -= lr * g"""

    def __init__(self, shape, rate=0.1):
        self.rate = rate

    def direction(self, g, rows, t):
        return self.rate * g


class Adam:
    """Kingma & Ba, with eps outside the root and not corrected."""

    def __init__(self, shape, rate=0.001, b1=0.9, b2=0.999, eps=1e-8):
        self.rate, self.b1, self.b2, self.eps = rate, b1, b2, eps
        self.m, self.v = np.zeros(shape), np.zeros(shape)

    def direction(self, g, rows, t):
        self.m[rows] = self.b1 * self.m[rows] + (1 - self.b1) * g
        self.v[rows] = self.b2 * self.v[rows] + (1 - self.b2) * g * g
        rate = self.rate * np.sqrt(1 - self.b2**t) / (1 - self.b1**t)
        return rate * self.m[rows] / (self.root(rows) + self.eps)

    def root(self, rows):
        return np.sqrt(self.v[rows])


class Cyclical:
    """SGD whose rate goes up and down; the first two updates have the lowest.

    A `rate` that is set stands for that of the update.
    """

    def __init__(self, shape, low=0.01, high=0.1, step_size=2000, gamma=1.0):
        self.rate, self.low, self.high = None, low, high
        self.step_size, self.gamma = step_size, gamma

    def rate_at(self, t):
        it = max(t - 2, 0)
        cycle = np.floor(1 + it / (2 * self.step_size))
        x = np.abs(it / self.step_size - 2 * cycle + 1)
        return self.low + max(0, 1 - x) * (self.high - self.low) * self.gamma**it

    def direction(self, g, rows, t):
        return (self.rate_at(t) if self.rate is None else self.rate) * g


class Momentum:
    """v = mom * v - lr * g; p += v"""

    def __init__(self, shape, rate=0.01, mom=0.9):
        self.rate, self.mom = rate, mom
        self.v = np.zeros(shape)

    def direction(self, g, rows, t):
        self.v[rows] = self.mom * self.v[rows] - self.rate * g
        return -self.v[rows]


class Adagrad:
    """eps inside the root."""

    def __init__(self, shape, rate=0.1, eps=1e-20):
        self.rate, self.eps = rate, eps
        self.squares = np.zeros(shape)

    def direction(self, g, rows, t):
        self.squares[rows] += g * g
        return self.rate * g / np.sqrt(self.squares[rows] + self.eps)


class Adadelta:
    """eps inside both roots; no rate."""

    def __init__(self, shape, eps=1e-6, rho=0.95):
        self.eps, self.rho = eps, rho
        self.h, self.d = np.zeros(shape), np.zeros(shape)

    def direction(self, g, rows, t):
        self.h[rows] = self.rho * self.h[rows] + (1 - self.rho) * g * g
        u = g * np.sqrt(self.d[rows] + self.eps) / np.sqrt(self.h[rows] + self.eps)
        self.d[rows] = self.rho * self.d[rows] + (1 - self.rho) * u * u
        return u


class RmsProp:
    """eps inside the root."""

    def __init__(self, shape, rate=0.001, eps=1e-8, rho=0.9):
        self.rate, self.eps, self.rho = rate, eps, rho
        self.h = np.zeros(shape)

    def direction(self, g, rows, t):
        self.h[rows] = self.rho * self.h[rows] + (1 - self.rho) * g * g
        return self.rate * g / np.sqrt(self.h[rows] + self.eps)


class Amsgrad(Adam):
    """Adam with the largest v so far, of those not corrected."""

    def __init__(self, shape, rate=0.001, b1=0.9, b2=0.999, eps=1e-8):
        super().__init__(shape, rate, b1, b2, eps)
        self.vhat = np.zeros(shape)

    def root(self, rows):
        self.vhat[rows] = np.maximum(self.vhat[rows], self.v[rows])
        return np.sqrt(self.vhat[rows])


class Eg:
    """p <- softmax(log p + h), with h = mom * h - lr * g.

    It needs the `values`, and to know whether every row counts `by_row`.
    """

    def __init__(self, shape, rate=0.1, mom=0.9):
        self.rate, self.mom = rate, mom
        self.h = np.zeros(shape)
        self.values, self.by_row = None, False

    def direction(self, g, rows, t):
        self.h[rows] = self.mom * self.h[rows] - self.rate * g
        old = self.values[rows]
        new = old * np.exp(self.h[rows])
        total = new.sum(axis=-1, keepdims=True) if self.by_row else new.sum()
        return old - new / total


def clip_factor(gradients, threshold):
    """What every gradient is multiplied by."""
    norm = np.sqrt(sum((g * g).sum() for g in gradients))
    return threshold / norm if 0 < threshold < norm else 1.0
