"""What holds for every LSTM builder: a state has cells, too."""

import pytest

import dynetjax as dy

from .golden import fill_all, flat, x

BUILDERS = [
    dy.CoupledLSTMBuilder,
    dy.VanillaLSTMBuilder,
    dy.CompactVanillaLSTMBuilder,
    dy.SparseLSTMBuilder,
    dy.FastLSTMBuilder,
]
pytestmark = pytest.mark.parametrize("builder", BUILDERS, indirect=True)


@pytest.fixture
def builder(request):
    dy.renew_cg()
    made = request.param(2, 3, 2, dy.ParameterCollection())
    fill_all(made)
    return made


def test_cells_come_first(builder):
    state = builder.initial_state().add_input(x(0))
    assert len(state.s()) == 4
    assert state.h() == state.s()[2:]
    assert state.output() is state.s()[-1]


def test_cells_only(builder):
    """The outputs are those of the state itself; zeros before any input."""
    cells = [dy.inputVector([1.0, 2.0]) for _ in range(2)]
    state = builder.initial_state().add_input(x(0))
    builder.initial_state().add_input(x(1))
    assert state.set_s(cells).s() == (*cells, *state.h())
    from_root = builder.initial_state(cells)
    assert flat(from_root.h()).tolist() == [0, 0, 0, 0]


def test_set_h_of_the_root(builder):
    """The cells are zeros."""
    outputs = [dy.inputVector([1.0, 2.0]) for _ in range(2)]
    state = builder.initial_state().set_h(outputs)
    assert flat(state.s()[:2]).tolist() == [0, 0, 0, 0]
    assert state.h() == tuple(outputs)
    state.add_input(x(0)).output().npvalue()


def test_wrong_count(builder):
    state = builder.initial_state()
    with pytest.raises(ValueError, match="expected: 2 or 4, for 2 layers"):
        state.set_s([dy.inputVector([1.0, 2.0])] * 3)
