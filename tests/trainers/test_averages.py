"""Moving averages, beside NumPy's."""

import numpy as np
import pytest

import dynetjax as dy

RATE = 0.5


class World:
    """A parameter and a table that every update moves by known steps."""

    def __init__(self):
        self.m = dy.ParameterCollection()
        self.W = self.m.add_parameters(2, init=1.0)
        self.E = self.m.add_lookup_parameters((3, 2), init=2.0)
        self.trainer = dy.SimpleSGDTrainer(self.m, RATE)
        self.seen = []

    def step(self, row=0):
        dy.renew_cg()
        x = dy.inputVector([1.0, 2.0])
        (dy.dot_product(self.W, x) + dy.dot_product(self.E[row], x)).backward()
        self.trainer.update()
        self.seen.append(self.now())

    def now(self):
        return np.concatenate([self.W.as_array(), self.E.as_array().ravel()])

    def check(self, expected):
        np.testing.assert_allclose(self.now(), expected, rtol=1e-5)


@pytest.fixture
def world():
    return World()


def test_exponential(world):
    world.trainer.exponential_moving_average(0.75)
    for row in 0, 1, 0:
        world.step(row)
    average = 0
    for values in world.seen:
        average = 0.75 * average + 0.25 * values
    world.trainer.swap_params_to_moving_average()
    world.check(average)
    world.trainer.swap_params_to_moving_average()  # they are there
    world.check(average)
    world.trainer.swap_params_to_weights()
    world.check(world.seen[-1])
    world.trainer.swap_params_to_moving_average(bias_correction=True)
    world.check(average / (1 - 0.75**3))


def test_cumulative(world):
    world.trainer.cumulative_moving_average()
    for row in 0, 1, 2, 1:
        world.step(row)
    world.trainer.swap_params_to_moving_average(bias_correction=True)
    world.check(np.mean(world.seen, axis=0))


def test_of_some_updates(world):
    """The first counts, and then every third."""
    world.trainer.cumulative_moving_average(update_freq=3)
    for _ in range(6):
        world.step()
    world.trainer.swap_params_to_moving_average()
    world.check(np.mean([world.seen[0], world.seen[3]], axis=0))


def test_update_swaps_back(world):
    world.trainer.cumulative_moving_average()
    world.step()
    world.step()
    world.trainer.swap_params_to_moving_average()
    world.step()
    step = world.seen[-1] - world.seen[-2]
    np.testing.assert_allclose(step[:4], -RATE * np.array([1, 2, 1, 2]), rtol=1e-5)


def test_late_parameters(world):
    """They have an average of the updates that they were there for."""
    world.trainer.cumulative_moving_average()
    world.step()
    late = world.m.add_parameters(1, init=3.0)
    world.trainer.swap_params_to_moving_average()
    assert late.as_array() == 3
    world.step()
    world.trainer.swap_params_to_moving_average()
    assert late.as_array() == 3


def test_a_refused_update_does_not_count(world):
    world.trainer.cumulative_moving_average()
    world.step()
    dy.renew_cg()
    (dy.sum_elems(world.W) * float("nan")).backward()
    with pytest.raises(RuntimeError, match="is bad"):
        world.trainer.update()
    world.trainer.swap_params_to_moving_average()
    world.check(world.seen[-1])


def test_without_the_weights(world):
    world.trainer.exponential_moving_average(0.5)
    world.step()
    world.trainer.swap_params_to_moving_average(save_weights=False)
    with pytest.raises(RuntimeError, match="the weights were not kept"):
        world.trainer.update()
    world.check(0.5 * world.seen[-1])


def test_wrong_use(world):
    trainer = world.trainer
    trainer.swap_params_to_weights()  # which are there
    with pytest.raises(RuntimeError, match="there are no averages"):
        trainer.swap_params_to_moving_average()
    with pytest.raises(ValueError, match="update_freq is out of range"):
        trainer.cumulative_moving_average(0)
    for beta in 0, 1, -0.5:
        with pytest.raises(ValueError, match="beta is out of range"):
            trainer.exponential_moving_average(beta)
    trainer.exponential_moving_average(0.5)
    with pytest.raises(RuntimeError, match="there are no averages"):
        trainer.swap_params_to_moving_average()
    world.step()
    with pytest.raises(RuntimeError, match="there were updates before"):
        trainer.exponential_moving_average(0.5)
