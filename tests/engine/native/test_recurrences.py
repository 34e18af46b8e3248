"""Recurrences: what does not need them is computed for all steps at once."""

import numpy as np
import pytest

import dynetjax as dy
from dynetjax.engine.ir.fused import FUSED_OPS
from dynetjax.engine.native import core
from dynetjax.engine.native.program import _compiled, structure_of
from dynetjax.graph import current_graph

IN, HIDDEN = 5, 4


class Network:
    """``h = tanh(W x + U h)`` from zeros on, by DyNet and by NumPy."""

    def __init__(self, seed, batch=1):
        random = np.random.default_rng(seed)
        self.w, self.u = [
            random.normal(size=(HIDDEN, n)).astype(np.float32) for n in (IN, HIDDEN)
        ]
        self.model = dy.ParameterCollection()
        self.W = self.model.parameters_from_numpy(self.w)
        self.U = self.model.parameters_from_numpy(self.u)
        self.h = np.zeros((HIDDEN, batch), np.float32)
        self.xs = [random.normal(size=(IN, batch)) for _ in range(70)]
        self.inputs = [dy.inputTensor(x, batched=True) for x in self.xs]

    def step(self, x, h):
        return dy.tanh(self.W * x + self.U * h)

    def reference(self, steps, read=()):
        """The last state; gradients of W, U and inputs of half its squared norm.

        Those of the states `read` are added.
        """
        states = [self.h]
        for k in steps:
            states.append(np.tanh(self.w @ self.xs[k] + self.u @ states[-1]))
        dw, du, dxs = np.zeros_like(self.w), np.zeros_like(self.u), {}
        dh = np.zeros_like(self.h)
        for n in range(len(steps), 0, -1):
            if n == len(steps) or n in read:
                dh = dh + states[n]
            inner = dh * (1 - states[n] ** 2)
            x = self.xs[steps[n - 1]]
            dw, du = dw + inner @ x.T, du + inner @ states[n - 1].T
            dxs[steps[n - 1]] = dxs.get(steps[n - 1], 0) + self.w.T @ inner
            dh = self.u.T @ inner
        return states, dw, du, dxs

    def compare(self, states, found, steps, read=()):
        loss = dy.sum_batches(
            dy.esum([0.5 * dy.squared_norm(states[n]) for n in {len(steps), *read}])
        )
        loss.value()
        loss.backward(full=True)
        expected, dw, du, dxs = self.reference(steps, read)
        value = np.asarray(found).reshape(expected[-1].shape)
        np.testing.assert_allclose(value, expected[-1], rtol=2e-5, atol=2e-6)
        np.testing.assert_allclose(self.W.grad_as_array(), dw, rtol=2e-5, atol=2e-5)
        np.testing.assert_allclose(self.U.grad_as_array(), du, rtol=2e-5, atol=2e-5)
        for k, dx in dxs.items():
            gradient = self.inputs[k].gradient().reshape(dx.shape)
            np.testing.assert_allclose(gradient, dx, rtol=2e-5, atol=2e-5)


def run(network, steps, h=None):
    states = [dy.zeros(HIDDEN) if h is None else h]
    for k in steps:
        states.append(network.step(network.inputs[k], states[-1]))
    return states


def test_a_step_may_have_its_products_hoisted():
    """As they are in both directions: that of the input, and that of the state."""
    network = Network(0)
    run(network, range(3))[-1].value()
    stored = current_graph().stored
    fused = FUSED_OPS[stored.fused(len(stored) - 1)]
    assert [step.signature.op.name for step in fused.steps][-1] == "tanh"
    about = _compiled(structure_of(fused))
    for code, count in (about["forward"], 2), (about["backward"], 4):
        assert np.count_nonzero(code[:, 1] & core.HOIST) == count


@pytest.mark.parametrize("batch", [1, 3, 40])
@pytest.mark.parametrize("count", [1, 2, 9, 70])
def test_as_numpy(count, batch):
    network = Network(1, batch)
    states = run(network, range(count))
    network.compare(states, states[-1].npvalue(), range(count), read={1})


def test_inputs_that_come_twice():
    network, steps = Network(2), [0, 1, 0, 0, 2]
    states = run(network, steps)
    network.compare(states, states[-1].npvalue(), steps)


def test_in_parts():
    """A recurrence whose states are read on the way."""
    network, steps = Network(3), range(9)
    states = run(network, steps[:4])
    states[-1].value()
    states += run(network, steps[4:], states[-1])[1:]
    network.compare(states, states[-1].npvalue(), steps, read={2, 4, 6})


def test_some_steps_are_taken_back():
    network = Network(4)
    states = run(network, range(4))
    dy.cg_checkpoint()
    again = run(network, range(4, 9), states[-1])
    again[-1].value()
    dy.cg_revert()
    states += run(network, range(9, 12), states[-1])[1:]
    steps = [0, 1, 2, 3, 9, 10, 11]
    network.compare(states, states[-1].npvalue(), steps)


def test_what_was_computed_with_others_is_taken_back():
    network = Network(5)
    states = run(network, range(4))
    dy.cg_checkpoint()
    run(network, range(4, 9), states[-1])[-1].value()  # with the first four
    dy.cg_revert()
    network.compare(states, states[-1].npvalue(), range(4), read={2})


def test_steps_that_nothing_reaches():
    network = Network(6)
    states = run(network, range(8))
    states[-1].value()
    network.compare(states[:5], states[4].npvalue(), range(4))
