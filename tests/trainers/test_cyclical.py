"""CyclicalSGDTrainer: the rate before each update, also around refused ones."""

import numpy as np
import pytest

import dynetjax as dy
from dynetjax.trainers import base

from .rules import Cyclical

# Of DyNet 2.1.2: CyclicalSGDTrainer(m, 0.1, 1.0, 4, 0.9), read before each update.
RATES = [
    0.10000000149011612,
    0.10000000149011612,
    0.3024999797344208,
    0.46449995040893555,
    0.5920749306678772,
    0.6904899477958679,
    0.498580664396286,
    0.3391484022140503,
    0.20761677622795105,
    0.10000000149011612,
]


class World:
    """One number that every update moves by the rate."""

    def __init__(self):
        self.m = dy.ParameterCollection()
        self.W = self.m.add_parameters(1, init=0.0)
        self.trainer = dy.CyclicalSGDTrainer(self.m, 0.1, 1.0, 4, 0.9)

    def update(self, factor=1.0, settled=False):
        dy.renew_cg()
        (dy.sum_elems(self.W) * factor).backward()
        self.trainer.update()
        if settled:
            self.trainer.check()

    def check(self, rates, following):
        """These were the rates so far, and that is the next."""
        np.testing.assert_allclose(self.W.as_array(), -sum(rates), rtol=1e-6)
        np.testing.assert_allclose(self.trainer.learning_rate, following, rtol=1e-6)


@pytest.fixture
def world():
    return World()


def test_rates(world):
    for k, rate in enumerate(RATES):
        world.check(RATES[:k], rate)
        world.update()


def test_formula_in_numpy():
    """The one that the tests of all trainers use."""
    numpy = Cyclical((1,), low=0.1, high=1.0, step_size=4, gamma=0.9)
    found = [numpy.rate_at(t) for t in range(1, 11)]
    np.testing.assert_allclose(found, RATES, rtol=1e-6)


def test_assigned_rate_lasts_one_update(world):
    world.update()
    world.trainer.learning_rate = 0.7
    world.update()
    world.check([RATES[0], 0.7], RATES[2])


def test_restart_does_not_begin_again(world):
    for _ in range(3):
        world.update()
    world.trainer.restart()
    world.check(RATES[:3], RATES[3])
    world.trainer.restart(0.7)
    world.update()
    world.check([*RATES[:3], 0.7], RATES[4])


def test_update_subset_is_an_update(world):
    world.update()
    world.trainer.update_subset([], [])
    world.check(RATES[:1], RATES[2])


def test_moving_averages(world):
    """They are taken at once, before the rate of the next update is read."""
    world.trainer.exponential_moving_average(0.5)
    for k in range(3):
        world.check(RATES[:k], RATES[k])
        world.update()


def test_status(world, capsys):
    for _ in range(4):
        world.update()
    world.trainer.status()
    assert capsys.readouterr().err == "[lr=0.592075 clips=0 updates=4] "


class TestRefused:
    """As if the update had not been."""

    @pytest.fixture
    def refused(self, world, by_xla):
        for _ in range(3):
            world.update()
        world.update(float("nan"))
        return world

    def go_on(self, world):
        world.W.storage.take_gradient()
        world.update()

    def test_check(self, refused):
        with pytest.raises(RuntimeError):
            refused.trainer.check()
        refused.check(RATES[:3], RATES[3])
        self.go_on(refused)
        refused.check(RATES[:4], RATES[4])

    def test_found_by_the_next_update(self, refused):
        with pytest.raises(RuntimeError):
            refused.trainer.update()
        refused.check(RATES[:3], RATES[3])
        self.go_on(refused)
        refused.check(RATES[:4], RATES[4])

    def test_at_once(self, world):
        world.update()
        base.set_async_checks(False)
        try:
            for _ in range(2):
                with pytest.raises(RuntimeError):
                    world.update(float("nan"))
        finally:
            base.set_async_checks(True)
        world.check(RATES[:1], RATES[1])

    def test_rate_assigned_before(self, world):
        world.trainer.learning_rate = 0.7
        with pytest.raises(RuntimeError):
            world.update(float("nan"), settled=True)
        world.check([], 0.7)
        self.go_on(world)
        world.check([0.7], RATES[1])

    def test_rate_assigned_after(self, refused):
        refused.trainer.learning_rate = 0.7
        with pytest.raises(RuntimeError):
            refused.trainer.check()
        refused.check(RATES[:3], 0.7)
        self.go_on(refused)
        refused.check([*RATES[:3], 0.7], RATES[4])


@pytest.mark.parametrize("step_size", [0, -4, float("nan")])
def test_step_size(step_size):
    with pytest.raises(ValueError, match="step_size is not above 0"):
        dy.CyclicalSGDTrainer(dy.ParameterCollection(), step_size=step_size)


def test_arguments():
    m = dy.ParameterCollection()
    assert dy.CyclicalSGDTrainer(m).learning_rate == np.float32(0.01)
    trainer = dy.CyclicalSGDTrainer(
        m, learning_rate_min=0.5, learning_rate_max=1.0, step_size=3, gamma=0.9
    )
    assert trainer.learning_rate == 0.5
