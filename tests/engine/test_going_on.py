"""A backward from nodes that came after the first value was read."""

import jax.numpy as jnp
import numpy as np
import pytest

import dynetjax as dy

from ..backends import on_cpu

RANDOM = np.random.RandomState(7)
TABLE, W, V = (RANDOM.uniform(-1, 1, shape) for shape in [(5, 3), (3, 3), (2, 3)])
WORDS = [0, 3, 1, 3, 4, 0, 2, 1, 1, 4]
PAIRS = [(0, 9), (9, 9), (9, 2), (3, 4), (4, 3)]  # of states, some more than once
STEP = 1e-6


def loss_of(table, w, v):
    """What `Reader.loss` computes."""
    h, states = np.zeros(3), []
    for word in WORDS:
        h = np.tanh(w @ h + table[word])
        states.append(h)
    total = np.sum((w @ states[0]) ** 2) + np.sum(table[2] * states[5])
    for a, b in PAIRS:
        scores = v @ (states[a] * states[b])
        total += np.log(np.sum(np.exp(scores))) - scores[1]
    return total


def gradients_of(loss, arrays):
    """By central differences."""
    found = [np.zeros(a.shape) for a in arrays]
    for array, slopes in zip(arrays, found, strict=True):
        for at in np.ndindex(*array.shape):
            before = array[at]
            ends = []
            for array[at] in before + STEP, before - STEP:
                ends.append(loss(*arrays))
            array[at] = before
            slopes[at] = (ends[0] - ends[1]) / (2 * STEP)
    return found


EXPECTED = gradients_of(loss_of, [TABLE.copy(), W.copy(), V.copy()])


class Reader:
    """Reads a sentence, looks at a score, and then goes on."""

    def __init__(self, tanh=dy.tanh):
        self.tanh = tanh
        self.pc = dy.ParameterCollection()
        self.table = self.pc.lookup_parameters_from_numpy(TABLE)
        self.w, self.v = map(self.pc.parameters_from_numpy, [W, V])

    def states(self, read=True):
        dy.renew_cg()
        found = []
        for word in WORDS:
            x = self.table[word]
            found.append(self.tanh(self.w * found[-1] + x if found else x))
        if read:
            (self.v * found[-1]).npvalue()
        return found

    def loss(self, states):
        parts = [
            dy.pickneglogsoftmax(self.v * dy.cmult(states[a], states[b]), 1)
            for a, b in PAIRS
        ]
        parts.append(dy.squared_norm(self.w * states[0]))
        parts.append(dy.dot_product(self.table[2], states[5]))
        return dy.esum(parts)

    def forget(self):
        """All gradients."""
        for parameter in self.all():
            parameter.scale_gradient(0)

    def check(self, times=1):
        found = [p.grad_as_array() for p in self.all()]
        for slopes, expected in zip(found, EXPECTED, strict=True):
            np.testing.assert_allclose(slopes, times * expected, rtol=1e-4, atol=1e-5)

    def all(self):
        return self.table, self.w, self.v


@pytest.fixture
def reader():
    """The rules of its nodes are settled."""
    found = Reader()
    for _ in range(2):
        found.loss(found.states()).value()
    return found


def settled(reader, graph):
    """What a graph returns once its rules are settled; gradients are of that alone."""
    for _ in range(3):
        reader.forget()
        dy.renew_cg()
        found = graph()
    return found


@pytest.mark.parametrize("read", [True, False])
def test_gradients(reader, read):
    for _ in range(3):
        loss = reader.loss(reader.states())
        if read:
            loss.value()
        loss.backward()
    reader.check(3)
    assert loss.value() == pytest.approx(loss_of(TABLE, W, V), rel=1e-5)


class TestAFirstGraph:
    """It goes on from what was part of others, which is computed once more."""

    def setup_method(self):
        """An operation that nobody has, so all structures are new."""
        self.tanh = dy.jax_op(lambda x: jnp.tanh(x))
        self.reader = Reader()

    def sums(self):
        """What states are made of, which is part of them until it is read again."""
        found, h = [], None
        for word in WORDS:
            x = self.reader.table[word]
            found.append(x if h is None else self.reader.w * h + x)
            h = self.tanh(found[-1])
        (self.reader.v * h).npvalue()
        return found

    def go_on(self, sums):
        return dy.esum([dy.squared_norm(self.reader.w * x) for x in sums[2:5]])

    def check(self, times=1):
        def total(table, w):
            total, h = 0.0, np.zeros(3)
            for k, word in enumerate(WORDS):
                x = w @ h + table[word]
                total += np.sum((w @ x) ** 2) if 2 <= k < 5 else 0.0
                h = np.tanh(x)
            return times * total

        found = [p.grad_as_array() for p in (self.reader.table, self.reader.w)]
        expected = gradients_of(total, [TABLE.copy(), W.copy()])
        for slopes, of in zip(found, expected, strict=True):
            np.testing.assert_allclose(slopes, of, rtol=1e-4, atol=1e-5)

    def test_and_those_after_it(self):
        dy.renew_cg()
        self.go_on(self.sums()).backward()
        for _ in range(2):
            dy.renew_cg()
            sums = self.sums()
            dy.esum([dy.squared_norm(self.reader.w * x) for x in sums[2:5]]).backward()
        self.check(times=3)

    @pytest.mark.parametrize("wholly", [True, False])
    def test_may_be_taken_back(self, wholly):
        """What was read first is there no more, or in part."""
        dy.renew_cg()
        if wholly:
            dy.cg_checkpoint()
        x = self.tanh(self.reader.w * self.reader.table[3])
        if not wholly:
            dy.cg_checkpoint()
        (self.reader.v * x).npvalue()
        dy.cg_revert()
        self.go_on(self.sums()).backward()
        self.check()


def test_again(reader):
    def graph():
        loss = reader.loss(reader.states())
        loss.backward()
        (loss * 3).value()
        loss.backward()
        (loss * 2).backward()

    settled(reader, graph)
    reader.check(4)


def test_gradients_of_nodes(reader):
    for time in 1, 2:
        states = reader.states()
        loss = reader.loss(states)
        loss.backward()
        slopes = states[9].gradient()
        reader.check(time)

    def of_state(state):
        rest = [np.tanh(TABLE[0])]
        for word in WORDS[1:9]:
            rest.append(np.tanh(W @ rest[-1] + TABLE[word]))
        total = 0.0
        for a, b in PAIRS:
            scores = V @ ([*rest, state][a] * [*rest, state][b])
            total += np.log(np.sum(np.exp(scores))) - scores[1]
        return total

    (expected,) = gradients_of(of_state, [states[9].npvalue().astype(np.float64)])
    np.testing.assert_allclose(slopes, expected, rtol=1e-4)


def test_full(reader):

    def graph():
        x = dy.inputVector([1.0, 2.0, 3.0])
        h = dy.tanh(reader.w * x)
        h.npvalue()
        dy.dot_product(x, h).backward(full=True)
        return x.gradient(), h.npvalue()

    found, h = settled(reader, graph)
    expected = h + W.T @ ((1 - h**2) * [1.0, 2.0, 3.0])
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_what_no_later_node_reads_has_no_part(reader):
    """Its slope is infinite."""

    def graph():
        h = dy.tanh(reader.w * dy.inputVector([1.0, 2.0, 3.0]))
        dead = dy.l2_norm(dy.cmult(h, dy.inputVector([0.0, 0.0, 0.0])))
        dy.concatenate([h, dead]).npvalue()
        dy.squared_norm(h).backward()

    settled(reader, graph)
    h = np.tanh(W @ [1, 2, 3])
    expected = np.outer(2 * h * (1 - h**2), [1, 2, 3])
    np.testing.assert_allclose(reader.w.grad_as_array(), expected, rtol=1e-5)


def test_constants(reader):
    def graph():
        x = dy.tanh(dy.inputVector([0.1, 0.2, 0.3]))
        y = dy.exp(x) + x
        y.npvalue()
        dy.dot_product(reader.w * y, y).backward()

    settled(reader, graph)
    y = np.exp(np.tanh([0.1, 0.2, 0.3])) + np.tanh([0.1, 0.2, 0.3])
    np.testing.assert_allclose(reader.w.grad_as_array(), np.outer(y, y), rtol=1e-5)


def test_batches(reader):
    """Some elements of what was computed first are read, some of them twice."""

    def graph():
        h = dy.lookup_batch(reader.table, [3, 1, 4])
        for _ in range(6):
            h = dy.tanh(reader.w * h)
        h.npvalue()
        chosen = dy.sum_batches(dy.squared_norm(dy.pick_batch_elems(h, [2, 0, 2])))
        (chosen + dy.sum_elems(dy.pick_batch_elem(h, 1))).backward()

    def expected(table, w):
        rows = table
        for _ in range(6):
            rows = np.tanh(rows @ w.T)
        return 2 * np.sum(rows[4] ** 2) + np.sum(rows[3] ** 2) + np.sum(rows[1])

    settled(reader, graph)
    of_table, of_w = gradients_of(expected, [TABLE.copy(), W.copy()])
    found = reader.table.grad_as_array(), reader.w.grad_as_array()
    np.testing.assert_allclose(found[0], of_table, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found[1], of_w, rtol=1e-4, atol=1e-6)


def test_an_update_in_between(reader):
    """The graph has the parameters that it began with."""
    trainer = dy.SimpleSGDTrainer(reader.pc, 0.1)
    loss = reader.loss(reader.states())
    loss.backward()
    trainer.update()
    loss.backward()
    reader.check()


@pytest.mark.parametrize("read", [True, False])
def test_going_back(reader, read):
    """Nodes after a mark are other ones now, be they of the first run or later ones."""

    def graph():
        states = reader.states(read)
        dy.cg_checkpoint()
        dy.squared_norm(reader.w * states[9]).backward()
        dy.cg_revert()
        reader.forget()
        reader.loss(states).backward()

    settled(reader, graph)
    reader.check()


@on_cpu
def test_lengths_compile_nothing():
    """As many programs for a few sentences as for all."""
    pc = dy.ParameterCollection()
    table = pc.add_lookup_parameters((5, 7))  # a size that no other test has
    w, v = pc.add_parameters((7, 7)), pc.add_parameters((2, 7))

    def train(count):
        dy.renew_cg()
        states = [dy.tanh(table[k % 5]) for k in range(count)]
        for k in range(1, count):
            states[k] = dy.tanh(w * states[k - 1] + states[k])
        (v * states[-1]).npvalue()
        scores = [v * h for h in states]
        loss = dy.esum([dy.pickneglogsoftmax(x, k % 2) for k, x in enumerate(scores)])
        loss.value()
        loss.backward()

    for count in 9, 30, *range(4, 30, 2), 30:
        train(count)
    before = dy.stats().programs
    for count in range(4, 30):
        train(count)
    assert dy.stats().programs == before
