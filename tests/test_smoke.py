"""The main road in a few seconds: a graph, its gradients, an update, a file."""

import numpy as np
import pytest

import dynetjax as dy
from dynetjax.engine.runtime import RUNTIME

RNG = np.random.default_rng(2)
W, OUT, E = RNG.normal(size=(4, 6)), RNG.normal(size=(3, 4)), RNG.normal(size=(5, 3))
PAIRS = [(0, 1, 2), (3, 1, 0), (4, 4, 1)]  # two words, and the class of both


class Model:
    """Classes of pairs of words, by a hidden layer."""

    def __init__(self):
        self.pc = dy.ParameterCollection()
        self.W = self.pc.parameters_from_numpy(W)
        self.out = self.pc.parameters_from_numpy(OUT)
        self.words = self.pc.lookup_parameters_from_numpy(E)

    def loss(self, pairs):
        """Of all pairs, in a new graph."""
        dy.renew_cg()
        losses = []
        for one, other, label in pairs:
            x = dy.concatenate([self.words[one], self.words[other]])
            scores = self.out * dy.tanh(self.W * x)
            losses.append(dy.pickneglogsoftmax(scores, label))
        return dy.esum(losses)


def reference(W, OUT, E):
    """The loss of all pairs, and the gradients of W, OUT and E, in NumPy."""
    total, grads = 0.0, [np.zeros_like(a) for a in (W, OUT, E)]
    for one, other, label in PAIRS:
        x = np.concatenate([E[one], E[other]])
        h = np.tanh(W @ x)
        p = np.exp(OUT @ h) / np.exp(OUT @ h).sum()
        total -= np.log(p[label])
        d = p - np.eye(len(OUT))[label]
        d_h = (OUT.T @ d) * (1 - h**2)
        d_x = W.T @ d_h
        grads[0] += np.outer(d_h, x)
        grads[1] += np.outer(d, h)
        grads[2][one] += d_x[:3]
        grads[2][other] += d_x[3:]
    return total, grads


@pytest.fixture(params=["native", "xla"], autouse=True)
def tier(request, monkeypatch):
    """What computes."""
    monkeypatch.setattr(RUNTIME, "tier", request.param)


def test_a_step_of_training():
    """Value, gradients and update are those of NumPy."""
    model = Model()
    trainer = dy.SimpleSGDTrainer(model.pc, 0.1)
    loss = model.loss(PAIRS)
    expected, (d_w, d_out, d_e) = reference(W, OUT, E)
    assert loss.value() == pytest.approx(expected, rel=1e-5)
    loss.backward()
    np.testing.assert_allclose(model.W.grad_as_array(), d_w, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(model.words.grad_as_array(), d_e, rtol=1e-4, atol=1e-6)
    size = np.sqrt(sum(float((g**2).sum()) for g in (d_w, d_out, d_e)))
    step = 0.1 * min(1, 5 / size)  # DyNet's threshold
    trainer.update()
    now = [p.as_array() for p in (model.W, model.out, model.words)]
    for array, before, gradient in zip(
        now, (W, OUT, E), (d_w, d_out, d_e), strict=True
    ):
        np.testing.assert_allclose(
            array, before - step * gradient, rtol=1e-4, atol=1e-6
        )


def test_a_model_comes_back_from_its_file(tmp_path):
    model, other = Model(), Model()
    other.W.scale(0)
    model.pc.save(str(tmp_path / "model"))
    other.pc.populate(str(tmp_path / "model"))
    assert other.loss(PAIRS).value() == model.loss(PAIRS).value()


def test_a_graph_that_grows_by_what_is_read():
    dy.renew_cg()
    x, steps = dy.scalarInput(3.0), 0
    while x.value() > 0.1:
        x, steps = x * 0.5, steps + 1
    assert (steps, x.value()) == (5, pytest.approx(3 / 32))
