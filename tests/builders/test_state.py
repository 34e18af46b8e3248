"""StackedRNNState; RNNState is tested with the builders."""

import numpy as np
import pytest

import dynetjax as dy

from .golden import flat, x


@pytest.fixture
def states():
    dy.renew_cg()
    m = dy.ParameterCollection()
    first = dy.VanillaLSTMBuilder(1, 3, 2, m)
    second = dy.CoupledLSTMBuilder(1, 2, 4, m)
    return [first.initial_state(), second.initial_state()]


def test_one_reads_the_other(states):
    stack = dy.StackedRNNState(states)
    after = stack.add_inputs([x(0), x(1)])
    lower = states[0].transduce([x(0), x(1)])
    upper = states[1].add_inputs(lower)
    np.testing.assert_allclose(
        after[-1].output().npvalue(), upper[-1].output().npvalue(), atol=1e-6
    )
    np.testing.assert_allclose(flat(after[-1].h()[1]), flat(upper[-1].h()), atol=1e-6)
    assert [len(s) for s in after[-1].s()] == [2, 2]
    assert after[1].prev() is after[0]
    assert after[0].prev() is stack
    assert stack.prev() is None


def test_states_are_in_a_list(states):
    with pytest.raises(TypeError, match="states is no list"):
        dy.StackedRNNState(tuple(states))
