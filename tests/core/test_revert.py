"""cg_checkpoint and cg_revert."""

import numpy as np
import pytest

import dynetjax as dy
from dynetjax.engine import policy

from ..backends import on_cpu

START = np.array([0.5, -1.0, 2.0])


@pytest.fixture
def w():
    dy.renew_cg()
    pc = dy.ParameterCollection()
    return pc.parameters_from_numpy(np.array([[0.5, -0.2, 0.1]] * 3))


def grown(w, x, steps):
    for _ in range(steps):
        x = dy.tanh(w * x)
    return x


def expected(steps):
    x = START
    for _ in range(steps):
        x = np.tanh(np.array([[0.5, -0.2, 0.1]] * 3) @ x)
    return x


@pytest.mark.parametrize("read", [True, False])
def test_going_on_in_several_ways(w, read):
    x = grown(w, dy.inputVector(START), 2)
    if read:
        x.value()
    for steps in (1, 3, 2):
        dy.cg_checkpoint()
        np.testing.assert_allclose(
            grown(w, x, steps).npvalue(), expected(2 + steps), rtol=1e-5
        )
        dy.cg_revert()
    np.testing.assert_allclose(grown(w, x, 1).npvalue(), expected(3), rtol=1e-5)
    np.testing.assert_allclose(x.npvalue(), expected(2), rtol=1e-5)


def test_marks_pile_up(w):
    x = dy.inputVector(START)
    dy.cg_checkpoint()
    y = grown(w, x, 1)
    dy.cg_checkpoint()
    z = grown(w, y, 1)
    assert z.npvalue() == pytest.approx(expected(2), rel=1e-5)
    dy.cg_revert()
    assert y.npvalue() == pytest.approx(expected(1), rel=1e-5)
    dy.cg_revert()
    assert len(x.graph) == 1
    dy.cg_revert()  # no mark is left
    assert len(x.graph) == 1


def test_an_empty_graph_can_be_marked(w):
    dy.cg_checkpoint()
    grown(w, dy.inputVector(START), 1).value()
    dy.cg_revert()
    assert grown(w, dy.inputVector(START), 1).npvalue() == pytest.approx(
        expected(1), rel=1e-5
    )


def test_what_was_cut_is_stale(w):
    x = dy.inputVector(START)
    dy.cg_checkpoint()
    y = grown(w, x, 1)
    y.value()
    dy.cg_revert()
    with pytest.raises(RuntimeError, match=r"cut by cg_revert\(\)"):
        y.value()
    with pytest.raises(ValueError, match=r"cut by cg_revert\(\)"):
        x + y
    with pytest.raises(ValueError, match=r"cut by cg_revert\(\)"):
        dy.esum([x, y])


def test_a_sum_that_went_on_is_what_it_was():
    """Reading it makes partial sums after the mark, which are cut with the rest."""
    dy.renew_cg()
    total = dy.scalarInput(0.0)
    for k in range(30):
        total = total + dy.scalarInput(float(k))
    dy.cg_checkpoint()
    longer = total + dy.scalarInput(100.0)
    assert total.value() == pytest.approx(435)
    assert longer.value() == pytest.approx(535)
    dy.cg_revert()
    assert total.value() == pytest.approx(435)
    assert (total + dy.scalarInput(1.0)).value() == pytest.approx(436)


def test_a_value_inside_another_that_was_read_after_the_mark(w):
    inner = dy.tanh(w * dy.inputVector(START))
    outer = dy.square(inner)
    dy.cg_checkpoint()
    further = dy.square(outer)
    further.value()
    inner.value()
    dy.cg_revert()
    assert inner.npvalue() == pytest.approx(expected(1), rel=1e-5)
    assert outer.npvalue() == pytest.approx(expected(1) ** 2, rel=1e-5)


def test_products_of_a_sum_that_was_entered_anew(w):
    """They belong to it, and are not what came last: the mark would cut them."""
    pc = dy.ParameterCollection()
    W, b = np.array([[0.5, -0.2, 0.1]] * 3), np.array([0.1, 0.2, 0.3])
    v, bias = pc.parameters_from_numpy(W.T), pc.parameters_from_numpy(b)
    xs = [dy.inputVector(START * k) for k in (1, 2, 3)]
    hs = [dy.inputVector(START)]
    for x in xs:  # v * x leaves the loop, so all is entered again
        hs.append(dy.tanh(dy.affine_transform([bias, v, x, w, hs[-1]])))
    loss = dy.esum([dy.squared_norm(h) for h in hs[1:]])
    dy.cg_checkpoint()
    dy.squared_norm(hs[1]).value()
    dy.cg_revert()
    right, h = 0.0, START
    for k in (1, 2, 3):
        h = np.tanh(b + W.T @ (START * k) + W @ h)
        right += h @ h
    np.testing.assert_allclose(loss.value(), right, rtol=1e-5)


def test_gradients_stay_when_their_loss_is_cut(w):
    x = dy.inputVector(START)
    dy.cg_checkpoint()
    loss = dy.sum_elems(dy.square(w * x))
    loss.backward()
    once = w.grad_as_array().copy()
    assert np.abs(once).max() > 0
    dy.cg_revert()
    np.testing.assert_array_equal(w.grad_as_array(), once)
    with pytest.raises(RuntimeError, match=r"no backward\(\)"):
        x.gradient()
    dy.sum_elems(dy.square(w * x)).backward()
    np.testing.assert_allclose(w.grad_as_array(), 2 * once, rtol=1e-5)


def test_masks_of_a_builder_are_drawn_again():
    pc = dy.ParameterCollection()
    lstm = dy.VanillaLSTMBuilder(1, 3, 4, pc)
    lstm.set_dropouts(0.5, 0.5)
    dy.renew_cg()
    state = lstm.initial_state()
    x = dy.inputVector(START)
    dy.cg_checkpoint()
    state.add_input(x).output().value()
    dy.cg_revert()
    assert np.isfinite(state.add_input(x).output().npvalue()).all()


def test_renew_cg_drops_marks(w):
    dy.cg_checkpoint()
    dy.renew_cg()
    x = dy.inputVector(START)
    dy.cg_revert()
    assert x.npvalue() == pytest.approx(START)


@on_cpu
@pytest.mark.skipif(not policy.native(), reason="another tier is asked for")
def test_tier_0_forgets_what_was_cut(w):
    x = grown(w, dy.inputVector(START), 1)
    x.value()
    count = len(x.graph.stored)
    dy.cg_checkpoint()
    grown(w, x, 5).value()
    last = len(x.graph.stored) - 1
    native = x.graph.state.native.graph
    native.rows(last)
    dy.cg_revert()
    native.rows(count - 1)
    with pytest.raises(IndexError, match="no such node"):
        native.rows(last)
    assert grown(w, x, 2).npvalue() == pytest.approx(
        grown(w, dy.inputVector(START), 3).npvalue()
    )
