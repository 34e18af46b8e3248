"""Rows that a loop reads in all its trips."""

import numpy as np
import pytest

import dynetjax as dy
from dynetjax.graph import current_graph

SIZE, TOPICS, STEPS = 5, 7, 9
RNG = np.random.default_rng(6)


class Teller:
    """A recurrence that reads its topic at every step, as decoders do."""

    def __init__(self):
        self.pc = dy.ParameterCollection()
        new = self.pc.parameters_from_numpy
        weights = RNG.normal(size=(2, SIZE, SIZE)) / 2
        self.shown, self.step = new(weights[0]), new(weights[1])
        topics = RNG.normal(size=(TOPICS, SIZE))
        self.topics = self.pc.lookup_parameters_from_numpy(topics)

    def told(self, topic, steps, other=None):
        """The last state; in the last step with an `other` topic, if there is one."""
        topic = dy.tanh(self.shown * self.topics[topic])
        h = topic
        for k in range(steps):
            if k == steps - 1 and other is not None:
                topic = dy.tanh(self.shown * self.topics[other])
            h = dy.cmult(dy.tanh(self.step * h), topic)
        return h

    def gradients(self, told):
        """Of each graph's sum; all these, and the losses."""
        found = []
        for several in told:
            dy.renew_cg()
            total = dy.esum([dy.sum_elems(self.told(*about)) for about in several])
            found.append(total.value())
            total.backward()
        everything = [p.grad_as_array() for p in (self.shown, self.step, self.topics)]
        for p in self.shown, self.step, self.topics:
            p.scale_gradient(0)
        return [sum(found), *everything]

    def alike(self, told):
        """Whether all graphs give what their parts give in graphs of their own."""
        together = self.gradients(told)
        apart = self.gradients([[about] for several in told for about in several])
        for one, other in zip(together, apart, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


@pytest.fixture
def teller(runtime):
    """One whose graphs are the first of all."""
    return Teller()


def some(rng, count):
    return [(rng.integers(TOPICS), rng.integers(2, STEPS)) for _ in range(count)]


def test_one_for_each_lane(teller):
    """Lanes end one after the other, and none takes another's place."""
    teller.alike([[(k, STEPS - k) for k in (1, 0, 3, 2)]])
    teller.alike([some(RNG, 4) for _ in range(9)])


def test_several_in_turn(teller):
    """More chains than a trip has lanes, so that lanes have several each."""
    teller.alike([some(RNG, 100) for _ in range(3)])


def test_another_in_a_later_graph(teller):
    """A lane reads one row in all trips of one graph, and two in the next."""
    teller.alike([some(RNG, 4)])
    teller.alike([[(1, 5), (2, 7, 3), (4, 6), (5, 6)]])
    teller.alike([some(RNG, 4)])


def test_read_once_each(teller):
    """Each lane reads its row in one trip alone."""
    teller.alike([[(k, 1) for k in range(4)], [(k, 2, 3) for k in range(4)]])


def test_chains_of_different_lengths(teller):
    """Some lanes end long before others."""
    rng = np.random.default_rng(9)
    told = [[(k % TOPICS, 2 + 2 * k) for k in rng.permutation(16)] for _ in range(3)]
    teller.alike(told)


def test_steps_that_are_no_part_of_the_loss(runtime):
    """They read the row that others do, and their slope, 0 / 0, goes nowhere."""
    pc = dy.ParameterCollection()
    rows = RNG.uniform(1, 2, size=(4, SIZE))
    table = pc.lookup_parameters_from_numpy(rows)
    for _ in range(3):
        dy.renew_cg()
        firsts = []
        for k in range(4):
            topic = dy.rectify(table[k])
            h = first = dy.log(dy.cmult(dy.inputVector(1 / rows[k]), topic))
            for _ in range(3):
                h = dy.log(dy.cmult(h, topic))
            firsts.append(dy.sum_elems(first))
        total = dy.esum(firsts)
        assert not np.isfinite(h.npvalue()).any()
        total.backward()
        found = table.grad_as_array()
        table.scale_gradient(0)
        np.testing.assert_allclose(found, 1 / rows, rtol=1e-5)


def test_longer_lists_in_the_same_room(runtime):
    """Pieces of a list that were missing so far are read by the program there is."""
    pc = dy.ParameterCollection()
    table = pc.add_lookup_parameters((50, SIZE))
    rows = table.as_array()

    def fused(length):
        dy.renew_cg()
        words = [dy.tanh(table[k]) for k in range(length)]
        whole = dy.concatenate_cols(words)
        total = dy.sum_elems(dy.tanh(dy.dot_product(whole, whole)))
        expected = np.tanh(np.sum(np.tanh(rows[:length]) ** 2))
        assert total.value() == pytest.approx(expected, rel=1e-5)
        return current_graph().state.parts[0].layout.program

    for length in 33, 34, 35:  # which makes the axis ragged
        first = fused(length)
    assert first is fused(33)
    assert first is fused(41)
    assert first is fused(50)
