"""Plans of structures met before."""

from collections import OrderedDict

import numpy as np
import pytest

import dynetjax as dy
from dynetjax.engine import plan


def chain(length):
    """The value of as many products with 2."""
    dy.renew_cg()
    x = two = dy.scalarInput(2)
    for _ in range(length - 1):
        x = dy.cmult(x, two)
    return dy.sum_elems(x).value()


def programs():
    """What runs graphs of several structures, with all that a plan has."""
    m = dy.ParameterCollection()
    E, W = m.add_lookup_parameters((9, 3)), m.add_parameters((3, 3))
    lstm = dy.VanillaLSTMBuilder(1, 3, 3, m)

    def sentence(*words):
        hs = lstm.initial_state().transduce([E[w] for w in words])
        pairs = zip(hs, words, strict=True)
        return dy.esum([dy.pickneglogsoftmax(W * h, w % 3) for h, w in pairs])

    def batch():
        x = dy.lookup_batch(E, [3, 1, 4, 1])
        picked = dy.pick_batch_elems(dy.tanh(W * x), [0, 2])
        return dy.sum_batches(dy.sum_elems(dy.cmult(picked, picked)))

    def read_on_the_way():
        x = dy.tanh(W * E[5])
        return dy.squared_norm(x * x.npvalue().sum() + E[2])

    def given():
        x = dy.inputTensor(np.arange(6.0).reshape(3, 2), batched=True)
        return dy.sum_batches(dy.squared_norm(W * x + E[7]))

    def run(graph, *args):
        dy.renew_cg()
        loss = graph(*args)
        value = loss.value()
        loss.backward()
        found = value, W.grad_as_array(), E.grad_as_array()
        for p in m.parameters_list() + m.lookup_parameters_list():
            p.scale_gradient(0)
        return found

    def run_all():
        yield run(sentence, 1, 2, 3)
        yield run(sentence, 4, 5)
        for graph in batch, read_on_the_way, given:
            yield run(graph)

    return run_all


@pytest.fixture
def known(monkeypatch):
    """The plans that are kept."""
    found = OrderedDict()
    monkeypatch.setattr(plan, "_kept", found)
    return found


def test_structures_met_before_are_not_planned(known, monkeypatch):
    run_all = programs()
    for _ in range(3):  # rules and sizes are settled
        expected = list(run_all())
    monkeypatch.setattr(plan, "_make", None)
    for _ in range(2):
        for found, right in zip(run_all(), expected, strict=True):
            for a, b in zip(found, right, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-7)


def test_the_latest_are_kept(known, monkeypatch):
    """Of two, one that is used again in between; what is gone is made anew."""
    monkeypatch.setattr(plan, "PLANS", 2)
    made, make = [], plan._make

    def noted(tiling, *about):
        made.append(tiling)
        return make(tiling, *about)

    monkeypatch.setattr(plan, "_make", noted)
    for length in (1, 2, 3):  # rules and sizes are settled
        assert chain(length) == 2.0**length
    made.clear()
    known.clear()
    sizes = []
    for length in (1, 2, 1, 3, 1, 2):
        before = len(made)
        assert chain(length) == 2.0**length
        assert len(known) <= 2
        sizes += [length] if len(made) > before else []
    assert sizes == [1, 2, 3, 2]
