"""Values asked for while the graph is still growing."""

import numpy as np
import pytest

import dynetjax as dy
from dynetjax.engine.structure import Scope
from dynetjax.engine.tape import TapeWriter


@pytest.fixture
def weights():
    pc = dy.ParameterCollection()
    return pc.parameters_from_numpy(np.array([[0.5, -0.2], [0.1, 0.3]]))


def reference(steps):
    w, h = np.array([[0.5, -0.2], [0.1, 0.3]]), np.array([1.0, 2.0])
    found = []
    for _ in range(steps):
        h = np.tanh(w @ h)
        found.append(h)
    return found


def test_a_value_at_every_step(weights):
    dy.renew_cg()
    h = dy.inputVector([1.0, 2.0])
    for expected in reference(6):
        h = dy.tanh(weights * h)
        np.testing.assert_allclose(h.npvalue(), expected, rtol=1e-5)


def test_a_value_that_was_computed_inside_another(weights):
    """The inner node is used once, so nothing stored it; it is read all the same."""
    dy.renew_cg()
    inner = dy.tanh(weights * dy.inputVector([1.0, 2.0]))
    outer = dy.square(inner)
    expected = reference(1)[0]
    np.testing.assert_allclose(outer.npvalue(), expected**2, rtol=1e-5)
    np.testing.assert_allclose(inner.npvalue(), expected, rtol=1e-5)
    np.testing.assert_allclose((inner + 1).npvalue(), expected + 1, rtol=1e-5)


def test_a_value_inside_a_long_sum():
    """Additions in the middle of a chain are partial sums of another shape."""
    dy.renew_cg()
    partial = [dy.scalarInput(1.0)]
    for k in range(2, 31):
        partial.append(partial[-1] + dy.scalarInput(float(k)))
    assert partial[-1].value() == pytest.approx(465)
    for k in (3, 8, 15, 16, 22, 28):
        assert partial[k - 1].value() == pytest.approx(k * (k + 1) / 2)


def test_backward_after_values_in_the_middle(weights):
    def run(peek):
        dy.renew_cg()
        h = dy.inputVector([1.0, 2.0])
        for _ in range(4):
            h = dy.tanh(weights * h)
            if peek:
                h.value()
        dy.dot_product(h, h).backward()
        gradient = weights.grad_as_array()
        weights.scale_gradient(0)
        return gradient

    np.testing.assert_allclose(run(peek=True), run(peek=False), rtol=1e-5)


def test_the_program_decides_what_comes_next(weights):
    """Stops as soon as a value says so, as early-exit classifiers do."""
    dy.renew_cg()
    h, steps = dy.inputVector([1.0, 2.0]), 0
    while dy.dot_product(h, h).value() > 1e-3:
        h, steps = dy.tanh(weights * h), steps + 1
    norms = [float(v @ v) for v in reference(20)]
    assert steps == next(k for k, n in enumerate(norms, 1) if n <= 1e-3)


def test_set_and_recalculate():
    dy.renew_cg()
    x = dy.scalarInput(2.0)
    y = dy.square(x)
    assert y.value() == 4
    x.set(3.0)
    assert y.value() == 9


def test_a_parameter_keeps_its_value_until_recalculated():
    pc = dy.ParameterCollection()
    p = pc.parameters_from_numpy(np.array([1.0, 2.0]))
    dy.renew_cg()
    y = p * 2
    assert y.value() == [2, 4]
    p.set_value([5.0, 6.0])
    assert y.value() == [2, 4]
    assert y.value(recalculate=True) == [10, 12]


@pytest.mark.parametrize(
    ("owner", "method"), [(TapeWriter, "write"), (Scope, "_rebuild")], ids=str
)
def test_an_interrupted_run_leaves_nothing_behind(monkeypatch, owner, method):
    """What was cut off half way is not taken for the next graph of the structure."""

    def run(number):
        dy.renew_cg()
        x = dy.inputVector([number, 2.0, 3.0, 4.0, 5.0])
        wrapped = dy.tanh(x) if owner is TapeWriter else dy.tanh(dy.atanh(dy.tanh(x)))
        return dy.sum_elems(dy.square(wrapped))

    def interrupt(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(owner, method, interrupt)
        loss = run(1.0)
        with pytest.raises(KeyboardInterrupt):
            loss.value()
    expected = np.tanh([1.0, 2.0, 3.0, 4.0, 5.0])
    assert loss.value() == pytest.approx(float(expected @ expected), rel=1e-5)
    expected[0] = np.tanh(0.5)
    assert run(0.5).value() == pytest.approx(float(expected @ expected), rel=1e-5)


class TestGradient:
    def test_of_inner_nodes(self):
        pc = dy.ParameterCollection()
        w = pc.parameters_from_numpy(np.array([0.3, -0.4]))
        dy.renew_cg()
        y = dy.tanh(w)
        z = dy.square(y)
        loss = dy.sum_elems(z)
        loss.backward()
        t = np.tanh([0.3, -0.4])
        np.testing.assert_allclose(z.gradient(), [1, 1])
        np.testing.assert_allclose(y.gradient(), 2 * t, rtol=1e-5)
        np.testing.assert_allclose(w.gradient(), 2 * t * (1 - t**2), rtol=1e-5)
        np.testing.assert_allclose(w.grad_as_array(), w.gradient(), rtol=1e-6)

    def test_of_constants_is_zero_unless_full(self):
        pc = dy.ParameterCollection()
        w = pc.parameters_from_numpy(np.array([0.3, -0.4]))
        dy.renew_cg()
        x = dy.inputVector([2.0, 3.0])
        loss = dy.dot_product(x, w)
        loss.backward()
        np.testing.assert_array_equal(x.gradient(), [0, 0])
        loss.backward(full=True)
        np.testing.assert_allclose(x.gradient(), [0.3, -0.4], rtol=1e-6)

    def test_of_a_node_that_was_read_after_backward(self):
        pc = dy.ParameterCollection()
        w = pc.parameters_from_numpy(np.array([0.3, -0.4]))
        dy.renew_cg()
        x = dy.inputVector([2.0, 3.0])
        inner = dy.cmult(x, w)
        dy.sum_elems(dy.square(inner)).backward()
        np.testing.assert_allclose(inner.npvalue(), [0.6, -1.2], rtol=1e-6)
        np.testing.assert_allclose(inner.gradient(), [1.2, -2.4], rtol=1e-6)

    def test_before_any_backward(self):
        dy.renew_cg()
        x = dy.inputVector([2.0])
        with pytest.raises(RuntimeError, match=r"no backward\(\)"):
            x.gradient()

    def test_of_a_node_made_later(self):
        pc = dy.ParameterCollection()
        w = pc.parameters_from_numpy(np.array([0.3]))
        dy.renew_cg()
        dy.square(w).backward()
        later = dy.square(w)
        with pytest.raises(RuntimeError, match="made after the last backward"):
            later.gradient()

    def test_backward_twice_adds_up(self):
        pc = dy.ParameterCollection()
        w = pc.parameters_from_numpy(np.array([0.5]))
        dy.renew_cg()
        loss = dy.square(w)
        loss.backward()
        loss.backward()
        assert w.grad_as_array()[0] == pytest.approx(2.0)


def test_backward_of_more_than_one_number():
    dy.renew_cg()
    with pytest.raises(ValueError, match=r"backward: the expression is not one number"):
        dy.inputVector([1.0, 2.0]).backward()


def test_backward_of_a_batched_loss():
    dy.renew_cg()
    x = dy.inputTensor(np.ones((1, 3)), batched=True)
    with pytest.raises(ValueError, match=r"\{1X3\}"):
        x.backward()
