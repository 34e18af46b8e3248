"""What a program does after it has read a loss comes to the same in both tiers."""

import numpy as np
import pytest

import dynetjax as dy
from dynetjax.engine.runtime import RUNTIME
from dynetjax.engine.xla import differentiate

WORDS = [0, 3, 1, 4, 2, 1]


class Tagger:
    """An LSTM with dropout, and what is done with its loss."""

    def __init__(self):
        dy.reset_random_seed(5)
        self.m = dy.ParameterCollection()
        self.table = self.m.add_lookup_parameters((9, 4))
        self.lstm = dy.VanillaLSTMBuilder(1, 4, 4, self.m)
        self.out = self.m.add_parameters((3, 4))
        self.trainer = dy.AdamTrainer(self.m)

    def loss(self, words):
        dy.renew_cg()
        self.xs = [dy.dropout(self.table[w], 0.5) for w in words]
        self.hs = self.lstm.initial_state().transduce(self.xs)
        pairs = zip(self.hs, words, strict=True)
        return dy.esum([dy.pickneglogsoftmax(self.out * h, w % 3) for h, w in pairs])

    def numbers(self):
        """All parameters and gradients."""
        several = self.m.parameters_list() + self.m.lookup_parameters_list()
        return [a for p in several for a in (p.as_array(), p.grad_as_array())]


def train(net):
    loss = net.loss(WORDS)
    yield loss.value()
    loss.backward()
    net.trainer.update()


def only_read(net):
    yield net.loss(WORDS).value()


def backward_twice(net):
    loss = net.loss(WORDS)
    yield loss.value()
    loss.backward()
    loss.backward()
    net.trainer.update()


def of_another(net):
    loss = net.loss(WORDS)
    yield loss.value()
    dy.squared_norm(net.hs[2]).backward()
    yield loss.value()
    loss.backward()
    net.trainer.update()


def in_full(net):
    loss = net.loss(WORDS)
    yield loss.value()
    loss.backward(full=True)
    yield net.xs[1].gradient()
    yield net.hs[3].gradient()


def inside(net):
    loss = net.loss(WORDS)
    yield loss.value()
    loss.backward()
    yield net.hs[1].gradient()


def after_an_update(net):
    before = net.loss(WORDS)
    before.backward()
    loss = net.loss(WORDS[1:])
    yield loss.value()
    net.trainer.update()
    loss.backward()
    net.trainer.update()


def goes_on(net):
    loss = net.loss(WORDS)
    yield loss.value()
    more = dy.squared_norm(net.hs[0] + net.hs[1])
    yield more.value()
    loss.backward()
    (loss + more).backward()
    net.trainer.update()


def goes_back(net):
    loss = net.loss(WORDS)
    dy.cg_checkpoint()
    other = dy.squared_norm(net.hs[0])
    yield other.value()
    dy.cg_revert()
    yield loss.value()
    loss.backward()
    net.trainer.update()


PROGRAMS = [
    train,
    only_read,
    backward_twice,
    of_another,
    in_full,
    inside,
    after_an_update,
    goes_on,
    goes_back,
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_both_tiers_agree(program, monkeypatch):
    found = {}
    for tier in "native", "xla":
        monkeypatch.setattr(RUNTIME, "tier", tier)
        net = Tagger()
        read = [value for _ in range(3) for value in program(net)]
        found[tier] = [*read, *net.numbers()]
    for a, b in zip(found["native"], found["xla"], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_device_beside_the_host_changes_nothing(program, monkeypatch, request):
    monkeypatch.setattr(RUNTIME, "tier", "xla")
    found = []
    for far in False, True:
        if far:
            request.getfixturevalue("far")
        net = Tagger()
        read = [value for _ in range(3) for value in program(net)]
        found.append([*read, *net.numbers()])
    for a, b in zip(*found, strict=True):
        # Sums that XLA divides among threads differ in the last bits.
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_a_backward_that_fails_changes_nothing(monkeypatch):
    monkeypatch.setattr(RUNTIME, "tier", "xla")
    net = Tagger()
    for _ in range(2):
        [*train(net)]
    before = net.numbers()
    with monkeypatch.context() as patch:

        def full(*_):
            raise MemoryError

        patch.setattr(differentiate, "run_backward", full)
        loss = net.loss(WORDS)
        assert loss.value() > 0
        with pytest.raises(MemoryError, match="memory ran out"):
            loss.backward()
    for a, b in zip(net.numbers(), before, strict=True):
        np.testing.assert_array_equal(a, b)
    loss.backward()
    assert np.abs(net.out.grad_as_array()).max() > 0
