"""Records builders of DyNet itself: run this by a Python with DyNet 2.1.2.

    python tests/data/files/record_builders.py

The pair ``builders`` has what dy.save takes; ``fast_lstm.model`` and
``norm_lstm.model`` are collections. ``builders.npz`` has, by class, the outputs of the
last layer over three inputs.
"""

import pathlib

import dynet_config

dynet_config.set(random_seed=7)

import dynet as dy  # noqa: E402
import numpy as np  # noqa: E402

FOLDER = pathlib.Path(__file__).parent


def outputs(builder):
    """Over the inputs of tests/builders/golden.py."""
    xs = [dy.inputVector(np.cos(0.9 * t + 0.5 * np.arange(3))) for t in range(3)]
    layer = builder if isinstance(builder, dy.BiRNNBuilder) else builder.initial_state()
    return np.array([e.npvalue() for e in layer.transduce(xs)])


def fill(m):
    """Biases and gains other than zero and one."""
    for p in m.parameters_list():
        if len(p.shape()) == 1:
            p.set_value(np.random.RandomState(p.shape()[0]).uniform(-1, 1, p.shape()))


def pair():
    m = dy.ParameterCollection()
    builders = [
        dy.SimpleRNNBuilder(2, 3, 2, m),
        dy.GRUBuilder(2, 3, 2, m),
        dy.CompactVanillaLSTMBuilder(2, 3, 2, m),
        dy.SparseLSTMBuilder(2, 3, 2, m, False, 0.5),
        dy.BiRNNBuilder(2, 3, 4, m, dy.GRUBuilder),
    ]
    fill(m)
    builders[3].set_sparsity(0.4)
    dy.renew_cg()
    dy.save(str(FOLDER / "builders"), builders)
    return {b.whoami(): outputs(b) for b in builders}


def collections():
    found = {}
    for name, make in [
        ("fast_lstm", lambda m: dy.FastLSTMBuilder(2, 3, 2, m)),
        ("norm_lstm", lambda m: dy.VanillaLSTMBuilder(2, 3, 2, m, ln_lstm=True)),
    ]:
        m = dy.ParameterCollection()
        builder = make(m)
        fill(m)
        dy.renew_cg()
        m.save(str(FOLDER / f"{name}.model"))
        found[builder.whoami()] = outputs(builder)
    return found


if __name__ == "__main__":
    np.savez(FOLDER / "builders.npz", **pair(), **collections())
