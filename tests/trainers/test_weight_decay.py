"""Weight decay: what a user reads is the true value, whatever is stored."""

import numpy as np
import pytest

import dynetjax as dy
from dynetjax.core.registry import Scaled
from dynetjax.model import storage

from .test_base import settled_update

RATE, DECAY, ROWS = 0.1, 0.07, 4


class World:
    """Two parameters and a table, in a collection that decays."""

    def __init__(self, decay=DECAY):
        self.m = dy.ParameterCollection()
        self.m.set_weight_decay(decay)
        random = np.random.RandomState(0)
        self.W = self.m.parameters_from_numpy(random.randn(3))
        self.frozen = self.m.parameters_from_numpy(random.randn(3))
        self.frozen.set_updated(False)
        self.E = self.m.lookup_parameters_from_numpy(random.randn(ROWS, 3))
        self.w, self.e = self.W.as_array(), self.E.as_array()
        self.f = self.frozen.as_array()

    def step(self, trainer, row):
        """One update, here and in NumPy: v <- (v - rate * g) * (1 - decay)."""
        dy.renew_cg()
        loss = dy.dot_product(self.W, self.E[row])
        np.testing.assert_allclose(loss.value(), self.w @ self.e[row], rtol=1e-4)
        loss.backward()
        trainer.update()
        self.w, row_gradient = self.w - RATE * self.e[row], self.w
        self.e[row] -= RATE * row_gradient
        self.w, self.e = self.w * (1 - DECAY), self.e * (1 - DECAY)

    def check(self):
        np.testing.assert_allclose(self.W.as_array(), self.w, rtol=1e-4)
        np.testing.assert_allclose(self.E.as_array(), self.e, rtol=1e-4)
        np.testing.assert_array_equal(self.frozen.as_array(), self.f)


@pytest.fixture
def world():
    return World()


def sgd(world):
    trainer = dy.SimpleSGDTrainer(world.m, RATE)
    trainer.set_clip_threshold(1e6)
    return trainer


@pytest.mark.parametrize("sparse", [True, False])
def test_formula(world, sparse):
    """Also beyond the point where the factor of a table is taken into it."""
    trainer = sgd(world)
    trainer.set_sparse_updates(sparse)
    assert (1 - DECAY) ** 40 < storage.LEAST_FACTOR
    for k in range(40):
        world.step(trainer, k % 3)
    world.check()
    assert isinstance(world.E.storage.stored, Scaled)


def test_rows_that_nobody_touched_are_not_written(world):
    trainer = sgd(world)
    before = world.E.as_array()[3]
    world.step(trainer, 0)
    stored = world.E.storage.stored
    np.testing.assert_array_equal(np.asarray(stored.array)[3], before)
    np.testing.assert_allclose(stored.factor, 1 - DECAY)
    world.check()


def test_every_reader_shows_the_true_values(world):
    trainer = sgd(world)
    for row in 0, 1:
        world.step(trainer, row)
    close = {"rtol": 1e-5}
    np.testing.assert_allclose(world.E.row_as_array(2), world.e[2], **close)
    np.testing.assert_allclose(world.E.rows_as_array([3, 0]), world.e[[3, 0]], **close)
    dy.renew_cg()
    np.testing.assert_allclose(world.E[1].npvalue(), world.e[1], **close)
    batch = world.E.batch([2, 0]).npvalue()
    np.testing.assert_allclose(batch, world.e[[2, 0]].T, **close)
    np.testing.assert_allclose(dy.transpose(world.E).npvalue(), world.e, **close)
    np.testing.assert_allclose(world.E[1].npvalue(), world.e[1], **close)
    world.check()


def test_what_is_set_is_what_is_read(world):
    trainer = sgd(world)
    world.step(trainer, 0)
    world.W.set_value([1.0, 2.0, 3.0])
    world.E.init_row(1, [4.0, 5.0, 6.0])
    world.w, world.e[1] = np.array([1.0, 2.0, 3.0]), [4.0, 5.0, 6.0]
    world.check()
    world.step(trainer, 1)
    world.check()
    world.W.clip_inplace(-0.5, 0.5)
    world.E.scale(2)
    world.w, world.e = world.w.clip(-0.5, 0.5), world.e * 2
    world.step(trainer, 2)
    world.check()


def test_used_whole(world):
    """The gradient of a whole table, and an update of all its rows."""
    trainer = sgd(world)
    world.step(trainer, 0)
    dy.renew_cg()
    dy.sum_elems(dy.square(world.E)).backward()
    np.testing.assert_allclose(world.E.grad_as_array(), 2 * world.e, rtol=1e-5)
    trainer.update()
    world.e *= (1 - 2 * RATE) * (1 - DECAY)
    world.w *= 1 - DECAY
    world.check()


def test_a_refused_update_decays_nothing(world):
    trainer = sgd(world)
    world.step(trainer, 0)
    before = world.E.as_array(), world.W.as_array()
    dy.renew_cg()
    (dy.dot_product(world.W, world.E[1]) * float("nan")).backward()
    with pytest.raises(RuntimeError, match="Magnitude of gradient is bad: nan"):
        settled_update(trainer)
    np.testing.assert_array_equal(world.E.as_array(), before[0])
    np.testing.assert_array_equal(world.W.as_array(), before[1])


def test_sub_collections():
    """One made later begins with the number, and its trainer uses its own."""
    m = dy.ParameterCollection()
    before = m.add_subcollection()
    m.set_weight_decay(0.5)
    after = m.add_subcollection()
    assert before.get_weight_decay() == 0
    W = after.add_parameters(1, init=1.0)
    after.set_weight_decay_lambda(0.25)
    assert (m.get_weight_decay(), after.get_weight_decay()) == (0.5, 0.25)
    dy.SimpleSGDTrainer(after).update()
    assert W.as_array().tolist() == [0.75]
    dy.SimpleSGDTrainer(m).update()
    assert W.as_array().tolist() == [0.375]


def test_is_rounded_to_float32():
    m = dy.ParameterCollection()
    m.set_weight_decay(0.1)
    assert m.get_weight_decay() == float(np.float32(0.1))


@pytest.mark.parametrize("lam", [-0.1, 1, float("nan")])
def test_out_of_range(world, lam):
    with pytest.raises(ValueError, match="set_weight_decay: lam is out of range"):
        world.m.set_weight_decay(lam)
    assert world.m.get_weight_decay() == float(np.float32(DECAY))


def test_no_number(world):
    with pytest.raises(TypeError, match="expected a number"):
        world.m.set_weight_decay("0.1")
    with pytest.raises(AssertionError, match="lam is no float"):
        world.m.set_weight_decay_lambda(1)
