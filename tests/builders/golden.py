"""Parameters and inputs of the stored DyNet 2.1 numbers, and how to run them."""

import copy
import pickle

import numpy as np

import dynetjax as dy


def fill(n, shape):
    """Values of the n-th parameter: 0.5 sin(1.3 n + 0.7 k + 0.1), k by rows."""
    k = np.arange(np.prod(shape)).reshape(shape)
    return 0.5 * np.sin(1.3 * n + 0.7 * k + 0.1)


def fill_all(builder):
    parameters = [p for layer in builder.get_parameters() for p in layer]
    for n, p in enumerate(parameters):
        p.set_value(fill(n, p.shape()))


def x(t):
    """x_t of size 3."""
    return dy.inputVector(np.cos(0.9 * t + 0.5 * np.arange(3)))


def flat(vectors):
    return np.concatenate([v.npvalue() for v in vectors])


def by_pickle(things):
    return pickle.loads(pickle.dumps(things))


COPIES = [copy.deepcopy, by_pickle]
