"""Sequences that an LSTM reads in one go are those that it reads step by step."""

import numpy as np
import pytest

import dynetjax as dy
from dynetjax.graph import current_graph

SIZE, HIDDEN = 3, 4
LSTMS = [dy.VanillaLSTMBuilder, dy.CompactVanillaLSTMBuilder, dy.FastLSTMBuilder]


def words():
    pc = dy.ParameterCollection()
    return pc.lookup_parameters_from_numpy(np.arange(15).reshape(5, SIZE) / 15)


def alike(table):
    return [table[k % 5] for k in range(6)]


def taking_turns(table):
    """Rows, numbers from outside, something computed, and rows again."""
    given = [dy.inputVector([0.1 * k] * SIZE) for k in range(2)]
    return [table[0], table[1], *given, dy.tanh(table[2]), table[3], table[4]]


def in_batches(table):
    """One vector for all elements of a batch, and then one for each."""
    several = [dy.lookup_batch(table, [k, k + 1]) for k in range(3)]
    return [table[0], *several, table[4]]


def by_steps(state, xs):
    outputs = []
    for x in xs:
        state = state.add_input(x)
        outputs.append(state.output())
    return outputs


def at_once(state, xs):
    return state.transduce(xs)


def as_states(state, xs):
    return [s.output() for s in state.add_inputs(xs)]


def nodes_of(read, lstm, inputs, table):
    """What the graph of a sequence consists of, and its last output."""
    dy.renew_cg()
    (*_, last) = read(lstm.initial_state(), inputs(table))
    graph, value = current_graph(), last.npvalue()
    nodes = [(n.signature, n.index, n.lanes) for n in graph.nodes]
    stored = graph.stored
    ops = [(stored.fused(n), stored.reads(n)) for n in range(len(stored))]
    return nodes, ops, value


@pytest.mark.parametrize("read", [at_once, as_states])
@pytest.mark.parametrize("inputs", [alike, taking_turns, in_batches])
@pytest.mark.parametrize("kind", LSTMS, ids=lambda kind: kind.__name__)
def test_the_same_nodes(kind, inputs, read):
    table, lstm = words(), kind(1, SIZE, HIDDEN, dy.ParameterCollection())
    for _ in range(3):  # until the rules are settled
        nodes_of(by_steps, lstm, inputs, table)
        nodes_of(read, lstm, inputs, table)
    *expected, value = nodes_of(by_steps, lstm, inputs, table)
    *found, same = nodes_of(read, lstm, inputs, table)
    assert found == expected
    np.testing.assert_array_equal(value, same)


@pytest.mark.parametrize("kind", LSTMS, ids=lambda kind: kind.__name__)
def test_layers(kind):
    table, lstm = words(), kind(2, SIZE, HIDDEN, dy.ParameterCollection())
    dy.renew_cg()
    xs, root = alike(table), lstm.initial_state()
    ahead = root.add_inputs(xs[:2])[-1]
    expected = by_steps(by_steps_state(root, xs[:2]), xs[2:])
    found = ahead.transduce(xs[2:])
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.npvalue(), other.npvalue(), rtol=1e-5)
    (*_, state) = root.add_inputs(xs)
    assert len(state.s()) == 4
    np.testing.assert_array_equal(state.s()[-1].npvalue(), state.output().npvalue())


def by_steps_state(state, xs):
    for x in xs:
        state = state.add_input(x)
    return state


def test_dropout_has_one_mask_for_all_steps():
    """A mask is drawn once per graph, so a sequence with dropout is read by steps."""
    lstm = dy.VanillaLSTMBuilder(1, SIZE, HIDDEN, dy.ParameterCollection())
    lstm.set_dropouts(0.5, 0.0)
    table = words()
    dy.renew_cg()
    one, other = (at_once(lstm.initial_state(), alike(table)) for _ in range(2))
    np.testing.assert_array_equal(one[-1].npvalue(), other[-1].npvalue())


def test_noise_is_drawn_anew_at_every_step():
    lstm = dy.CompactVanillaLSTMBuilder(1, SIZE, HIDDEN, dy.ParameterCollection())
    lstm.set_weightnoise(0.5)
    table = words()
    dy.renew_cg()
    one, other = (at_once(lstm.initial_state(), alike(table)) for _ in range(2))
    assert not np.allclose(one[-1].npvalue(), other[-1].npvalue())


@pytest.mark.parametrize("read", [at_once, as_states])
def test_errors_are_those_of_a_step(read):
    lstm = dy.VanillaLSTMBuilder(1, SIZE, HIDDEN, dy.ParameterCollection())
    table = words()
    old = table[0]
    dy.renew_cg()
    root = lstm.initial_state()
    with pytest.raises(TypeError, match="add_input"):
        read(root, [table[0], 3])
    with pytest.raises(ValueError, match="stale"):
        read(root, [table[0], old])
    with pytest.raises(ValueError, match="2 numbers, input_dim is 3"):
        read(root, [table[0], dy.inputVector([1.0, 2.0])])
    none = dy.VanillaLSTMBuilder(0, SIZE, HIDDEN, dy.ParameterCollection())
    with pytest.raises(ValueError, match="no layers"):
        read(none.initial_state(), [table[0]])
