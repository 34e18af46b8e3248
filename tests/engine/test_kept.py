"""Plans of structures met before, packed and unpacked."""

import marshal

import numpy as np
import pytest

import dynetjax as dy
from dynetjax.engine import kept, plan
from dynetjax.engine.kept import Kept


class Thing:
    """Something to keep, which says whether it was packed."""

    def __init__(self, name, nbytes=1, times=0):
        self.name, self.nbytes, self.times = name, nbytes, times

    def packed(self):
        return Thing(self.name, self.nbytes, self.times + 1)

    unpacked = packed


def key(n):
    return b"key %d" % n


def test_the_latest_are_as_they_were(monkeypatch):
    monkeypatch.setattr(kept, "READY", 2)
    store, things = Kept(), [Thing(n) for n in range(4)]
    for n, thing in enumerate(things):
        store.put(key(n), thing)
    store.tidy()
    assert store.get(key(3)) is things[3]
    assert store.get(key(2)) is things[2]
    assert [(store.get(key(n)).name, store.get(key(n)).times) for n in (0, 1)] == [
        (0, 2),
        (1, 2),
    ]
    assert store.get(key(0)) is store.get(key(0))
    assert store.get(key(4)) is None


def test_what_is_put_again_takes_the_place_of_the_old(monkeypatch):
    monkeypatch.setattr(kept, "READY", 1)
    store = Kept()
    for thing in Thing("old"), Thing("new"):
        store.put(key(0), thing)
        store.put(key(1), Thing("other"))
        store.tidy()
    assert store.get(key(0)).name == "new"


def test_one_key_is_not_taken_for_another(monkeypatch):
    one, other = marshal.dumps((-1,), 2), marshal.dumps((-2,), 2)
    assert hash((-1,)) == hash((-2,))
    for ready in 0, 2:
        monkeypatch.setattr(kept, "READY", ready)
        store = Kept()
        store.put(one, Thing("a"))
        store.tidy()
        assert store.get(other) is None
        assert store.get(one).name == "a"
        store.put(other, Thing("b"))
        store.tidy()
        assert store.get(one).name == "a"
        assert store.get(other).name == "b"


def test_there_is_room_for_so_many_bytes(monkeypatch):
    """When it is full some others make way, and all is found that is there."""
    monkeypatch.setattr(kept, "READY", 0)
    monkeypatch.setattr(kept, "PACKED_BYTES", 100)
    store, seen = Kept(), []
    for n in range(300):
        store.put(key(n), Thing(n, nbytes=1 + n % 7))
        here = []
        for m in range(n + 1):
            store.tidy()
            here += [m] if store.get(key(m)) else []
        store.tidy()
        assert sum(1 + m % 7 for m in here) <= 100
        assert all(store.get(key(m)).name == m for m in here)
        assert n in here
        seen.append(len(here))
    assert min(seen[50:]) > 10
    assert min(here) < 250  # not the oldest alone


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


@pytest.mark.parametrize("ready", [0, 2])
def test_packed_plans_do_the_same(ready, monkeypatch):
    run_all = programs()
    for _ in range(3):
        expected = list(run_all())
    monkeypatch.setattr(plan, "_kept", Kept())
    monkeypatch.setattr(kept, "READY", ready)
    list(run_all())
    monkeypatch.setattr(plan, "_make", None)  # all structures are known
    for _ in range(2):
        for found, right in zip(run_all(), expected, strict=True):
            for a, b in zip(found, right, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-7)
