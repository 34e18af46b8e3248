"""Finding where NaN and infinities come from."""

import numpy as np
import pytest

import dynetjax as dy


@pytest.fixture(autouse=True)
def graph():
    dy.renew_cg()


def test_all_is_well():
    assert dy.find_nonfinite(dy.sum_elems(dy.tanh(dy.inputVector([1.0, 2.0])))) is None


def test_in_forward():
    x = dy.inputVector([1.0, -2.0, 0.0])
    y = dy.log(x)
    found = dy.find_nonfinite(dy.sum_elems(y * 2 + 1))
    assert found.expression == y
    assert (found.operation, found.where) == ("log", "forward")
    assert found.operands == ("{3} from -2 to 1",)
    assert "log: the first value that is not finite (forward)" in str(found)
    assert "init(debug=True)" in str(found)


@pytest.fixture
def checked_at_once():
    dy.init(async_checks=False)
    yield
    dy.init(async_checks=True)


def bad_update():
    """An update with a gradient that is no number, from log(0)."""
    m = dy.ParameterCollection()
    w = m.add_parameters(2, init=0, name="w")
    trainer = dy.SimpleSGDTrainer(m)
    dy.sum_elems(dy.log(dy.cmult(w, dy.inputVector([1.0, 0])))).backward()
    trainer.update()
    return trainer


@pytest.mark.usefixtures("checked_at_once")
class TestARefusedUpdate:
    def test_tells_of_the_operation(self):
        match = r"in the gradient of /w, from log \(forward\) of \{2\} from 0 to 0\n"
        with pytest.raises(RuntimeError, match=match):
            bad_update()

    def test_tells_of_the_line(self):
        dy.init(debug=True)
        try:
            dy.renew_cg()
            match = r"log \(forward\) of .*, .*test_nonfinite.py:\d+"
            with pytest.raises(RuntimeError, match=match):
                bad_update()
        finally:
            dy.init(debug=False)

    def test_of_backward(self):
        m = dy.ParameterCollection()
        w = m.add_parameters(1, init=0, name="w")
        dy.sqrt(w).backward()
        with pytest.raises(RuntimeError, match=r"/w, from sqrt \(backward\)"):
            dy.SimpleSGDTrainer(m).update()

    def test_another_graph(self):
        """Of one that is gone nothing is told, nor of one that is all well."""
        m = dy.ParameterCollection()
        w = m.add_parameters(1, init=0, name="w")
        for renew in True, False:
            dy.sqrt(w).backward()
            dy.renew_cg()
            if not renew:
                dy.square(w).backward()
            with pytest.raises(RuntimeError, match="in the gradient of /w\n"):
                dy.SimpleSGDTrainer(m).update()


@pytest.mark.usefixtures("by_xla")
def test_a_refused_update_that_comes_out_later():
    trainer = bad_update()
    dy.renew_cg()
    with pytest.raises(RuntimeError, match=r"async_checks=False\) tells which"):
        dy.inputVector([1.0]).value()
    del trainer  # which would have died with its error


def test_what_is_not_part_of_it_does_not_matter():
    dy.log(dy.inputVector([0.0]))
    assert dy.find_nonfinite(dy.tanh(dy.inputVector([1.0]))) is None


def test_an_input():
    x = dy.inputVector([1.0, np.nan])
    found = dy.find_nonfinite(dy.tanh(x))
    assert (found.expression, found.operation, found.operands) == (x, "input", ())


def test_a_parameter():
    m = dy.ParameterCollection()
    W = m.parameters_from_numpy(np.array([np.inf]))
    found = dy.find_nonfinite(dy.tanh(W) + 1)
    assert (found.operation, found.where) == ("Parameter /_0", "forward")


def test_in_backward():
    """The root of 0 is 0; its slope is not finite. Gradients stay as they are."""
    m = dy.ParameterCollection()
    W = m.add_parameters(2, init=0.0)
    E = m.add_lookup_parameters((3, 2), init=1.0)
    dy.sum_elems(dy.cmult(W, E[1])).backward()
    before = W.grad_as_array(), E.grad_as_array()
    dy.renew_cg()
    y = dy.sqrt(W)
    found = dy.find_nonfinite(dy.dot_product(y, E[0]))
    assert (found.operation, found.where) == ("sqrt", "backward")
    assert found.expression == y
    assert "the first gradient that is not finite" in str(found)
    np.testing.assert_array_equal(W.grad_as_array(), before[0])
    np.testing.assert_array_equal(E.grad_as_array(), before[1])


def test_gradients_of_several_numbers_are_not_looked_for():
    m = dy.ParameterCollection()
    W = m.add_parameters(2, init=0.0)
    assert dy.find_nonfinite(dy.sqrt(W)) is None


def test_the_line_of_the_user():
    dy.init(debug=True)
    try:
        dy.renew_cg()
        found = dy.find_nonfinite(dy.log(dy.inputVector([0.0])))
    finally:
        dy.init(debug=False)
        dy.renew_cg()
    assert "test_nonfinite.py" in found.line
    assert "look at" in str(found)


def test_what_is_left_out_by_design():
    x = dy.log_softmax(dy.inputVector([1.0, 2.0, 3.0]), [0, 2])
    assert np.isneginf(x.npvalue()[1])
    assert dy.find_nonfinite(x) is None
    dy.renew_cg(immediate_compute=True, check_validity=True)
    x = dy.log_softmax(dy.inputVector([1.0, 2.0, 3.0]), [0, 2])
    assert dy.pick(x, 0).value() == pytest.approx(-np.log1p(np.exp(2)))
    with pytest.raises(RuntimeError, match="NaN or Inf detected"):
        dy.log_softmax(dy.inputVector([1.0, np.nan, 3.0]), [0, 1])
    dy.renew_cg()


def test_stale():
    x = dy.zeros(1)
    dy.renew_cg()
    with pytest.raises(RuntimeError, match="stale"):
        dy.find_nonfinite(x)
