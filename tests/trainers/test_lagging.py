"""lazy_correct: sparse updates that come to the same as dense ones."""

import numpy as np
import pytest

import dynetjax as dy

ROWS = 7
TRAINERS = {
    "Adam": lambda m, **options: dy.AdamTrainer(m, 0.05, **options),
    "AdamOfFewSteps": lambda m, **options: dy.AdamTrainer(
        m, 0.05, beta_1=0.3, beta_2=0.9, eps=0.1, **options
    ),
    "AdamWithoutEnd": lambda m, **options: dy.AdamTrainer(
        m, 0.05, beta_1=0.95, beta_2=0.8, **options
    ),
    "Momentum": lambda m, **options: dy.MomentumSGDTrainer(m, 0.05, **options),
    "RMSProp": lambda m, **options: dy.RMSPropTrainer(m, 0.05, **options),
}


class World:
    """A table, and a parameter that gives its rows gradients."""

    def __init__(self, make, lazy):
        self.m = dy.ParameterCollection()
        random = np.random.RandomState(0)
        self.W = self.m.parameters_from_numpy(random.randn(3))
        self.E = self.m.lookup_parameters_from_numpy(random.randn(ROWS, 3))
        self.trainer = make(self.m, lazy_correct=True) if lazy else make(self.m)
        self.trainer.set_sparse_updates(lazy)

    def step(self, *rows):
        dy.renew_cg()
        W = self.W.expr(False)
        losses = [dy.dot_product(W + 0.1 * self.E[r], self.E[r]) for r in rows]
        loss = dy.esum(losses) + dy.squared_norm(self.W)
        value = loss.value()
        loss.backward()
        self.trainer.update()
        return value


@pytest.fixture(params=TRAINERS)
def pair(request):
    """The same world with lazy and with dense updates."""
    make = TRAINERS[request.param]
    return World(make, True), World(make, False)


def check(pair):
    lazy, dense = pair
    close = {"rtol": 2e-4, "atol": 2e-6}
    np.testing.assert_allclose(lazy.W.as_array(), dense.W.as_array(), **close)
    np.testing.assert_allclose(lazy.E.as_array(), dense.E.as_array(), **close)


def both(pair, *rows):
    first, second = [world.step(*rows) for world in pair]
    assert first == pytest.approx(second, rel=1e-3, abs=1e-5)


def test_rows_seen_now_and_then(pair):
    random = np.random.RandomState(1)
    for t in range(60):
        both(pair, *random.choice(ROWS - 2, 2))
        if t % 20 == 7:
            for world in pair:
                world.trainer.learning_rate *= 0.5
    both(pair, 5)
    check(pair)


def test_a_row_is_current_when_it_is_read(pair):
    """By a graph, or by the user: one row, several, or all."""
    lazy, dense = pair
    both(pair, 0, 1, 2)
    for _ in range(3):
        both(pair, 3)
    close = {"rtol": 1e-4}
    for world in pair:
        dy.renew_cg()
        world.found = [
            world.E.row_as_array(0),
            world.E[1].npvalue(),
            world.E.rows_as_array([2, 4]),
        ]
    for a, b in zip(lazy.found, dense.found, strict=True):
        np.testing.assert_allclose(a, b, **close)


def test_after_a_long_time(pair):
    both(pair, 0, 1)
    for _ in range(400):
        both(pair, 1)
    check(pair)


def test_edited_rows(pair):
    """A row that is set goes on from there."""
    both(pair, 0, 1)
    both(pair, 2)
    for world in pair:
        world.E.init_row(0, [1.0, 2.0, 3.0])
    both(pair, 2)
    both(pair, 0)
    for world in pair:
        world.E.scale(0.5)
    both(pair, 2)
    check(pair)


def test_restart(pair):
    both(pair, 0, 1)
    both(pair, 2)
    for world in pair:
        world.trainer.restart()
    both(pair, 2)
    both(pair, 1)
    check(pair)


def test_mixed_with_dense_updates(pair):
    both(pair, 0, 1)
    both(pair, 2)
    pair[0].trainer.set_sparse_updates(False)
    both(pair, 3)
    pair[0].trainer.set_sparse_updates(True)
    both(pair, 0)
    check(pair)


def test_a_refused_update_is_none(pair):
    lazy, _ = pair
    both(pair, 0, 1)
    both(pair, 2)
    dy.renew_cg()
    (dy.sum_elems(lazy.E[2]) * float("nan")).backward()
    lazy.trainer.update()
    with pytest.raises(RuntimeError, match="is bad"):
        lazy.trainer.check()
    both(pair, 2)
    both(pair, 0)
    check(pair)


def test_rows_that_were_not_looked_up_are_not_written():
    lazy = World(TRAINERS["Adam"], True)
    lazy.step(0, 1)
    before = np.array(lazy.E.storage.stored)
    lazy.step(1)
    after = np.array(lazy.E.storage.stored)
    assert [r for r in range(ROWS) if (before[r] != after[r]).any()] == [1]


def test_with_weight_decay():
    lazy = World(TRAINERS["Adam"], True)
    lazy.m.set_weight_decay(0.1)
    with pytest.raises(ValueError, match="no weight decay with lazy_correct"):
        lazy.step(0)


def test_two_trainers():
    lazy = World(TRAINERS["Adam"], True)
    lazy.step(0)
    other = dy.AdamTrainer(lazy.m, lazy_correct=True)
    with pytest.raises(ValueError, match="another trainer's rows"):
        other.update()
