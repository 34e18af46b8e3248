"""A step that is made at once is the one that is made with every check."""

import numpy as np
import pytest

import dynetjax as dy
from dynetjax.engine.ir.structures import KNOWN
from dynetjax.graph import current_graph
from dynetjax.ops.linear import AFFINE_OP

BUILDERS = [dy.VanillaLSTMBuilder, dy.CompactVanillaLSTMBuilder, dy.FastLSTMBuilder]


@pytest.fixture(params=BUILDERS)
def build(request):
    """Makes a graph of two layers over six words, and returns the last output.

    The sizes are those of no other test.
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
    nodes = [(n.signature, n.index, n.lanes) for n in graph.nodes]
    operands = [[o.index for o in n.operands] for n in graph.nodes]
    parts = [[(o.signature, o.lanes) for o in n.parts] for n in graph.nodes]
    stored = graph.stored
    ops = [(stored.lanes(n), stored.reads(n)) for n in range(len(stored))]
    return nodes, operands, parts, ops


@pytest.mark.parametrize("batch", [1, 2])
def test_the_same_graph(build, batch):
    def made():
        last = build(batch)
        last.npvalue()
        return shown(last.graph)

    made()
    quick = made()
    KNOWN.forget()
    assert made() == quick


def test_the_same_graph_step_by_step():
    """Where values are read, too."""
    builder = dy.VanillaLSTMBuilder(1, 7, 7, dy.ParameterCollection())

    def build():
        dy.renew_cg()
        state = builder.initial_state().add_input(dy.inputVector(range(7)))
        for _ in range(3):
            state.output().value()
            state = state.add_input(state.output())
        return state.output()

    for _ in range(2):
        y = build()
        expected, quick = y.npvalue(), shown(y.graph)
    KNOWN.forget()
    build().npvalue()
    y = build()
    np.testing.assert_allclose(y.npvalue(), expected, rtol=1e-6, atol=1e-7)
    assert shown(y.graph) == quick


def test_a_part_that_somebody_reads(build):
    """The sum of a step is a part of its gates, until then."""
    for _ in range(2):
        y = build()
        expected = y.npvalue()
    total = next(n for n in current_graph().nodes if n.signature.op is AFFINE_OP)
    number = total.index
    assert current_graph().at(number) < 0
    total.npvalue()
    y = build()
    np.testing.assert_allclose(y.npvalue(), expected, rtol=1e-6, atol=1e-7)
    assert current_graph().at(number) >= 0


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
    builder = dy.VanillaLSTMBuilder(1, 5, 6, dy.ParameterCollection())
    for _ in range(2):
        dy.renew_cg()
        one, two = dy.inputVector(range(5)), dy.inputTensor(np.eye(5, 2), batched=True)
        builder.initial_state().transduce([two, two, one, two, two])[-1].npvalue()
    sums = [n for n in current_graph().nodes if n.signature.op is AFFINE_OP]
    products = [n.parts[1] for n in sums]
    batches = [n.lanes for n in products]
    assert batches == [2, 2, 1, 2, 2]
