"""What is computed in tier 0, and in NumPy."""

import numpy as np
from bench import Run, central_differences, on_lanes
from jax import lax


class Case:
    """A function in JAX, the same in NumPy, and the shapes of its operands.

    Args:
        low, high: bounds of the operands' numbers.
        smooth: there is a gradient to compare.
    """

    def __init__(self, name, ours, numpy, *shapes, low=-2.0, high=2.0, smooth=True):
        self.name, self.ours, self.numpy, self.shapes = name, ours, numpy, shapes
        self.low, self.high, self.smooth = low, high, smooth

    def __repr__(self):
        return self.name

    def operands(self, lanes, first):
        """Operands; the first of them has so many lanes of its own."""
        rng = np.random.default_rng(7)
        counts = [first, *[lanes] * (len(self.shapes) - 1)]
        return [
            rng.uniform(self.low, self.high, (n, *s)).astype(np.float32)
            for n, s in zip(counts, self.shapes, strict=True)
        ]


def check(case, lanes, first, weight=False):
    """Of a case: its value and, where it is smooth, its gradients.

    Args:
        first: lanes of the first operand.
        weight: whether that is a weight instead.
    """
    operands = case.operands(lanes, first)
    wide = [x.astype(np.float64) for x in operands]
    given = [operands[0][0]] if weight else []
    if weight:
        wide[0] = wide[0][0]
    rest = operands[1:] if weight else operands
    several = on_lanes(case.numpy, lanes, len(given))
    with np.errstate(all="ignore"):
        expected = several(*(wide if case.smooth else [*given, *rest]))
    shape = expected.shape[1:]
    run = Run(case.ours, shape, rest, given)
    np.testing.assert_allclose(run.value, expected, 3e-5, 3e-6)
    if not case.smooth:
        return
    seed = np.random.default_rng(3).normal(size=expected.shape)
    wanted = central_differences(several, wide, seed)
    for got, slope in zip(run.gradients(seed), wanted, strict=True):
        scale = max(1.0, np.abs(slope).max())
        np.testing.assert_allclose(got / scale, slope / scale, atol=3e-5)


def number(x):
    """Bools and ints as floats."""
    return x.astype(np.float32)


def still(f):
    """Without a derivative, where that has no byte code."""
    return lambda *xs: f(*map(lax.stop_gradient, xs))


BOX = (3, 4, 5)
