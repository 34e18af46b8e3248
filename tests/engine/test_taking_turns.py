"""Lists in which learned vectors, states and words take turns."""

import itertools

import numpy as np
import pytest

import dynetjax as dy

from .test_compilations import new_compilations

WORDS, SIZE = 9, 7


class Features:
    """Scores of lists that are filled up with a learned vector."""

    def __init__(self, slots, join):
        self.rng = np.random.default_rng(slots)
        self.join, self.slots = join, slots
        m = dy.ParameterCollection()
        new = m.parameters_from_numpy
        self.table = m.lookup_parameters_from_numpy(self.random(WORDS, SIZE))
        self.pad, self.b = new(self.random(SIZE)), new(self.random(SIZE))
        self.U = new(self.random(SIZE, SIZE))
        width = SIZE * slots if join == "concatenate" else SIZE
        self.W = new(self.random(3, width))
        self.vs = [new(self.random(3, SIZE)) for _ in range(slots)]
        self.parameters = [self.pad, self.b, self.U]

    def random(self, *sizes):
        return self.rng.normal(size=sizes)

    def joined(self, features):
        if self.join == "affine_transform":
            pairs = zip(self.vs, features, strict=True)
            return dy.affine_transform([self.W * self.b, *itertools.chain(*pairs)])
        return self.W * getattr(dy, self.join)(features)

    def joined_by_numpy(self, features):
        w = self.W.as_array()
        if self.join == "affine_transform":
            products = [
                v.as_array() @ x for v, x in zip(self.vs, features, strict=True)
            ]
            return w @ self.b.as_array() + sum(products)
        if self.join == "concatenate":
            return w @ np.concatenate(features)
        if self.join == "emax":
            return w @ np.max(features, axis=0)
        return w @ np.log(np.exp(features).sum(axis=0))

    def pick(self, kinds):
        """A feature for each letter: a pad, a word, a state, or something new."""
        dy.renew_cg()
        state = dy.tanh(self.U * self.table[1] + self.b)
        make = {
            "p": lambda: self.pad,
            "w": lambda: self.table[self.rng.integers(WORDS)],
            "s": lambda: state,
            "n": lambda: dy.tanh(self.table[2]),
        }
        return [make[kind]() for kind in kinds]

    def loss(self, kinds):
        return dy.squared_norm(self.joined(self.pick(kinds)))

    def train(self, kinds):
        loss = self.loss(kinds)
        loss.value()
        loss.backward()
        for p in self.parameters:
            p.scale_gradient(0)


JOINS = ["concatenate", "emax", "logsumexp", "affine_transform"]


@pytest.mark.parametrize("join", JOINS)
def test_turns(join):
    """They compile while they are new, and the values are as ever."""
    features = Features(4, join)
    everything = ["".join(kinds) for kinds in itertools.product("pwsn", repeat=4)]
    features.rng.shuffle(everything)
    for kinds in everything[:80]:
        features.train(kinds)

    def action():
        for kinds in everything[80:200]:
            features.train(kinds)

    assert new_compilations(action) == 0
    for kinds in everything[200:220]:
        made = features.pick(kinds)
        scores = features.joined(made)
        wanted = features.joined_by_numpy([x.npvalue() for x in made])
        np.testing.assert_allclose(scores.npvalue(), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("join", JOINS)
@pytest.mark.parametrize("kinds", ["ppwp", "spps", "pppp", "npsw"])
def test_gradients(join, kinds):
    """Those of what stands in several slots, by finite differences."""
    features = Features(4, join)
    for others in itertools.product("pws", repeat=4):
        features.loss(others)  # there have been many lists
    for p in features.parameters:
        features.rng = np.random.default_rng(1)
        features.loss(kinds).backward()
        found = p.grad_as_array().copy()
        for q in features.parameters:
            q.scale_gradient(0)
        start, step = p.as_array().copy(), 1e-2
        for at in [(0,) * start.ndim, tuple(n - 1 for n in start.shape)]:
            shift = np.zeros_like(start)
            shift[at] = step
            values = []
            for change in (shift, -shift):
                features.rng = np.random.default_rng(1)
                p.set_value(start + change)
                values.append(features.loss(kinds).value())
            p.set_value(start)
            slope = (values[0] - values[1]) / (2 * step)
            assert found[at] == pytest.approx(slope, rel=2e-2, abs=2e-2)


def test_a_learned_column_among_others():
    """How many columns there are is a length then, too."""
    m = dy.ParameterCollection()
    first = m.parameters_from_numpy(np.arange(5.0))
    table = m.lookup_parameters_from_numpy(np.eye(5))
    weights = m.parameters_from_numpy(np.ones((2, 5)))

    def run(count):
        dy.renew_cg()
        columns = dy.concatenate_cols([first, *[table[k % 5] for k in range(count)]])
        loss = dy.sum_elems(weights * columns)
        assert loss.value() == 20 + 2 * count
        loss.backward()
        assert first.grad_as_array().tolist() == [2] * 5
        first.scale_gradient(0)

    for count in (3, 6, 4, 2, 7):
        run(count)
    assert new_compilations(lambda: [run(count) for count in (1, 5)]) == 0


@pytest.mark.parametrize("reduce", ["emax", "logsumexp"])
def test_how_long_a_list_is(reduce):
    """A long list is made of short ones, so its length is no matter."""
    rng = np.random.default_rng(3)
    m = dy.ParameterCollection()
    table = m.lookup_parameters_from_numpy(rng.normal(size=(90, 6)))

    def run(count):
        dy.renew_cg()
        found = getattr(dy, reduce)([table[k] for k in range(count)])
        rows = table.as_array()[:count].astype(float)
        wanted = rows.max(0) if reduce == "emax" else np.log(np.exp(rows).sum(0))
        np.testing.assert_allclose(found.npvalue(), wanted, rtol=1e-5, atol=1e-6)
        dy.sum_elems(found).backward()
        shares = rows == wanted if reduce == "emax" else np.exp(rows - wanted)
        gradient = table.grad_as_array()[:count]
        np.testing.assert_allclose(gradient, shares, rtol=1e-4, atol=1e-6)
        table.scale_gradient(0)

    for count in [*range(1, 18), 64, 30]:
        run(count)
    action = lambda: [run(count) for count in (40, 50, 23, 61)]  # noqa: E731
    assert new_compilations(action) == 0


def test_layers_stay_apart():
    """What is above has a component of its own, though its list looks the same."""
    m = dy.ParameterCollection()
    layers = [
        [dy.VanillaLSTMBuilder(1, size, 5, m) for _ in range(2)] for size in (6, 10)
    ]
    table = m.add_lookup_parameters((9, 6))

    def loops(length):
        dy.renew_cg()
        xs = [table[k % 9] for k in range(length)]
        for left, right in layers:
            back = right.initial_state().transduce(xs[::-1])[::-1]
            there = left.initial_state().transduce(xs)
            pairs = zip(there, back, strict=True)
            xs = [dy.concatenate([x, y]) for x, y in pairs]
        dy.sum_elems(dy.esum(xs)).value()
        return dy.explain().text.count("loop, ")

    for length in (5, 3, 8, 6):
        assert loops(length) == 4
