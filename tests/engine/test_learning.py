"""Loops whose lanes are empty here and there: gradients of weights."""

import numpy as np
import pytest

import dynetjax as dy

SIZE, WORDS = 48, 9
RNG = np.random.default_rng(14)


@pytest.fixture(autouse=True)
def anew(runtime):
    """No width is settled, and no program known."""


class Pair:
    """A recurrence of two vectors, one of which has a bias and two products."""

    def __init__(self):
        self.pc = dy.ParameterCollection()
        new = self.pc.parameters_from_numpy
        several = [RNG.normal(size=s) / 9 for s in [(SIZE,), *[(SIZE, SIZE)] * 2]]
        self.numbers = [np.float64(np.float32(a)) for a in several]
        self.weights = [new(a) for a in several]
        self.words = RNG.normal(size=(WORDS, SIZE))
        self.table = self.pc.lookup_parameters_from_numpy(self.words)

    def told(self, words):
        """The sum of the last states."""
        b, W, U = self.weights
        h = c = self.table[words[0]]
        for word in words[1:]:
            h = dy.tanh(dy.affine_transform([b, W, h, U, c]))
            c = dy.cmult(h, self.table[word])
        return dy.sum_elems(h + c)

    def expected(self, words):
        """The same and its gradients, in NumPy."""
        b, W, U = self.numbers
        h = c = self.words[words[0]]
        steps = []
        for word in words[1:]:
            steps.append((h, c, word))
            h = np.tanh(b + W @ h + U @ c)
            c = h * self.words[word]
        total, d_h, d_c = np.sum(h + c), np.ones(SIZE), np.ones(SIZE)
        d_b, d_W, d_U = np.zeros_like(b), np.zeros_like(W), np.zeros_like(U)
        for before, other, word in reversed(steps):
            d = (d_h + d_c * self.words[word]) * (1 - h**2)
            d_b, d_W, d_U = d_b + d, d_W + np.outer(d, before), d_U + np.outer(d, other)
            h, d_h, d_c = before, W.T @ d, U.T @ d
        return total, d_b, d_W, d_U

    def check(self, told):
        """Compare a graph with NumPy."""
        dy.renew_cg()
        total = dy.esum([self.told(words) for words in told])
        found = [total.value()]
        total.backward()
        found += [p.grad_as_array() for p in self.weights]
        for p in [*self.weights, self.table]:
            p.scale_gradient(0)
        expected = map(sum, zip(*map(self.expected, told), strict=True))
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-4)


def sentences(lengths):
    return [RNG.integers(WORDS, size=n) for n in lengths]


@pytest.mark.parametrize("lengths", [range(2, 34), [30, 25, 20, 9, 5], range(2, 14)])
def test_lengths_that_differ(lengths):
    """Numbers of empty lanes, or behind the last one, have no part in gradients."""
    pair = Pair()
    pair.check(sentences(range(2, 34)))
    pair.check(sentences([17] * 32))  # which leaves its numbers behind
    pair.check(sentences(lengths))


def test_many_steps():
    Pair().check(sentences([62] * 8))


@pytest.mark.parametrize("count", [3, 5, 16, 30])
def test_numbers_left_behind(count):
    """What empty lanes have from earlier graphs goes nowhere."""
    pair = Pair()
    pair.check(sentences(range(2, 34)))
    for _ in range(3):
        pair.check(sentences(RNG.integers(2, 30, size=count)))
