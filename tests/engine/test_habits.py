"""Backward that is sent before it is asked for: nobody sees a difference."""

import numpy as np
import pytest

import dynetjax as dy
from dynetjax.engine import backward_pass, run
from dynetjax.engine.differentiate import Backward
from dynetjax.engine.habits import DOUBT, SURE, Habit
from dynetjax.engine.stats import falling_back

WORDS = [3, 1, 4, 1, 5]


def test_backward_is_expected_once_it_has_followed_some_times():
    habit = Habit()
    for _ in range(SURE):
        assert not habit.read()
        habit.followed()
    for _ in range(3):
        assert habit.read()
        habit.followed()


def test_where_it_did_not_follow_it_is_expected_much_later():
    habit = Habit()
    for _ in range(SURE):
        habit.followed()
    assert habit.read()
    assert not habit.read()
    for _ in range(DOUBT + SURE):
        assert not habit.read()
        habit.followed()
    assert habit.read()


class Tagger:
    """An LSTM whose loss is read, and what is done then."""

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
        return dy.esum(
            [
                dy.pickneglogsoftmax(self.out * h, w % 3)
                for h, w in zip(self.hs, words, strict=True)
            ]
        )

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


@pytest.mark.parametrize("where", ["here", "far"])
@pytest.mark.parametrize(
    "program",
    [
        train,
        only_read,
        backward_twice,
        of_another,
        in_full,
        inside,
        after_an_update,
        goes_on,
        goes_back,
    ],
)
def test_all_is_as_if_nothing_was_expected(program, where, monkeypatch, request):
    if where == "far":
        request.getfixturevalue(where)
    found = {}
    for expecting in False, True:
        monkeypatch.setattr(Habit, "read", lambda _, e=expecting: e)
        net = Tagger()
        for _ in range(2):  # rules, and what is kept, are settled first
            for _ in train(net):
                pass
        net = Tagger()
        read = [value for _ in range(3) for value in program(net)]
        found[expecting] = [*read, *net.numbers()]
    for a, b in zip(found[True], found[False], strict=True):
        # Sums that XLA divides among threads differ in the last bits.
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-8)


def test_it_is_sent_once(monkeypatch):
    net, sent = Tagger(), []
    init = Backward.__init__

    def noted(self, *args):
        sent.append(self)
        init(self, *args)

    monkeypatch.setattr(Backward, "__init__", noted)
    for _ in range(SURE + 3):
        sent.clear()
        steps = train(net)
        next(steps)
        early = len(sent)
        assert [*steps] == []
        assert len(sent) == 1
    assert early == 1


def test_a_device_beside_the_host_is_told_to_copy_the_value_first(monkeypatch, far):
    """It runs programs in the order in which they are sent."""
    del far
    net, sent = Tagger(), []
    rows_among, init = run.rows_among, Backward.__init__

    def noted_rows(*args):
        sent.append("value")
        return rows_among(*args)

    def noted(self, *args):
        sent.append("backward")
        init(self, *args)

    monkeypatch.setattr(run, "rows_among", noted_rows)
    monkeypatch.setattr(Backward, "__init__", noted)
    for _ in range(SURE + 3):
        sent.clear()
        for _ in train(net):
            pass
    assert sent == ["value", "backward"]


def test_what_goes_wrong_is_told_when_it_is_asked_for(monkeypatch):
    net = Tagger()
    for _ in range(SURE + 1):
        [*train(net)]
    before = net.numbers()
    with monkeypatch.context() as patch:

        def full(*_):
            raise MemoryError

        patch.setattr(backward_pass, "Backward", full)
        patch.setattr(falling_back, "raises", False)
        loss = net.loss(WORDS)
        assert loss.value() > 0
        assert dy.stats().fallbacks["early backward"] >= 1
        with pytest.raises(MemoryError, match="memory ran out"):
            loss.backward()
    for a, b in zip(net.numbers(), before, strict=True):
        np.testing.assert_array_equal(a, b)
    loss.backward()
    assert np.abs(net.out.grad_as_array()).max() > 0
