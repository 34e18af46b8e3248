"""exp, log, tanh and logistic are within 5 units in the last place of float64.

tanh is within 7 where products are rounded before they are added: in the kernels for
any processor, and under a sanitizer, where nothing is optimised.
"""

import os

import jax.numpy as jnp
import numpy as np
import pytest
from bench import Run
from jax import lax

from dynetjax.engine.native import core

RNG = np.random.default_rng(11)
COUNT = 1 << 15
ROUNDS = core.LEVEL == "plain" or "asan" in os.environ.get("LD_PRELOAD", "")
LARGEST = np.float64(np.finfo(np.float32).max)


def numbers():
    """Of every exponent, many where the functions bend, and the ends."""
    bits = RNG.integers(0, 1 << 32, COUNT, np.uint64).astype(np.uint32)
    every = bits.view(np.float32)
    ends = np.float32([88.7228, 88.7229, 88.73, 104, 7.9, 9.02, 0.0004, 0.625, 1])
    near = 1 + RNG.normal(size=COUNT) * 10.0 ** RNG.uniform(-7, -1, COUNT)
    low = RNG.uniform(0, 1.2e-38, 100).astype(np.float32)
    found = [every[~np.isnan(every)], ends, low, near, np.exp(RNG.normal(size=COUNT))]
    found += [RNG.uniform(-size, size, COUNT) for size in (0.01, 1, 10, 110)]
    x = np.concatenate(found).astype(np.float32)
    x = np.concatenate([x, -x])
    return x[: len(x) // 64 * 64]


def logistic(x):
    small = np.exp(-abs(x))
    return np.where(x < 0, small, 1) / (1 + small)


X = numbers()


@pytest.mark.parametrize(
    ("ours", "numpy", "x", "most"),
    [
        (lax.exp, np.exp, X, 5),
        (lax.log, np.log, abs(X), 5),
        (lax.tanh, np.tanh, X, 7 if ROUNDS else 5),
        (lax.logistic, logistic, X, 5),
    ],
    ids=["exp", "log", "tanh", "logistic"],
)
def test_units_in_the_last_place(ours, numpy, x, most):
    with np.errstate(all="ignore"):
        exact = numpy(x.astype(np.float64))
        unit = np.spacing(abs(exact).astype(np.float32)).astype(np.float64)
    run = Run(ours, (64,), [x.reshape(-1, 64)])
    got = run.value.reshape(-1).astype(np.float64)
    large = abs(exact) > LARGEST
    assert (abs(got[large]) >= LARGEST).all()
    assert (np.sign(got[large]) == np.sign(exact[large])).all()
    off = abs(got[~large] - exact[~large]) / unit[~large]
    worst = np.argmax(off)
    assert off[worst] <= most, (x[~large][worst], got[~large][worst], off[worst])


def test_softmax_of_what_is_far_apart():
    """Nothing overflows, and what is far below is 0."""
    x = np.array([[1000.0, 999.0, -1000.0, 0.0]])
    run = Run(lambda x: jnp.exp(x - lax.reduce_max(x, axes=(0,))), (4,), [x])
    np.testing.assert_allclose(run.value[0], [1, np.exp(-1), 0, 0], 1e-6)
