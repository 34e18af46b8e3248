"""SimpleRNNBuilder and GRUBuilder: a state has nothing but outputs."""

import pytest

import dynetjax as dy

from .golden import fill_all, x

BUILDERS = [dy.SimpleRNNBuilder, dy.GRUBuilder]
pytestmark = pytest.mark.parametrize("builder", BUILDERS, indirect=True)


@pytest.fixture
def builder(request):
    dy.renew_cg()
    made = request.param(2, 3, 2, dy.ParameterCollection())
    fill_all(made)
    return made


def test_state(builder):
    state = builder.initial_state().add_input(x(0))
    assert len(state.s()) == 2
    assert state.s() == state.h()


def test_set_h_of_the_root(builder):
    outputs = [dy.inputVector([1.0, 2.0]) for _ in range(2)]
    state = builder.initial_state().set_h(outputs)
    assert state.s() == tuple(outputs)
    state.add_input(x(0)).output().npvalue()


def test_wrong_count(builder):
    state = builder.initial_state()
    with pytest.raises(ValueError, match="expected: 2, for 2 layers"):
        state.set_s([dy.inputVector([1.0, 2.0])] * 4)
