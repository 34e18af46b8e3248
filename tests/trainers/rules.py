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
        return rate * self.m[rows] / (np.sqrt(self.v[rows]) + self.eps)


def clip_factor(gradients, threshold):
    """What every gradient is multiplied by."""
    norm = np.sqrt(sum((g * g).sum() for g in gradients))
    return threshold / norm if 0 < threshold < norm else 1.0
