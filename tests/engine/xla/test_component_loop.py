"""Loops back: gradients of what a trip reads, and of weights after the last one."""

import numpy as np
import pytest

import dynetjax as dy
from dynetjax.engine.plan import family
from dynetjax.engine.xla.loop_back import WIDE
from dynetjax.graph import current_graph

SIZE, BATCH = 3, 40


class Net:
    """h = tanh(W h + V x), and what is read of each h."""

    def __init__(self):
        rng = np.random.default_rng(3)
        self.arrays = [rng.normal(size=(SIZE, SIZE)) / 2 for _ in "WVU"]
        pc = dy.ParameterCollection()
        self.weights = [pc.parameters_from_numpy(a) for a in self.arrays]

    def inputs(self, steps):
        return np.random.default_rng(steps).normal(size=(steps, SIZE, BATCH))

    def loss(self, steps, read=0):
        """The sum of squares of the last state, and of every `read`th times U."""
        dy.renew_cg()
        W, V, U = self.weights
        h, parts = dy.inputTensor(np.zeros((SIZE, BATCH)), batched=True), []
        for k, x in enumerate(self.inputs(steps)):
            h = dy.tanh(W * h + V * dy.inputTensor(x, batched=True))
            if read and k % read == 0:
                h = dy.cmult(h, dy.logistic(U * h))
                parts.append(dy.squared_norm(h))
        return dy.sum_batches(dy.esum([*parts, dy.squared_norm(h)]))

    def gradients(self):
        return [w.grad_as_array() for w in self.weights]

    def expected(self, steps, read=0):
        """Gradients by hand."""
        W, V, U = self.arrays
        h, tape = np.zeros((SIZE, BATCH)), []
        for k, x in enumerate(self.inputs(steps)):
            before, inner = h, np.tanh(W @ h + V @ x)
            gate = 1 / (1 + np.exp(-(U @ inner)))
            is_read = bool(read) and k % read == 0
            h = inner * gate if is_read else inner
            tape.append((before, x, inner, gate, h, is_read))
        dW, dV, dU = [np.zeros_like(a) for a in self.arrays]
        dh = 2 * h
        for before, x, inner, gate, after, is_read in reversed(tape):
            if is_read:
                dh = dh + 2 * after
                slope = dh * inner * gate * (1 - gate)
                dU += slope @ inner.T
                dh = dh * gate + U.T @ slope
            slope = dh * (1 - inner**2)
            dW, dV, dh = dW + slope @ before.T, dV + slope @ x.T, W.T @ slope
        return [dW, dV, dU]


@pytest.mark.parametrize("read", [0, 1, 3])
@pytest.mark.parametrize("steps", [2, 5, 2 * WIDE // BATCH + 3])
def test_gradients_of_a_recurrence(runtime, steps, read):
    """Of one chunk of lanes, and of several; where states are read in the same trip."""
    runtime.tier = "xla"
    net = Net()
    net.loss(steps, read).backward()
    for found, wanted in zip(net.gradients(), net.expected(steps, read), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=2e-3, atol=2e-3)


def test_a_shorter_graph_after_a_longer_one(runtime):
    """What the longer one left in rows that nobody writes is not read."""
    runtime.tier = "xla"
    for steps in 30, 3, 30, 4:
        net = Net()
        net.loss(steps, 2).backward()
        for found, wanted in zip(net.gradients(), net.expected(steps, 2), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=2e-3, atol=2e-3)


class TwoWays:
    """Two recurrences over the same inputs, of which one may be another cell."""

    def __init__(self, cell=dy.VanillaLSTMBuilder):
        self.pc = dy.ParameterCollection()
        rng = np.random.default_rng(5)
        self.words = self.pc.lookup_parameters_from_numpy(rng.normal(size=(7, SIZE)))
        cells = dy.VanillaLSTMBuilder, cell
        self.ways = [c(1, SIZE, SIZE, self.pc) for c in cells]
        for p in self.pc.parameters_list():
            p.set_value(rng.normal(size=p.shape()) / 2)

    def loss(self, sentences, chained=False):
        """Of several sentences; the second recurrence may read what the first makes."""
        dy.renew_cg()
        losses = []
        for sentence in sentences:
            xs = [self.words[w] for w in sentence]
            forth = self.ways[0].initial_state().transduce(xs)
            given = forth if chained else xs
            back = self.ways[1].initial_state().transduce(given[::-1])[::-1]
            both = [
                dy.squared_norm(dy.cmult(f, b))
                for f, b in zip(forth, back, strict=True)
            ]
            losses.append(dy.esum(both))
        return dy.esum(losses)

    def gradients(self, sentences, chained=False):
        """The loss, and what its gradients are."""
        loss = self.loss(sentences, chained)
        value = loss.value()
        loss.backward()
        found = [p.grad_as_array() for p in self.pc.parameters_list()]
        found.append(self.words.grad_as_array())
        return [np.array(value), *found]


SENTENCES = [[1, 2, 3, 4, 5], [6, 5], [0, 1, 2, 3, 4, 5, 6, 0, 1]]


def twins():
    """How many ops of the graph at hand run as one with others."""
    (run,) = current_graph().state.parts
    groups = run.layout.program.code.twins
    return sum(len(group) for of in groups for group in of if len(group) > 1)


@pytest.mark.parametrize("repeats", [1, 40])
@pytest.mark.parametrize(
    ("cell", "chained", "count"),
    [
        (dy.VanillaLSTMBuilder, False, 6),
        (dy.VanillaLSTMBuilder, True, 0),
        (dy.CoupledLSTMBuilder, False, 0),
    ],
    ids=["alike", "one after the other", "others"],
)
def test_twins(monkeypatch, runtime, cell, chained, count, repeats):
    """On a device two equal recurrences are one loop, if neither needs the other."""
    monkeypatch.setattr(family, "host_sees_device", lambda: False)
    sentences = SENTENCES * repeats
    runtime.tier = "native"
    expected = TwoWays(cell).gradients(sentences, chained)
    runtime.tier = "xla"
    found = TwoWays(cell).gradients(sentences, chained)
    assert twins() == count
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4 * repeats)
