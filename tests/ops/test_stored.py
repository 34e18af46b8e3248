"""Which nodes are stored, and which become part of others, as graphs are seen."""

import threading

import numpy as np
import pytest

import dynetjax as dy
from dynetjax.core.registry import KINDS
from dynetjax.engine.parts import store


@pytest.fixture
def weights():
    """A matrix of its own: structures that no other test has touched.

    Ids of parameters that are gone are used again, and so is what they are part of.
    """
    pc = dy.ParameterCollection()
    while True:
        known = max(KINDS, default=-1)
        W = pc.parameters_from_numpy(np.random.default_rng(1).normal(size=(3, 3)))
        if W.signature.kind.id > known:
            return W


def stored(*nodes):
    graph = nodes[0].graph
    store(graph, [])
    return [graph.at(node.index) >= 0 for node in nodes]


def fused_ops(graph):
    stored = graph.stored
    return [stored.fused(n) for n in range(len(stored))]


def test_a_node_used_once_is_part_of_its_reader(weights):
    dy.renew_cg()
    product = weights * dy.inputVector([1.0, 2.0, 3.0])
    y = dy.tanh(product)
    y.value()
    assert stored(product, y) == [False, True]


def test_a_node_used_twice_is_stored_in_graphs_to_come(weights):
    def build():
        dy.renew_cg()
        inner = dy.exp(weights * dy.inputVector([1.0, 2.0, 3.0]))
        first, second = dy.square(inner), dy.sqrt(inner)
        return inner, dy.dot_product(first, second)

    before = build()[1].value()
    assert stored(build()[0]) == [True]
    assert build()[1].value() == pytest.approx(before, rel=1e-6)


def test_the_first_graph_is_like_the_next(weights):
    """It is stored again once more is known: no program is made in vain."""

    def run():
        dy.renew_cg()
        h = dy.inputVector([1.0, 2.0, 3.0])
        for _ in range(4):
            z = dy.logistic(weights * h)
            h = dy.cmult(z, dy.tanh(z))
        loss = dy.sum_elems(h)
        loss.value()
        return fused_ops(loss.graph)

    first = run()
    before = dy.stats().programs
    assert run() == first
    assert dy.stats().programs == before


@pytest.mark.parametrize("used", [dy.tanh, lambda x: x + 1, lambda x: dy.esum([x, x])])
def test_what_was_inlined_can_be_read_and_used_again(weights, used):
    dy.renew_cg()
    x = dy.inputVector([0.1, 0.2, 0.3])
    inner = dy.tanh(weights * x)
    outer = dy.square(inner)
    outer.value()
    expected = np.tanh(weights.as_array() @ [0.1, 0.2, 0.3])
    again = used(inner)
    np.testing.assert_allclose(inner.npvalue(), expected, rtol=1e-5)
    dy.renew_cg()
    given = used(dy.inputVector(expected)).npvalue()
    dy.renew_cg()
    inner = dy.tanh(weights * dy.inputVector([0.1, 0.2, 0.3]))
    outer, again = dy.square(inner), used(inner)
    np.testing.assert_allclose(again.npvalue(), given, rtol=1e-5)
    np.testing.assert_allclose(outer.npvalue(), expected**2, rtol=1e-5)


def test_an_operand_twice(weights):
    dy.renew_cg()
    inner = dy.tanh(weights * dy.inputVector([1.0, 2.0, 3.0]))
    expected = np.tanh(weights.as_array() @ [1, 2, 3]) ** 2
    np.testing.assert_allclose(dy.cmult(inner, inner).npvalue(), expected, rtol=1e-5)
    assert stored(inner) == [True]


def test_operands_of_contractions_are_stored(weights):
    dy.renew_cg()
    h = dy.tanh(weights * dy.inputVector([1.0, 2.0, 3.0]))
    weights * h
    assert stored(h) == [True]


def test_a_recurrence_ends_what_is_inlined(weights):
    """Every step of a chain looks like the next, however long the chain is."""

    def several(length):
        dy.renew_cg()
        h = dy.inputVector([0.1, 0.2, 0.3])
        for _ in range(length):
            h = dy.sin(dy.cmult(weights * dy.inputVector([1.0, 2.0, 3.0]), h))
        h.value()
        return {*fused_ops(h.graph)}

    several(3)
    assert several(5) == several(30)


def test_deep_expressions_are_cut(weights):
    """After eight levels."""
    dy.renew_cg()
    xs = [weights * dy.inputVector([0.1, 0.2, 0.3])]
    expected = weights.as_array() @ [0.1, 0.2, 0.3]
    pairs = [(dy.sin, np.sin), (dy.cos, np.cos), (dy.tanh, np.tanh), (dy.exp, np.exp)]
    for function, numpy in [*pairs, (dy.sinh, np.sinh), (dy.cosh, np.cosh)]:
        xs.append(function(xs[-1]))
        expected = numpy(expected)
    xs += [dy.log(xs[-1])]
    xs += [dy.square(xs[-1])]
    np.testing.assert_allclose(xs[-1].npvalue(), np.log(expected) ** 2, rtol=1e-4)
    assert stored(*xs) == [False] * 7 + [True, True]


class TestSums:
    def test_a_chain_is_one_sum(self, weights):
        """From the second graph on; and it takes as many stored nodes as an esum."""

        def stored_nodes(add_up):
            dy.renew_cg()
            terms = [
                dy.sum_elems(weights * dy.inputVector([float(k), 1.0, 2.0]))
                for k in range(20)
            ]
            total = add_up(terms)
            column = weights.as_array().sum(axis=0)
            wanted = sum(float(column @ [k, 1, 2]) for k in range(20))
            assert total.value() == pytest.approx(wanted, rel=1e-4)
            return len(total.graph.stored)

        assert stored_nodes(lambda t: sum(t[1:], t[0])) == stored_nodes(dy.esum)

    def test_a_few_additions_stay_in_a_node(self, weights):
        dy.renew_cg()
        parts = [
            dy.cmult(
                weights * dy.inputVector([1.0, 2.0, k]),
                weights * dy.inputVector([k, 1.0, 0.0]),
            )
            for k in (1.0, 2.0, 3.0)
        ]
        total = parts[0] + parts[1] + parts[2]
        total.value()
        assert stored(*parts, total) == [False, False, False, True]

    def test_a_partial_sum_that_is_used_elsewhere(self, weights):
        dy.renew_cg()
        terms = [
            dy.sum_elems(weights * dy.inputVector([k, 0.0, 1.0]))
            for k in (1.0, 2.0, 3.0)
        ]
        numbers = [float(weights.as_array().sum(axis=0) @ [k, 0, 1]) for k in (1, 2, 3)]
        some = dy.esum(terms[:2])
        every = dy.esum([some, terms[2]])
        product = dy.cmult(some, every)
        wanted = (numbers[0] + numbers[1]) * sum(numbers)
        assert product.value() == pytest.approx(wanted, rel=1e-4)


def test_what_was_a_part_is_stored_once_it_is_read(weights):
    """And so it is in graphs to come, where nobody has read it yet."""

    def build():
        dy.renew_cg()
        inner = dy.tanh(weights * dy.inputVector([1.0, 2.0, 3.0]))
        return inner, dy.square(inner)

    inner, outer = build()
    wanted = outer.npvalue()
    assert stored(inner) == [False]
    np.testing.assert_allclose(inner.npvalue() ** 2, wanted, rtol=1e-6)
    again, outer = build()
    np.testing.assert_array_equal(outer.npvalue(), wanted)
    assert stored(again) == [True]


def test_eight_threads_with_models_of_their_own():
    """Values and gradients, while each reads what is a part elsewhere."""
    errors = []
    start = threading.Barrier(8)

    def work(number):
        rng = np.random.default_rng(number)
        model = dy.ParameterCollection()
        w = rng.normal(size=(6, 6)).astype(np.float32)
        W = model.add_parameters((6, 6), init=dy.NumpyInitializer(w))
        start.wait()
        for turn in range(30):
            dy.renew_cg()
            x = rng.normal(size=6).astype(np.float32)
            h = dy.tanh(W * dy.inputVector(x))
            if turn % 3 == number % 3:
                h.npvalue()  # which stores it
            y = dy.tanh(h) * 2 if turn % 2 else dy.exp(h) + h
            loss = dy.sum_elems(dy.cmult(y, y))
            true_h = np.tanh(w @ x)
            true = np.tanh(true_h) * 2 if turn % 2 else np.exp(true_h) + true_h
            if not np.isclose(loss.value(), (true**2).sum(), rtol=1e-4):
                errors.append((number, turn, loss.value(), (true**2).sum()))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
