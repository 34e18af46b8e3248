"""Loops whose lanes are empty here and there: gradients of weights, narrower trips."""

import numpy as np
import pytest

import dynetjax as dy
from dynetjax.engine import plan, schedule
from dynetjax.engine.learning import CHUNKS, Learning, cotangents_kept
from dynetjax.graph import current_graph

from ..backends import on_cpu

SIZE, WORDS = 48, 9
RNG = np.random.default_rng(14)


@pytest.fixture(autouse=True)
def narrowed(monkeypatch):
    """Loops of any weights are narrowed, once their lanes are found to be empty."""
    monkeypatch.setattr(schedule, "HEAVY", 0)
    monkeypatch.setattr(schedule, "_uneven", set())
    monkeypatch.setattr(schedule, "_settled", {})
    monkeypatch.setattr(plan, "_scopes", {})


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


def loop():
    """The program of the loop that learns in the graph at hand; its tape's start."""
    fusion = current_graph().state.parts[0].plan.fusion
    (part,) = [p for p in fusion.parts if any(cotangents_kept(p.program))]
    return part.program, part.start


def tape_at_hand():
    return np.asarray(current_graph().state.parts[0].tape_back(np.zeros(0, np.int64)))


def real_lanes():
    """The lanes of that loop that are not empty; it has some that are."""
    program, start = loop()
    assert program.has_empty_lanes
    tape = tape_at_hand()
    order, count = Learning(program, [], [], tape, start).real_lanes()
    trips = tape[start]
    assert count < trips * program.width
    return np.asarray(order)[:count]


def sentences(lengths):
    return [RNG.integers(WORDS, size=n) for n in lengths]


@on_cpu
@pytest.mark.parametrize("lengths", [range(2, 34), [30, 25, 20, 9, 5], range(2, 14)])
def test_lengths_that_differ(lengths):
    """Chunks take in lanes that are real, the last one fewer than it has room for."""
    pair = Pair()
    pair.check(sentences(range(2, 34)))
    pair.check(sentences([17] * 32))  # which leaves its numbers behind
    pair.check(sentences(lengths))
    real = real_lanes()
    assert len(real) == sum(lengths) - len(lengths)
    assert (np.diff(real) > 0).all()


@on_cpu
def test_several_chunks():
    pair = Pair()
    for _ in range(2):
        pair.check(sentences(range(2, 34)))
        assert len(real_lanes()) > 2 * CHUNKS[-1]


def test_products_of_one_sum():
    """Cotangents of products that are added up are one array."""
    pair = Pair()
    pair.check(sentences([5, 9]))
    program, _ = loop()
    assert cotangents_kept(program) == [True, False]


def stages():
    """Width, first trip and end of each stage of the loop that learns."""
    program, start = loop()
    tape = tape_at_hand()
    several = program.stages(tape, start, tape[start])
    return [tuple(map(int, stage)) for stage in several]


@on_cpu
def test_chains_that_end_one_after_the_other():
    pair = Pair()
    pair.check(sentences([20] * 16))
    assert stages() == [(16, 0, 19)]
    lengths = range(47, 0, -3)
    for _ in range(2):
        pair.check(sentences(lengths))
        assert len(lengths) == 16
        wide, less, least = lengths[8] - 1, lengths[4] - 1, lengths[0] - 1
        assert stages() == [(16, 0, wide), (8, wide, less), (4, less, least)]


@on_cpu
def test_full_to_the_end():
    """Chains of one length, with a program for those that are not."""
    pair = Pair()
    pair.check(sentences(range(47, 0, -3)))
    pair.check(sentences([9] * 16))
    assert stages() == [(16, 0, 8), (8, 8, 8), (4, 8, 8)]


@pytest.mark.parametrize("count", [3, 5, 16, 30])
def test_numbers_left_behind(count):
    """What empty lanes have from earlier graphs goes nowhere."""
    pair = Pair()
    pair.check(sentences(range(2, 34)))
    for _ in range(3):
        pair.check(sentences(RNG.integers(2, 30, size=count)))


def test_smaller_minibatches():
    """They leave lanes empty, but in all trips alike: nothing is made for them."""
    pair = Pair()
    for size in 16, 5, 16:
        words = RNG.integers(WORDS, size=(12, size))
        dy.renew_cg()
        h = c = pair.table.batch(words[0].tolist())
        b, W, U = pair.weights
        for several in words[1:]:
            h = dy.tanh(dy.affine_transform([b, W, h, U, c]))
            c = dy.cmult(h, pair.table.batch(several.tolist()))
        total = dy.sum_batches(dy.sum_elems(h + c))
        total.value()
        total.backward()
        program, _ = loop()
        assert (program.width, program.narrow) == (16, 16)
