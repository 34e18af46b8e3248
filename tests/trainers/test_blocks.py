"""Where the rule's state of parameters lies, and that it stays theirs."""

import jax.numpy as jnp
import numpy as np
import pytest

from dynetjax.model.collection import ParameterCollection
from dynetjax.model.storage import DenseStorage
from dynetjax.trainers import blocks
from dynetjax.trainers.adam import AdamTrainer, adam
from dynetjax.trainers.blocks import BlockStates
from dynetjax.trainers.eg import exponentiated_gradient
from dynetjax.trainers.flattening import join, split
from dynetjax.trainers.members import Members
from dynetjax.trainers.sgd import sgd
from dynetjax.trainers.update import Targets

from .rules import Adam


def storage(*shape):
    return DenseStorage("/W", np.zeros(shape))


def of(*blocks):
    return Members(blocks, [], [], [])


def state_of(states, block):
    return [np.array(leaf) for leaf in states.targets(of(block)).states[0]]


class TestJoin:
    def test_split_undoes_it(self):
        arrays = [jnp.ones((2, 3)), jnp.zeros(()), jnp.arange(4.0)]
        flat = join(arrays)
        assert flat.tolist() == [1] * 6 + [0] + [0, 1, 2, 3]
        for old, new in zip(arrays, split(flat, [(2, 3), (), (4,)]), strict=True):
            np.testing.assert_array_equal(old, new)


class TestBlocks:
    def setup_method(self):
        self.states = BlockStates(adam(0.9, 0.999, 1e-8))

    def test_small_together_large_alone(self, monkeypatch):
        monkeypatch.setattr(blocks, "SMALL", 4)
        a, b, c = storage(2), storage(5), storage(2, 2)
        assert self.states.arrange([a, b, c]) == ((a, c), (b,))

    def test_rule_without_state(self):
        """There is nothing to join."""
        states = BlockStates(sgd())
        a, b = storage(2), storage(3)
        assert states.arrange([a, b]) == ((a,), (b,))

    def test_rule_of_tensors(self):
        """Each parameter is one."""
        states = BlockStates(exponentiated_gradient(0.9))
        a, b = storage(2), storage(3)
        assert states.arrange([a, b]) == ((a,), (b,))

    def test_none(self):
        assert self.states.arrange([]) == ()

    def test_state_follows_its_parameter(self):
        """Into other blocks, out of all and back again; a new one gets zeros."""
        a, b, c = storage(2), storage(1, 2), storage(1)
        (both,) = self.states.arrange([a, b])
        flat = [jnp.array([1.0, 2, 3, 4]), jnp.array([5.0, 6, 7, 8])]
        self.states.put(of(both), Targets([tuple(flat)], [], []))
        (others,) = self.states.arrange([c, b])
        m, v = state_of(self.states, others)
        assert (m.tolist(), v.tolist()) == ([0, 3, 4], [0, 7, 8])
        (everything,) = self.states.arrange([a, b, c])
        m, v = state_of(self.states, everything)
        assert (m.tolist(), v.tolist()) == ([1, 2, 3, 4, 0], [5, 6, 7, 8, 0])
        self.states.clear()
        assert not any(leaf.any() for leaf in state_of(self.states, everything))
        (alone,) = self.states.arrange([a])
        assert not any(leaf.any() for leaf in state_of(self.states, alone))


@pytest.mark.parametrize("small", [0, 3, 2**16])
class TestTrained:
    """Blocks change nothing: each parameter by its own formula."""

    SHAPES = (2, 3), (3,), (), (4, 1)

    def test_freezing_in_turns(self, monkeypatch, small):
        """What is frozen keeps its state, while others come and go."""
        monkeypatch.setattr(blocks, "SMALL", small)
        random = np.random.RandomState(0)
        m = ParameterCollection()
        start = [np.array(random.randn(*shape)) for shape in self.SHAPES]
        parameters = [m.parameters_from_numpy(x) for x in start[:3]]
        rules = [Adam(shape) for shape in self.SHAPES]
        trainer = AdamTrainer(m)
        trainer.set_clip_threshold(0)
        for t in range(1, 9):
            if t == 5:
                parameters.append(m.parameters_from_numpy(start[3]))
            for k, p in enumerate(parameters):
                p.set_updated((t + k) % 3 != 0)
                g = np.array(random.randn(*self.SHAPES[k]))
                p.storage.gradient = jnp.asarray(g, jnp.float32)
                if p.is_updated():
                    start[k] = start[k] - rules[k].direction(g, ..., t)
            trainer.update()
            for p, expected in zip(parameters, start, strict=False):
                np.testing.assert_allclose(p.as_array(), expected, rtol=1e-5, atol=1e-6)
