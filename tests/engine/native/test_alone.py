"""Graphs that C++ computes, and goes back through, without the engine's notes."""

import numpy as np
import pytest

import dynetjax as dy
from dynetjax.engine.runtime import RUNTIME
from dynetjax.graph import current_graph

VALUES = np.array([[1.0, 2.0, -1.0], [0.5, -2.0, 3.0]])
ROWS = np.arange(12.0).reshape(4, 3)
pytestmark = pytest.mark.usefixtures("natively")


class Model:
    """A matrix and a table, and a loss of a row; gradients by hand."""

    def __init__(self, decay=0.0):
        self.m = dy.ParameterCollection()
        self.m.set_weight_decay(decay)
        self.W = self.m.parameters_from_numpy(VALUES)
        self.E = self.m.lookup_parameters_from_numpy(ROWS)

    def loss(self, row=1, W=None):
        return dy.sum_elems(dy.square((self.W if W is None else W) * self.E[row]))

    def value(self, row=1):
        return np.sum((VALUES @ ROWS[row]) ** 2)

    def gradients(self, row=1):
        of_product = 2 * VALUES @ ROWS[row]
        of_table = np.zeros_like(ROWS)
        of_table[row] = VALUES.T @ of_product
        return np.outer(of_product, ROWS[row]), of_table

    def check(self, *rows):
        """The gradients are those of these losses."""
        several = [self.gradients(row) for row in rows]
        for x, wanted in zip((self.W, self.E), zip(*several, strict=True), strict=True):
            np.testing.assert_allclose(x.grad_as_array(), sum(wanted), rtol=1e-5)


@pytest.fixture
def model():
    """What is computed of it here is known: only new byte code comes from Python."""
    made = Model()
    for _ in range(2):  # the first time, what becomes part of what may be decided anew
        for W in made.W, made.W.expr(update=False):
            dy.renew_cg()
            made.loss(1, W).backward()
        dy.renew_cg()
        root = dy.sum_elems(made.E[1])
        (root + made.loss(2)).value()
    for x in made.W, made.E:
        x.storage.take_gradient()
    dy.renew_cg()
    return made


def alone():
    return current_graph()._state is None


def test_a_step(model):
    for row in 1, 2, 3:
        dy.renew_cg()
        loss = model.loss(row)
        assert loss.value() == pytest.approx(model.value(row))
        loss.backward()
        assert alone()
        model.check(row)
        assert model.W.storage.has_gradient
        assert model.E.storage.has_gradient
        dy.SimpleSGDTrainer(model.m, 0.0).update()
        assert not model.W.grad_as_array().any()
        assert not model.E.grad_as_array().any()
        assert not model.W.storage.has_gradient


def test_backward_computes_what_it_begins_with(model):
    model.loss().backward()
    assert alone()
    model.check(1)


def test_gradients_add_up(model):
    for _ in range(2):
        model.loss(1).backward()
        model.loss(3).backward()
    assert alone()
    model.check(1, 3, 1, 3)


def test_gradients_that_somebody_has(model):
    """They are not written to, neither when others are added nor after an update."""
    trainer, kept = dy.SimpleSGDTrainer(model.m, 0.0), []
    for row in 1, 2, 3, 1:
        dy.renew_cg()
        for _ in range(2):
            model.loss(row).backward()
            gradient = model.W.storage.gradient
            kept.append((gradient, gradient.copy()))
        trainer.update()
    for gradient, copy in kept:
        np.testing.assert_array_equal(gradient, copy)


def test_gradients_of_nodes(model):
    """They are there when they are asked for, and parameters have theirs once."""
    row = model.E[2]
    y = model.W * row
    loss = dy.sum_elems(dy.square(y))
    loss.backward()
    assert alone()
    of_y, of_row = 2 * VALUES @ ROWS[2], model.gradients(2)[1][2]
    np.testing.assert_allclose(row.gradient(), of_row, rtol=1e-5)
    np.testing.assert_allclose(y.gradient(), of_y, rtol=1e-5)
    np.testing.assert_allclose(model.W.gradient(), model.gradients(2)[0], rtol=1e-5)
    model.check(2)
    late = dy.tanh(loss)
    late.value()
    with pytest.raises(RuntimeError, match="made after the last backward"):
        late.gradient()
    loss.backward()
    model.check(2, 2)
    np.testing.assert_allclose(row.gradient(), of_row, rtol=1e-5)


@pytest.mark.parametrize("forget", ["revert", "recalculate", "renew"])
def test_what_is_no_root_any_more(model, forget):
    x = model.E[1]
    dy.cg_checkpoint()
    loss = dy.sum_elems(x)
    loss.backward()
    if forget == "revert":
        dy.cg_revert()
    elif forget == "recalculate":
        loss.value(recalculate=True)
    else:
        dy.renew_cg()
        x = model.E[1]
    with pytest.raises(RuntimeError, match=r"no backward\(\)"):
        x.gradient()


def test_constant_parameters(model):
    """No gradient reaches them, and none is noted."""
    model.loss(1, model.W.expr(update=False)).backward()
    assert alone()
    assert model.W.storage.gradient is None
    assert not model.W.storage.has_gradient
    assert model.E.storage.has_gradient


def test_parameters_beyond_the_root(model):
    root = dy.sum_elems(model.E[1])
    (root + model.loss(2)).value()
    root.backward()
    assert alone()
    assert not model.W.storage.has_gradient
    assert not model.W.grad_as_array().any()
    assert model.E.grad_as_array()[[1, 2]].tolist() == [[1, 1, 1], [0, 0, 0]]


@pytest.mark.parametrize("full", [False, True])
def test_what_is_for_python(model, full):
    """Gradients of constants, and of what is computed of parameters."""
    x = dy.inputVector([1.0, 2.0, 3.0])
    W = model.W if full else model.W * 2
    dy.sum_elems(W * x).backward(full)
    assert not alone()
    wanted = np.tile([1.0, 2, 3], (2, 1)) * (1 if full else 2)
    np.testing.assert_allclose(model.W.grad_as_array(), wanted)
    if full:
        np.testing.assert_allclose(x.gradient(), VALUES.sum(0))


def test_values_stay_as_first_read(model, monkeypatch):
    """Also where another tier computes what comes later, of the same parameters."""
    model.loss(1).value()
    assert alone()
    model.W.set_value(-3 * VALUES)
    assert model.loss(1).value() == pytest.approx(model.value(1))
    monkeypatch.setattr(RUNTIME, "tier", "xla")
    current_graph().use_executor(None)
    y = dy.tanh(model.W * dy.inputVector([0.1, 0.2, 0.3]))
    np.testing.assert_allclose(
        y.npvalue(), np.tanh(VALUES @ [0.1, 0.2, 0.3]), rtol=1e-5
    )


@pytest.mark.parametrize("sparse", [True, False])
def test_tables_that_decay_or_wait(sparse):
    model = Model(decay=0.1 if sparse else 0.0)
    trainer = dy.AdamTrainer(model.m, 0.01)
    trainer.set_sparse_updates(sparse)
    for row in 0, 1, 2, 3, 0:
        dy.renew_cg()
        np.testing.assert_allclose(
            model.E[row].npvalue(), model.E.as_array()[row], rtol=1e-6
        )
        model.loss(row).backward()
        trainer.update()


def test_arrays_of_other_kinds(model):
    """Whatever a parameter has been set to, the values are right."""
    for values in np.asfortranarray(VALUES, np.float32), VALUES.astype(np.float32)[::1]:
        model.W.storage.values = values
        dy.renew_cg()
        assert model.loss(2).value() == pytest.approx(model.value(2))
    model.W.storage.values  # noqa: B018  (moves them to the device, too)
    dy.renew_cg()
    assert model.loss(2).value() == pytest.approx(model.value(2))


def immediately(model, **about):
    """A loss, each node of which is computed when it is made."""
    dy.renew_cg(immediate_compute=True, **about)
    return model.loss(2)


@pytest.mark.parametrize("check_validity", [False, True])
def test_graphs_computed_at_once(model, check_validity):
    for _ in range(3):
        loss = immediately(model, check_validity=check_validity)
    graph = loss.graph
    assert alone()
    count = graph.executor.count
    assert count == len(graph.stored) == len(graph) == 4
    assert loss.value() == pytest.approx(model.value(2))
    assert graph.executor.count == count
    loss.backward()
    model.check(2)
    assert alone()


def test_validity(model):
    """Numbers that are none are told of at their line, and those that are meant not."""
    for _ in range(3):
        loss = immediately(model, check_validity=True)
        with pytest.raises(RuntimeError, match="log: NaN or Inf detected"):
            dy.log(loss * -1)
        assert loss.value() == pytest.approx(model.value(2))
        immediately(model)
        assert np.isnan(dy.log(model.loss(2) * -1).value())
