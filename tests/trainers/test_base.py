"""What every trainer does around its rule, with gradients put in by hand."""

import gc

import jax.numpy as jnp
import numpy as np
import pytest

import dynetjax as dy
from dynetjax.model.collection import ParameterCollection
from dynetjax.trainers import base
from dynetjax.trainers.adadelta import AdadeltaTrainer
from dynetjax.trainers.adagrad import AdagradTrainer
from dynetjax.trainers.adam import AdamTrainer
from dynetjax.trainers.amsgrad import AmsgradTrainer
from dynetjax.trainers.cyclical import CyclicalSGDTrainer
from dynetjax.trainers.momentum import MomentumSGDTrainer
from dynetjax.trainers.rmsprop import RMSPropTrainer
from dynetjax.trainers.sgd import SimpleSGDTrainer

from .rules import (
    Adadelta,
    Adagrad,
    Adam,
    Amsgrad,
    Cyclical,
    Momentum,
    RmsProp,
    Sgd,
    clip_factor,
)

TRAINERS = [
    (SimpleSGDTrainer, Sgd),
    (CyclicalSGDTrainer, Cyclical),
    (MomentumSGDTrainer, Momentum),
    (AdagradTrainer, Adagrad),
    (AdadeltaTrainer, Adadelta),
    (RMSPropTrainer, RmsProp),
    (AdamTrainer, Adam),
    (AmsgradTrainer, Amsgrad),
]
ROWS = 6


def settled_update(trainer):
    """An update whose outcome is known, whichever executor made it."""
    trainer.update()
    trainer.check()


class World:
    """A parameter and a table, with what NumPy says their values should be."""

    def __init__(self, rule, seed=0):
        self.random = np.random.RandomState(seed)
        self.m = ParameterCollection()
        self.W = self.m.parameters_from_numpy(self.random.randn(3, 2))
        self.E = self.m.lookup_parameters_from_numpy(self.random.randn(ROWS, 4))
        self.w, self.e = self.W.as_array(), self.E.as_array()
        self.rule_w, self.rule_e = rule(self.w.shape), rule(self.e.shape)
        self.t = 0

    def backward(self, rows, size=1.0):
        """Gradients as the engine leaves them; returns them for `expect`."""
        g = size * self.random.randn(3, 2).astype(np.float32)
        values = size * self.random.randn(len(rows), 4).astype(np.float32)
        give(self.W.storage, g)
        add_rows(self.E.storage, rows, values)
        dense = np.zeros(self.e.shape)
        np.add.at(dense, rows, values)
        return g, dense

    def expect(self, g, dense, rows, threshold=5.0):
        """One update in NumPy."""
        self.t += 1
        factor = clip_factor([g, dense], threshold)
        everything = np.arange(len(self.w))
        self.w -= self.rule_w.direction(factor * g, everything, self.t)
        self.e[rows] -= self.rule_e.direction(factor * dense[rows], rows, self.t)

    def check(self):
        np.testing.assert_allclose(self.W.as_array(), self.w, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(self.E.as_array(), self.e, rtol=1e-5, atol=1e-6)


def give(storage, gradient):
    gradient = jnp.asarray(gradient, jnp.float32)
    old = storage.gradient
    storage.gradient = gradient if old is None else old + gradient
    storage.has_gradient = True


def add_rows(storage, rows, values):
    """With padding that must not count, as engines add it."""
    ids = np.full(8, len(storage.values) + 3, np.int32)
    ids[: len(rows)] = rows
    padded = np.full((8, values.shape[1]), np.nan, np.float32)
    padded[: len(rows)] = values
    storage.add_row_gradients(ids, jnp.asarray(padded))


@pytest.fixture(params=TRAINERS, ids=lambda pair: pair[0].__name__)
def pair(request):
    return request.param


class TestUpdate:
    @pytest.mark.parametrize("threshold", [5.0, 0.5, 0.0])
    def test_sparse(self, pair, threshold):
        """Touched rows move, the others and their state do not."""
        trainer_class, rule = pair
        world = World(rule)
        trainer = trainer_class(world.m)
        trainer.set_clip_threshold(threshold)
        for rows in [0, 1], [1], [2, 1, 4], [0], [5, 0]:
            gradients = world.backward(rows, size=2.0)
            trainer.update()
            world.expect(*gradients, rows, threshold)
            world.check()

    def test_dense(self, pair):
        """Without sparse updates the rule goes to every row."""
        trainer_class, rule = pair
        world = World(rule)
        trainer = trainer_class(world.m)
        trainer.set_sparse_updates(False)
        for rows in [0, 1], [1], [2, 1, 4]:
            gradients = world.backward(rows)
            trainer.update()
            world.expect(*gradients, np.arange(ROWS))
            world.check()

    def test_table_used_whole(self, pair):
        """A dense gradient makes the update dense, and row gradients add to it."""
        trainer_class, rule = pair
        world = World(rule)
        trainer = trainer_class(world.m)
        g, dense = world.backward([1, 3])
        whole = world.random.randn(ROWS, 4).astype(np.float32)
        give(world.E.storage, whole)
        trainer.update()
        world.expect(g, dense + whole, np.arange(ROWS))
        world.check()

    def test_several_backwards(self, pair):
        """Row gradients of several backwards, repeated rows too, are summed first."""
        trainer_class, rule = pair
        world = World(rule)
        trainer = trainer_class(world.m)
        g1, d1 = world.backward([0, 1])
        g2, d2 = world.backward([1, 1, 2])
        trainer.update()
        world.expect(g1 + g2, d1 + d2, [0, 1, 2])
        world.check()

    def test_clears_gradients(self, pair):
        world = World(pair[1])
        trainer = pair[0](world.m)
        world.backward([0])
        trainer.update()
        assert not world.W.grad_as_array().any()
        assert not world.E.grad_as_array().any()
        assert not world.W.storage.has_gradient
        assert not world.E.storage.has_gradient

    def test_without_a_gradient(self, pair):
        """Parameters take part with a zero gradient, rows stay."""
        trainer_class, rule = pair
        world = World(rule)
        trainer = trainer_class(world.m)
        gradients = world.backward([0, 1])
        trainer.update()
        world.expect(*gradients, [0, 1])
        for _ in range(3):
            trainer.update()
            world.expect(np.zeros((3, 2)), np.zeros((ROWS, 4)), [])
        world.check()

    def test_late_parameter(self):
        """A parameter made after the trainer starts with zero state and t."""
        world = World(Adam)
        trainer = AdamTrainer(world.m)
        for _ in range(3):
            trainer.update()
        late = world.m.add_subcollection().add_parameters(2, init=1.0)
        give(late.storage, np.array([1.0, -2.0]))
        trainer.update()
        rule = Adam((2,))
        expected = 1 - rule.direction(np.array([1.0, -2.0]), np.arange(2), 4)
        np.testing.assert_allclose(late.as_array(), expected, rtol=1e-6)

    def test_frozen(self):
        """A frozen parameter keeps its gradient, which counts in the norm."""
        world = World(Sgd)
        world.W.set_updated(False)
        world.E.set_updated(False)
        other = world.m.add_parameters(1, init=0.0)
        trainer = SimpleSGDTrainer(world.m)
        g, dense = world.backward([0, 2], size=4.0)
        give(other.storage, np.ones(1))
        trainer.update()
        factor = clip_factor([g, dense, np.ones(1)], 5.0)
        assert factor < 1
        np.testing.assert_allclose(other.as_array(), -0.1 * factor, rtol=1e-6)
        world.check()
        np.testing.assert_allclose(world.W.grad_as_array(), g, rtol=1e-6)
        np.testing.assert_allclose(world.E.grad_as_array(), dense, rtol=1e-6)

    def test_learning_rate(self):
        world = World(lambda shape: Sgd(shape, 0.5))
        trainer = SimpleSGDTrainer(world.m, learning_rate=0.1)
        trainer.learning_rate = 0.5
        gradients = world.backward([3])
        trainer.update()
        world.expect(*gradients, [3])
        world.check()

    def test_collection_of_tables_only(self):
        m = ParameterCollection()
        E = m.lookup_parameters_from_numpy(np.zeros((3, 2)))
        add_rows(E.storage, [1], np.ones((1, 2), np.float32))
        SimpleSGDTrainer(m, 1.0).update()
        assert E.as_array().tolist() == [[0, 0], [-1, -1], [0, 0]]

    def test_empty_collection(self):
        SimpleSGDTrainer(ParameterCollection()).update()

    @pytest.mark.usefixtures("by_xla")
    def test_compiles_little(self):
        """Other rates, thresholds, counts and numbers of rows: one program."""
        world = World(Sgd)
        trainer = AdamTrainer(world.m, beta_1=0.87)
        update = trainer._compiled()
        for k in range(1, 6):
            trainer.learning_rate = 0.1 / k
            trainer.set_clip_threshold(k)
            world.backward(list(range(k)))
            trainer.update()
        trainer.update()
        assert [len(p._programs) for p in update.programs.values()] == [1]


class TestRefusedUpdate:
    """Nothing changes but that its gradients are gone, and training goes on."""

    def setup_method(self):
        self.world = World(Adam)
        self.trainer = AdamTrainer(self.world.m)
        gradients = self.world.backward([0, 1])
        self.trainer.update()
        self.world.expect(*gradients, [0, 1])
        self.world.backward([1, 2])
        give(self.world.W.storage, np.full((3, 2), np.nan))

    @pytest.mark.usefixtures("by_xla")
    def test_check(self):
        self.trainer.update()
        with pytest.raises(RuntimeError, match="Magnitude of gradient is bad: nan"):
            self.trainer.check()
        self.world.check()

    def test_names_the_first_parameter(self):
        add_rows(self.world.E.storage, [3], np.full((1, 4), np.inf, np.float32))
        with pytest.raises(RuntimeError, match=r"got: +nan in the gradient of /_0"):
            settled_update(self.trainer)
        add_rows(self.world.E.storage, [3], np.full((1, 4), -np.inf, np.float32))
        with pytest.raises(RuntimeError, match=r"got: +inf in the gradient of /_1"):
            settled_update(self.trainer)

    def test_names_the_largest_if_all_are_numbers(self):
        with pytest.raises(RuntimeError):
            settled_update(self.trainer)
        give(self.world.W.storage, np.ones((3, 2)))
        add_rows(self.world.E.storage, [3], np.full((1, 4), 1e30, np.float32))
        with pytest.raises(RuntimeError, match=r"got: +1e\+30 in the gradient of /_1"):
            settled_update(self.trainer)

    @pytest.mark.usefixtures("by_xla")
    def test_it_is_told_when_something_is_read_that_was_read_before(self):
        x = dy.inputVector([1.0, 2.0])
        x.npvalue()
        self.trainer.update()
        with pytest.raises(RuntimeError, match="Magnitude of gradient is bad: nan"):
            x.npvalue()
        np.testing.assert_array_equal(x.npvalue(), [1, 2])

    @pytest.mark.usefixtures("by_xla")
    def test_a_trainer_that_is_gone(self):
        self.trainer.update()
        self.trainer = None
        gc.collect()
        base.check_pending()

    @pytest.mark.usefixtures("by_xla")
    @pytest.mark.usefixtures("by_xla")
    def test_check_pending(self):
        self.trainer.update()
        with pytest.raises(RuntimeError, match="no parameter was changed"):
            base.check_pending()
        base.check_pending()

    @pytest.mark.usefixtures("by_xla")
    def test_the_next_batch_can_follow(self):
        """All goes on as if the batch had not been there."""
        self.trainer.update()
        gradients = self.world.backward([1, 2])
        with pytest.raises(RuntimeError, match="fix:"):
            self.trainer.update()
        self.trainer.update()
        self.world.expect(*gradients, [1, 2])
        self.world.check()

    def test_frozen_parameter(self):
        """Its gradient would stay, and stop every update."""
        self.world.W.set_updated(False)
        with pytest.raises(RuntimeError, match=r"got: +nan in the gradient of /_0"):
            settled_update(self.trainer)
        assert not self.world.W.grad_as_array().any()
        self.trainer.update()
        self.trainer.check()

    def test_synchronous(self):
        base.set_async_checks(False)
        try:
            with pytest.raises(RuntimeError, match="is bad"):
                self.trainer.update()
        finally:
            base.set_async_checks(True)

    def test_without_clipping(self):
        self.trainer.set_clip_threshold(0)
        self.trainer.update()
        self.trainer.check()
        assert np.isnan(self.world.W.as_array()).all()


class TestSubset:
    """Of several parameters some are updated; the others count in the norm."""

    def setup_method(self):
        self.world = World(Sgd)
        self.other = self.world.m.add_parameters(1, init=0.0)
        self.trainer = SimpleSGDTrainer(self.world.m)
        self.g, self.dense = self.world.backward([0, 2], size=4.0)
        give(self.other.storage, np.ones(1))
        self.factor = clip_factor([self.g, self.dense, np.ones(1)], 5.0)

    def test_parameters(self):
        self.trainer.update_subset([0], [])
        assert self.factor < 1
        w = self.world.w - 0.1 * self.factor * self.g
        np.testing.assert_allclose(self.world.W.as_array(), w, rtol=1e-5)
        np.testing.assert_array_equal(self.world.E.as_array(), self.world.e)
        assert self.other.as_array() == 0
        assert not self.world.W.grad_as_array().any()
        np.testing.assert_allclose(self.world.E.grad_as_array(), self.dense, rtol=1e-6)
        assert self.other.grad_as_array() == 1

    def test_tables(self):
        self.trainer.update_subset([], [0])
        e = self.world.e - 0.1 * self.factor * self.dense
        np.testing.assert_allclose(self.world.E.as_array(), e, rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(self.world.W.as_array(), self.world.w)

    def test_frozen_ones_stay(self):
        self.world.W.set_updated(False)
        self.trainer.update_subset([0, 1], [0])
        np.testing.assert_array_equal(self.world.W.as_array(), self.world.w)
        np.testing.assert_allclose(self.other.as_array(), -0.1 * self.factor)

    @pytest.mark.parametrize("places", [([2], []), ([], [1]), ([-1], [])])
    def test_no_such_place(self, places):
        with pytest.raises(IndexError, match="update_subset: there is no such param"):
            self.trainer.update_subset(*places)
        np.testing.assert_allclose(self.world.W.grad_as_array(), self.g)


class TestRestart:
    def test_state_but_not_count(self):
        world = World(Adam)
        trainer = AdamTrainer(world.m)
        for rows in [0, 1], [1, 2]:
            gradients = world.backward(rows)
            trainer.update()
            world.expect(*gradients, rows)
        trainer.restart()
        world.rule_w, world.rule_e = Adam(world.w.shape), Adam(world.e.shape)
        gradients = world.backward([2])
        trainer.update()
        world.expect(*gradients, [2])
        world.check()

    def test_learning_rate(self):
        trainer = AdamTrainer(ParameterCollection())
        trainer.restart(0.25)
        assert trainer.learning_rate == 0.25


class TestStatus:
    def test_format(self, capsys):
        world = World(Sgd)
        trainer = SimpleSGDTrainer(world.m, 0.1234567)
        world.backward([0], size=100)
        trainer.update()
        trainer.update()
        trainer.status()
        assert capsys.readouterr().err == "[lr=0.123457 clips=1 updates=2] "
        trainer.status()
        assert capsys.readouterr().err == "[lr=0.123457 clips=0 updates=0] "

    def test_update_epoch(self, capsys):
        SimpleSGDTrainer(ParameterCollection()).update_epoch(1.0)
        assert "has been deprecated" in capsys.readouterr().err


class TestSettings:
    def test_learning_rate_is_float32(self):
        trainer = SimpleSGDTrainer(ParameterCollection())
        assert trainer.learning_rate == 0.10000000149011612
        trainer.set_learning_rate(0.5)
        assert trainer.learning_rate == 0.5

    def test_clip_threshold(self):
        trainer = SimpleSGDTrainer(ParameterCollection())
        assert trainer.get_clip_threshold() == 5.0
        trainer.set_clip_threshold(-1)
        assert trainer.get_clip_threshold() == 0.0

    def test_sparse_updates(self):
        trainer = SimpleSGDTrainer(ParameterCollection())
        assert trainer.sparse_updates_enabled
        trainer.set_sparse_updates(False)
        assert not trainer.sparse_updates_enabled

    def test_whoami(self, pair):
        trainer_class, _ = pair
        assert trainer_class(ParameterCollection()).whoami() == trainer_class.__name__

    def test_not_a_collection(self, pair):
        with pytest.raises(TypeError, match="m is no collection"):
            pair[0](3)

    def test_keeps_the_collection(self):
        m = ParameterCollection()
        W = m.add_parameters(2, init=1.0)
        trainer = SimpleSGDTrainer(m, 1.0)
        del m
        gc.collect()
        give(W.storage, np.ones(2))
        trainer.update()
        assert W.as_array().tolist() == [0, 0]
