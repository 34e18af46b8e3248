"""Rows that wait: updates that come to the same as changing all rows at once."""

import numpy as np
import pytest

import dynetjax as dy
from dynetjax.trainers import base
from dynetjax.trainers.adam import missed_by_adam

from .test_base import settled_update

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
DENSE = {
    **TRAINERS,
    "Adagrad": lambda m: dy.AdagradTrainer(m, 0.05),
    "Adadelta": lambda m: dy.AdadeltaTrainer(m, 0.01),
    "AMSGrad": lambda m: dy.AmsgradTrainer(m, 0.05),
}


class World:
    """A table, and a parameter that gives its rows gradients."""

    def __init__(self, make, lazy=False):
        self.m = dy.ParameterCollection()
        random = np.random.RandomState(0)
        self.W = self.m.parameters_from_numpy(random.randn(3))
        self.E = self.m.lookup_parameters_from_numpy(random.randn(ROWS, 3))
        self.trainer = make(self.m, lazy_correct=True) if lazy else make(self.m)
        self.trainer.set_sparse_updates(lazy)
        self.least = base.LEAST

    def step(self, *rows):
        base.LEAST = self.least
        dy.renew_cg()
        W = self.W.expr(False)
        losses = [dy.dot_product(W + 0.1 * self.E[r], self.E[r]) for r in rows]
        loss = dy.esum(losses) + dy.squared_norm(self.W)
        value = loss.value()
        loss.backward()
        self.trainer.update()
        return value


def waiting(make):
    """A world of dense updates, in which rows of the smallest table wait."""
    world = World(make)
    world.least = -(2**20)  # for all rows may have a gradient
    return world


MADE = {
    f"{name}, lazy_correct": (lambda make: World(make, lazy=True), make)
    for name, make in TRAINERS.items()
}
MADE |= {name: (waiting, make) for name, make in DENSE.items()}


@pytest.fixture(params=MADE)
def pair(request, monkeypatch):
    """The same world with rows that wait, and with all rows changed at each update."""
    monkeypatch.setattr(base, "LEAST", base.LEAST)
    world, make = MADE[request.param]
    return world(make), World(make)


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


def test_rows_that_wait_for_some_updates_only(pair):
    waits = pair[0]
    waits.trainer.set_sparse_updates(False)
    waits.least = 0
    both(pair, 0, 1)
    both(pair, 2)
    waits.least = 1 + ROWS * 3
    both(pair, 3)
    waits.least = 0
    both(pair, 0)
    both(pair, 1)
    check(pair)


def test_uses_of_the_whole_table(pair):
    both(pair, 0, 1)
    both(pair, 2)
    for world in pair:
        dy.renew_cg()
        loss = dy.squared_norm(world.E) + dy.squared_norm(world.E[3])
        loss.backward()
        world.trainer.update()
    both(pair, 4)
    both(pair, 0)
    check(pair)


def test_with_averages(pair):
    for world in pair:
        world.trainer.exponential_moving_average(0.5)
    both(pair, 0, 1)
    both(pair, 2)
    check(pair)
    for world in pair:
        world.trainer.swap_params_to_moving_average()
    check(pair)


def test_from_sparse_to_dense_updates(pair):
    """Rows that sparse updates moved go on moving."""
    for world in pair:
        world.trainer.set_sparse_updates(True)
        world.step(0, 1)
        world.trainer.set_sparse_updates(False)
        world.step(2)
        world.step(3)
    check(pair)


def test_a_refused_update_is_none(pair):
    lazy, _ = pair
    both(pair, 0, 1)
    both(pair, 2)
    dy.renew_cg()
    (dy.sum_elems(lazy.E[2]) * float("nan")).backward()
    with pytest.raises(RuntimeError, match="is bad"):
        settled_update(lazy.trainer)
    both(pair, 2)
    both(pair, 0)
    check(pair)


@pytest.mark.parametrize("world", [waiting, lambda make: World(make, lazy=True)])
def test_rows_that_were_not_looked_up_are_not_written(world, monkeypatch):
    monkeypatch.setattr(base, "LEAST", base.LEAST)
    waits = world(TRAINERS["Adam"])
    waits.step(0, 1)
    before = np.array(waits.E.storage.stored)
    waits.step(1)
    after = np.array(waits.E.storage.stored)
    assert [r for r in range(ROWS) if (before[r] != after[r]).any()] == [1]


def test_with_weight_decay():
    lazy = World(TRAINERS["Adam"], True)
    lazy.m.set_weight_decay(0.1)
    with pytest.raises(ValueError, match="no weight decay with lazy_correct"):
        lazy.step(0)


def test_weight_decay_changes_all_rows(pair):
    both(pair, 0, 1)
    both(pair, 2)
    for world in pair:
        world.trainer.set_sparse_updates(False)
        world.m.set_weight_decay(0.1)
    both(pair, 3)
    for world in pair:
        world.m.set_weight_decay(0)
    both(pair, 4)
    both(pair, 0)
    check(pair)


def test_two_trainers(pair):
    """Rows wait for one at a time."""
    first = [world.trainer for world in pair]
    both(pair, 0, 1)
    others = [dy.AdamTrainer(world.m, 0.01) for world in pair]
    for trainers in others, first, others:
        for world, trainer in zip(pair, trainers, strict=True):
            trainer.set_sparse_updates(False)
            world.trainer = trainer
        both(pair, 2)
        both(pair, 3)
    check(pair)


def test_a_state_that_is_loaded(pair):
    both(pair, 0, 1)
    kept = [world.trainer.state_dict() for world in pair]
    both(pair, 2)
    for world, state in zip(pair, kept, strict=True):
        world.trainer.load_state_dict(state)
    both(pair, 3)
    both(pair, 0)
    check(pair)


@pytest.mark.parametrize("betas", [(0.9, 0.999), (0.9, 0.98), (0.5, 0.9), (0.0, 0.99)])
def test_the_sum_of_steps_of_adam(betas):
    """Against adding up in float64, from moments of all sizes."""
    eps, steps = 1e-8, 40
    rates = 0.1 * np.random.RandomState(2).uniform(0.5, 1, steps)
    m, v = np.array([1e-6, -0.1, 3.0, 2e-9]), np.array([1e-12, 0.5, 4.0, 1e-17])
    missed = missed_by_adam(*betas, eps)
    assert missed is not None
    assert missed.weights is not None
    first = 7
    factors = np.zeros(missed.length)
    expected, at = 0, np.arange(1, steps + 1)
    for j, rate in zip(at, rates, strict=True):
        f = missed.factor(first + j, rate)
        if j <= missed.length:
            factors[j - 1] = f
        t = first + j
        assert f == pytest.approx(
            rate * np.sqrt(1 - betas[1] ** t) / (1 - betas[0] ** t)
        )
        expected -= f * m * betas[0] ** j / (np.sqrt(v * betas[1] ** j) + eps)
    state = np.float32(m), np.float32(v)
    change, after = missed.catch_up(state, steps, np.float32(factors @ missed.weights))
    np.testing.assert_allclose(change, expected, rtol=2e-6)
    np.testing.assert_allclose(after[0], m * betas[0] ** steps, rtol=1e-5)
    np.testing.assert_allclose(after[1], v * betas[1] ** steps, rtol=1e-5)


def test_which_tables_wait():
    """Large ones, of which an update changes few rows; and they go on with it."""

    def waits(size, *counts):
        pc = dy.ParameterCollection()
        table = pc.add_lookup_parameters((size, 64))
        trainer = dy.AdamTrainer(pc)
        trainer.set_sparse_updates(False)
        for count in counts:
            dy.renew_cg()
            rows = table.batch([*range(count)])
            dy.sum_batches(dy.squared_norm(rows)).backward()
            trainer.update()
        return table.storage.deferred is not None

    assert waits(9000, 2)
    assert not waits(900, 2)
    assert not waits(9000, 4000)
    assert waits(9000, 2, 4000)
