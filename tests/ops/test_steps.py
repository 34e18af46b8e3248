"""A step that is made at once is the one that is made with every check."""

import numpy as np
import pytest

import dynetjax as dy
from dynetjax.core import tables
from dynetjax.graph import current_graph
from dynetjax.ops import steps
from dynetjax.ops.linear import AFFINE_OP

BUILDERS = [dy.VanillaLSTMBuilder, dy.CompactVanillaLSTMBuilder, dy.FastLSTMBuilder]


class Nothing(dict):
    """A dict that keeps nothing."""

    def __setitem__(self, key, value):
        pass


@pytest.fixture(params=BUILDERS)
def build(request):
    """Makes a graph of two layers over six words, and returns the last output.

    The sizes are those of no other test, by which rules may have been settled.
    """
    model = dy.ParameterCollection()
    builder = request.param(2, 11, 13, model)
    table = model.add_lookup_parameters((5, 11))

    def build(batch=1):
        dy.renew_cg()
        rows = [[k % 5, (k + 1) % 5][:batch] for k in range(6)]
        xs = [dy.lookup_batch(table, r) for r in rows]
        return builder.initial_state().transduce(xs)[-1]

    return build


def shown(graph):
    """All that is decided about the nodes of a graph."""
    nodes = [(n.rule, n.spec, n.index, n.lanes, n.args) for n in graph.nodes]
    operands = [
        [o.index if o.graph else o.spec for o in n.operands] for n in graph.nodes
    ]
    stored_nodes = [
        (n.rule, n.spec, n.inner, n.args, n.lanes) for n in graph.stored_nodes
    ]
    return nodes, operands, stored_nodes


@pytest.mark.parametrize("batch", [1, 2])
def test_the_same_graph(build, batch, monkeypatch):
    for _ in range(3):  # until all rules are settled
        build(batch).npvalue()
    quick = shown(build(batch).graph)
    assert steps._known
    monkeypatch.setattr(steps, "_known", Nothing())
    assert shown(build(batch).graph) == quick


def test_the_same_graph_step_by_step(monkeypatch):
    """Where values are read, there is no loop, and products are parts of sums."""
    builder = dy.VanillaLSTMBuilder(1, 7, 7, dy.ParameterCollection())

    def build():
        dy.renew_cg()
        state = builder.initial_state().add_input(dy.inputVector(range(7)))
        for _ in range(3):
            state.output().value()
            state = state.add_input(state.output())
        return state.output()

    for _ in range(3):
        expected = build().npvalue()
    quick = shown(build().graph)
    assert any(not rules.stored for rules in steps._known.values())
    monkeypatch.setattr(steps, "_known", Nothing())
    y = build()
    assert shown(y.graph) == quick
    np.testing.assert_allclose(y.npvalue(), expected, rtol=1e-6, atol=1e-7)


def test_a_rule_that_changed_is_not_followed(build):
    """The sum of a step is a part of its gates, until somebody reads it."""
    tables.forget_all()  # and with them that other tests have read it
    for _ in range(3):
        expected = build().npvalue()
    sums = [n for n in current_graph().nodes if n.rule.signature.op is AFFINE_OP]
    assert not sums[0].rule.spec.stored
    sums[0].npvalue()
    np.testing.assert_allclose(build().npvalue(), expected, rtol=1e-6, atol=1e-7)
    again = current_graph().nodes[sums[0].index]
    assert again.rule is sums[0].rule
    assert again.rule.spec.stored
    assert again in current_graph().stored_nodes


def test_batches_of_different_sizes_are_stretched():
    """An input of one element, a state of two: the step is made with every check."""
    builder = dy.VanillaLSTMBuilder(1, 3, 4, dy.ParameterCollection())
    dy.renew_cg()
    one, two = dy.inputVector([1, 2, 3]), dy.inputTensor(np.eye(3)[:, :2], batched=True)
    state = builder.initial_state().add_inputs([one, two, one, one, one])[-1]
    apart = []
    for row in np.eye(3)[:2]:
        single = dy.inputVector(row)
        last = builder.initial_state().add_inputs([one, single, one, one, one])[-1]
        apart.append(last.output().npvalue())
    np.testing.assert_allclose(state.output().npvalue(), np.transpose(apart), rtol=1e-5)


def test_what_is_noted_of_a_stretched_input_is_for_no_other():
    """The sizes are those of no other test, whose rules are settled otherwise."""
    builder = dy.VanillaLSTMBuilder(1, 5, 6, dy.ParameterCollection())
    for _ in range(4):  # until all rules are settled
        dy.renew_cg()
        one, two = dy.inputVector(range(5)), dy.inputTensor(np.eye(5, 2), batched=True)
        builder.initial_state().transduce([two, two, one, two, two])[-1].npvalue()
    sums = [n.rule for n in current_graph().nodes if n.rule.signature.op is AFFINE_OP]
    assert [bool(rule.signature.broadcast) for rule in sums] == [0, 0, 1, 0, 0]
