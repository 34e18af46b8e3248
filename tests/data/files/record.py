"""Records files of DyNet itself: run this by a Python with DyNet 2.1.2.

    python tests/data/files/record.py

The models dense, decayed, nested and two_keys are recordings of 2.1.2 too.
"""

import pathlib

import dynet_config

dynet_config.set(random_seed=3)

import dynet as dy  # noqa: E402
import numpy as np  # noqa: E402

FOLDER = pathlib.Path(__file__).parent


def gradients():
    """A parameter with a gradient, and a table whose row 1 has one."""
    m = dy.ParameterCollection()
    W = m.parameters_from_numpy(np.arange(6.0).reshape(2, 3), name="W")
    m.parameters_from_numpy(np.array([0.5]), name="b")
    E = m.lookup_parameters_from_numpy(np.arange(8.0).reshape(4, 2), name="E")
    dy.renew_cg()
    (dy.squared_norm(W) + dy.squared_norm(E[1])).backward()
    W.save(str(FOLDER / "gradients.model"))
    E.save(str(FOLDER / "gradients.model"), append=True)


def not_finite():
    """Values that no DyNet reads back."""
    m = dy.ParameterCollection()
    m.parameters_from_numpy(np.array([np.nan, -np.nan, np.inf, -np.inf, 1]), name="W")
    m.parameters_from_numpy(np.array([1.0, 2.0]), name="b")
    m.save(str(FOLDER / "not_finite.model"))


def pair():
    """Both LSTMs under the names their classes have, a table and a parameter."""
    m = dy.ParameterCollection()
    things = [
        m.add_lookup_parameters((3, 2), name="E"),
        dy.VanillaLSTMBuilder(1, 2, 2, m),
        dy.LSTMBuilder(1, 2, 1, m),
        dy.CoupledLSTMBuilder(1, 2, 1, m),
        m.add_parameters((2, 3), name="W"),
    ]
    dy.save(str(FOLDER / "lstms"), things)


def every_digit():
    """Numbers all over the range of float32, ties and neighbours of powers of ten."""
    rng = np.random.RandomState(5)
    bits = rng.randint(0, 2**32, 300, dtype=np.uint32).view(np.float32)
    tens = np.array([float(f"1e{k}") for k in range(-37, 39)], np.float32)
    ties = np.arange(1, 100, dtype=np.float32) / np.float32(1024) + np.float32(1)
    numbers = np.concatenate([bits[np.isfinite(bits)], tens, -tens, ties])
    numbers = numbers[np.abs(numbers) >= 2.0**-126]  # DyNet flushes denormals
    np.save(str(FOLDER / "digits.npy"), numbers)
    m = dy.ParameterCollection()
    m.parameters_from_numpy(numbers, name="W")
    m.save(str(FOLDER / "digits.model"))


if __name__ == "__main__":
    for record in gradients, not_finite, pair, every_digit:
        record()
