"""Ctrl-C at any moment leaves a model and a graph that can be used."""

import random
import signal
import threading

import numpy as np
import pytest

import dynetjax as dy
from dynetjax.core.uninterrupted import Uninterrupted


@pytest.fixture(autouse=True)
def _heard():
    """Programs that a shell starts in the background begin with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class Net:
    """A recurrent net that looks at every step, over a table."""

    def __init__(self):
        self.pc = dy.ParameterCollection()
        rng = np.random.default_rng(2)
        self.table = self.pc.lookup_parameters_from_numpy(rng.normal(size=(9, 5)))
        self.W = self.pc.parameters_from_numpy(rng.normal(size=(5, 5)) / 3)
        self.trainer = dy.AdamTrainer(self.pc)
        self.seen = None

    def train(self, words):
        self.seen = None
        dy.renew_cg()
        h = dy.tanh(self.table[words[0]])
        for word in words:
            self.seen = h = dy.tanh(self.W * h + self.table[word])
            h.value()
        loss = dy.squared_norm(h)
        value = loss.value()
        loss.backward()
        self.trainer.update()
        return value


# Python drops what is raised in a finaliser, so the alarm goes off until it is heard.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_hundred_interrupts():
    net, rng = Net(), random.Random(5)
    words = [k % 9 for k in range(12)]
    start, *_ = [net.train(words) for _ in range(3)]

    def alarm(*_):
        signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGALRM, alarm)
    interrupts = 0
    try:
        for _ in range(100):
            try:
                signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-4, 0.02), 0.5)
                while True:
                    net.train(words)
            except KeyboardInterrupt:
                signal.setitimer(signal.ITIMER_REAL, 0)
                interrupts += 1
            if net.seen is not None:
                assert np.isfinite(net.seen.npvalue()).all()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert interrupts == 100
    for _ in range(40):
        net.train(words)
    assert net.train(words) < start
    rows, W = net.table.as_array(), net.W.as_array()
    h = np.tanh(rows[0])
    for word in words:
        h = np.tanh(W @ h + rows[word])
    assert net.train(words) == pytest.approx(h @ h, rel=1e-4, abs=1e-10)


def test_an_interrupt_waits():
    done = []

    def work():
        with Uninterrupted():
            signal.raise_signal(signal.SIGINT)
            done.append(1)

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == [1]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_other_threads_have_no_signals():
    done = []

    def work():
        with Uninterrupted():
            done.append(1)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [1]
