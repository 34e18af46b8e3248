"""Random keys that the executor makes, against those that NumPy makes for XLA."""

import jax.numpy as jnp
import numpy as np
import pytest
from bench import Tables, node, plain, program, stored

import dynetjax as dy
from dynetjax.core.registry import INPUT
from dynetjax.engine.ir.draws import Draws, keys_of
from dynetjax.engine.native import core
from dynetjax.engine.runtime import RUNTIME

SEEDS = 0, 1, 4294967295, 2**64 - 1, 123456789123456789
NODES = (0, 1), (3, 2), (4, 1), (5, 3), (6, 1), (9, 4), (1 << 20, 2), (2**31 - 1, 1)
GIVEN, DRAWN = range(2)


def halves(x, key):
    """Of a key, numbers that a float can hold."""
    return x + jnp.stack([key >> 16, key & 0xFFFF]).astype(jnp.float32)


class World:
    """A graph whose nodes tell the keys that they draw.

    Attributes:
        drawn: how many seeds were asked for.
    """

    def __init__(self, starts):
        programs = {
            GIVEN: plain(INPUT, 4),
            DRAWN: program(halves, (2, 2), (), [(2, 2)], "k"),
        }
        tables, self.drawn = Tables(programs), 0
        tables.draws = Draws(self._seed, starts)
        self.nodes = stored([node(GIVEN, given=np.zeros((1, 4), np.float32))])
        self.graph = core.Executor(tables)

    def _seed(self):
        self.drawn += 1
        return SEEDS[self.drawn - 1]

    def keys(self, *about):
        """Of new nodes (number, lanes)."""
        start = len(self.nodes)
        for number, n in about:
            self.nodes.add(*node(DRAWN, 0, lanes=n, data=[number]))
        assert self.graph.extend(self.nodes, start if start > 1 else 0) == -1
        found = [self._key(k) for k in range(start, len(self.nodes))]
        return np.concatenate(found)

    def _key(self, k):
        rows = np.frombuffer(self.graph.rows(k), np.float32).reshape(-1, 2, 2)
        high, low = rows.astype(np.uint32).transpose(1, 0, 2)
        return high << 16 | low


def expected(starts, *about):
    seeds = iter(SEEDS)
    numbers, lanes = np.array(about).T
    return keys_of(Draws(lambda: next(seeds), starts), numbers, lanes)


@pytest.mark.parametrize("starts", [[], [0], [4], [4, 4, 6], [3, 5, 9, 1 << 20]])
def test_keys_are_numpys(starts):
    world = World(starts)
    np.testing.assert_array_equal(world.keys(*NODES), expected(starts, *NODES))


def test_each_seed_is_asked_for_once():
    world = World([4])
    one_by_one = [world.keys(about) for about in NODES]
    np.testing.assert_array_equal(np.concatenate(one_by_one), expected([4], *NODES))
    assert world.drawn == 2


def test_numbers_that_begin_again_between_reads():
    starts = []
    world = World(starts)
    first = world.keys((2, 3))
    starts.append(5)
    later = world.keys((4, 1), (7, 2))
    wanted = expected([5], (2, 3), (4, 1), (7, 2))
    np.testing.assert_array_equal(np.concatenate([first, later]), wanted)


def test_of_a_graph_in_which_numbers_begin_again():
    """The third node comes as late after the seed was set as the first one."""
    dy.renew_cg()
    x = dy.inputVector([0.0, 0.0])
    values = []
    for begins in True, False, True:
        if begins:
            dy.reset_random_seed(11)
        values.append(dy.noise(x, 1.0).npvalue())
    assert (values[0] != values[1]).all()
    np.testing.assert_array_equal(values[0], values[2])


def test_both_tiers_draw_the_same(monkeypatch):
    found = []
    for tier in "native", "xla":
        monkeypatch.setattr(RUNTIME, "tier", tier)
        dy.reset_random_seed(3)
        dy.renew_cg()
        dy.noise(dy.scalarInput(1), 1.0).value()
        dy.reset_random_seed(4)
        x = dy.inputTensor(np.ones((4, 3)), batched=True)
        y = dy.dropout(x, 0.5)
        y.value()
        dy.cg_checkpoint()
        dy.dropout(y, 0.5).value()
        dy.cg_revert()
        found.append(dy.dropout(dy.concatenate([y, x]), 0.25).npvalue())
    np.testing.assert_array_equal(found[0], found[1])
