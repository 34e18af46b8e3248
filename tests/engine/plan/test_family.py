"""Facts of program families, from graphs of a few nodes."""

import numpy as np
import pytest

import dynetjax as dy
from dynetjax.core.tables import forget_all
from dynetjax.engine.plan.family import ABSENT
from dynetjax.graph import current_graph

SIZE = 3


class Net:
    """A recurrence of two ops, a state read twice in each step, and a loss."""

    def __init__(self):
        pc = dy.ParameterCollection()
        self.W = pc.parameters_from_numpy(np.eye(SIZE) / 2)
        self.words = pc.lookup_parameters_from_numpy(np.ones((4, SIZE)))

    def loss(self, steps, skip=None):
        """After so many steps; one of them may leave out the second op."""
        dy.renew_cg()
        h, given = self.words[0], dy.inputVector([0.5] * SIZE)
        for k in range(steps):
            gate = dy.tanh(self.W * h)
            h = gate if k == skip else dy.cmult(gate, h) + dy.cmult(gate, given)
        return dy.squared_norm(h)

    def without(self, steps):
        """A recurrence of the first op alone."""
        dy.renew_cg()
        h = self.words[0]
        for _ in range(steps):
            h = dy.tanh(self.W * h)
        return dy.squared_norm(h)


@pytest.fixture
def family(runtime):
    """Gives the family of a graph that was run, where no op is settled on before."""
    forget_all()

    def of(loss):
        loss.value()
        (run,) = current_graph().state.parts
        return run.layout.family

    return of


def named(family, name):
    """The op whose last operation has a name."""
    (op,) = [k for k, fused in enumerate(family.ops) if fused.label.startswith(name)]
    return op


def sizes_of_loops(family):
    """How many ops each loop has."""
    pairs = zip(family.components, family.cyclic, strict=True)
    return [len(ops) for ops, cyclic in pairs if cyclic]


def test_a_loop_forgets_an_op_that_is_idle(family):
    """After so many graphs without it; where it comes back, after twice as many."""
    net = Net()
    for rounds in 1, 2:
        assert sizes_of_loops(family(net.loss(5, 2))) == [2]
        for _ in range(rounds * ABSENT - 1):
            assert sizes_of_loops(family(net.without(5))) == [2]
        assert sizes_of_loops(family(net.without(5))) == [1]


def test_components(family):
    """The recurrence is one, in a loop; it comes after the table, before the loss."""
    found = family(Net().loss(5))
    gate = named(found, "tanh")
    loop = found.component[gate]
    assert len(found.components[loop]) == 2
    assert found.cyclic[loop]
    assert sum(found.cyclic) == 1
    assert found.component[named(found, "lookup")] < loop
    assert loop < found.component[named(found, "squared_norm")]


def test_what_depends_on_parameters(family):
    found = family(Net().loss(5))
    given = named(found, "input")
    assert given not in found.differentiable
    assert found.differentiable == {*range(len(found.ops))} - {given}


def test_aligned_leaves_are_so_until_a_graph_shows_otherwise(family):
    net = Net()
    found = family(net.loss(5))
    version, gate = found.version, named(found, "tanh")
    assert gate in found.aligned.values()  # the second op of a step reads the first
    assert family(net.loss(9)) is found
    assert found.version == version
    first = dy.esum([net.loss(4)])
    assert family(first) is not found  # another root


def test_more_graphs_of_a_program_change_nothing(family):
    net = Net()
    for steps in (3, 2, 8):
        found = family(net.loss(steps))
    version = found.version
    for steps in (1, 4, 17):
        assert family(net.loss(steps)) is found
    assert found.version == version


def test_values_where_a_step_is_unlike_the_others(runtime):
    """The state of one step is its gate: others read that from its pool, or as ever."""
    net = Net()
    for skip in (None, 2, 0, None, 3):
        h = np.ones(SIZE)
        for k in range(5):
            gate = np.tanh(h / 2)
            h = gate if k == skip else gate * h + gate * 0.5
        assert net.loss(5, skip).value() == pytest.approx(float(h @ h), rel=1e-5)
