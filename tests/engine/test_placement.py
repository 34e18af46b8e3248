"""Beside a device, tier 0 computes what is small, and what is large meanwhile."""

import weakref

import numpy as np
import pytest

import dynetjax as dy
from dynetjax.engine import placement, policy
from dynetjax.engine.native.part import NativePart
from dynetjax.engine.placement import COMPILING, DEVICE, STAYS, work_of
from dynetjax.engine.plan.layout import HOST
from dynetjax.engine.stats import falling_back
from dynetjax.engine.xla.compiling import Compiled
from dynetjax.engine.xla.run import Run
from dynetjax.graph import current_graph

SIZE, BATCH, REPAID = 3, 4, 3  # of a step; graphs until a program pays
# A step has two matrices for every lane, and three results: rows and loss.
WORK = BATCH * 2 * SIZE * SIZE


@pytest.fixture(autouse=True)
def beside(far, runtime, monkeypatch):
    """A device beside the host, which pays for a graph of three steps."""
    monkeypatch.setattr(runtime, "tier", "auto")
    monkeypatch.setattr(
        runtime, "deterministic", True
    )  # whoever compiles is waited for
    monkeypatch.setattr(policy, "LEAST", 3 * WORK)
    monkeypatch.setattr(policy, "REPAID", 1)
    dy.reset_stats()


class Net:
    """A recurrence over vectors, and its training."""

    def __init__(self, size=SIZE, trained=True):
        dy.reset_random_seed(3)
        self.size, self.m = size, dy.ParameterCollection()
        self.table = self.m.add_lookup_parameters((7, size))
        self.W, self.U = [self.m.add_parameters((size, size)) for _ in range(2)]
        self.trainer = dy.AdamTrainer(self.m) if trained else None

    def loss(self, steps, batch=BATCH):
        dy.renew_cg()
        h = dy.zeros(self.size)
        for t in range(steps):
            x = dy.lookup_batch(self.table, [(t + b) % 7 for b in range(batch)])
            h = dy.tanh(self.W * x + self.U * h)
        return dy.sum_batches(dy.squared_norm(h))

    def step(self, steps, read=True):
        """Train on a graph; its loss, if it is read."""
        loss = self.loss(steps)
        value = loss.value() if read else None
        loss.backward()
        self.trainer.update()
        return value

    def numbers(self):
        return [p.as_array() for p in (self.W, self.U, self.table)]


def first_part():
    return current_graph().state.parts[0]


def tier():
    """That computed the current graph."""
    return 0 if isinstance(first_part(), NativePart) else 1


def state():
    return first_part().layout.binding.state


def told():
    """What was told of programs, without their names."""
    return [line.split(": ")[2].split(",")[0] for line in dy.stats().placed]


@pytest.fixture
def alone(monkeypatch):
    """Numbers of a training, of every tier."""

    def train(chosen, *args, **named):
        monkeypatch.setattr(policy.RUNTIME, "tier", chosen)
        net = Net()
        values = [net.step(*args, **named) for _ in range(8)]
        return values, net.numbers()

    return train


class TestWork:
    def test_is_that_of_products(self):
        """A row of W x + U h takes two of them, and some additions."""
        net, work = Net(), []
        for steps in 4, 5:
            net.loss(steps).value()
            work.append(work_of(current_graph().stored))
        assert WORK <= work[1] - work[0] <= 2 * WORK

    def test_grows_with_steps_and_batches(self):
        net = Net()
        work = []
        for steps, batch in [(2, 2), (4, 2), (4, 8)]:
            net.loss(steps, batch).value()
            work.append(work_of(current_graph().stored))
        assert work[1] / work[0] == pytest.approx(2, rel=0.2)
        assert work[2] / work[1] == pytest.approx(4, rel=0.2)

    def test_of_matrices_counts_columns(self):
        m = dy.ParameterCollection()
        W = m.add_parameters((5, 5))
        dy.squared_norm(W * dy.inputTensor(np.ones((5, 7)))).value()
        assert work_of(current_graph().stored) >= 5 * 5 * 7


class TestWhoComputes:
    def test_a_small_graph_is_the_hosts(self):
        net = Net()
        for _ in range(4):
            net.step(2)
            assert tier() == 0
        assert dy.stats().placed == []

    @pytest.mark.parametrize("read", [True, False])
    def test_a_large_one_is_the_devices_once_it_pays(self, monkeypatch, read):
        net = Net()
        net.loss(4).value()
        work = work_of(current_graph().stored)
        monkeypatch.setattr(policy, "REPAID", REPAID * work)
        tiers = []
        for _ in range(REPAID + 2):
            net.step(4, read)
            tiers.append(tier())
        assert tiers == [0, 0, 1, 1, 1]
        assert state() == DEVICE
        assert told() == ["compiled", "computed by the cpu from now on"]
        assert "beside the host:" in str(dy.stats())

    def test_what_is_not_compiled_yet_is_the_hosts(self, monkeypatch, runtime):
        """Nobody waits, and nothing is lowered or compiled twice."""
        monkeypatch.setattr(runtime, "deterministic", False)
        monkeypatch.setattr(Compiled, "is_ready", property(lambda self: self.allowed))
        monkeypatch.setattr(Compiled, "allowed", False, raising=False)
        lowered, lower = [], Compiled.lowered
        monkeypatch.setattr(
            Compiled, "lowered", lambda *a: lowered.append(a) or lower(*a)
        )
        net = Net(5)
        for _ in range(3):
            net.step(4)
            assert tier() == 0
        assert len(lowered) == 2  # there and back
        monkeypatch.setattr(Compiled, "allowed", True)
        for program, *_ in lowered:
            program.wait()
        net.step(4)
        assert tier() == 1

    @pytest.mark.parametrize("chosen", ["native", "xla"])
    def test_a_tier_that_was_chosen_computes_all(self, monkeypatch, runtime, chosen):
        monkeypatch.setattr(runtime, "tier", chosen)
        net = Net()
        for steps in 1, 4, 4:
            net.step(steps)
            assert tier() == ["native", "xla"].index(chosen)
        assert dy.stats().placed == []

    def test_a_device_that_was_named_computes_all(self, monkeypatch, runtime):
        monkeypatch.setattr(runtime, "device_named", True)
        Net().step(1)
        assert tier() == 1

    def test_reading_alone_takes_no_backward(self, monkeypatch):
        """Without a trainer nobody is expected to go back."""
        monkeypatch.setattr("dynetjax.trainers.base._trainers", weakref.WeakSet())
        prepared, prepare = [], Run.prepare
        monkeypatch.setattr(
            Run, "prepare", lambda self, *a: prepared.append(a) or prepare(self, *a)
        )
        Net(trained=False).loss(4).value()
        assert tier() == 1
        assert prepared == [(True, None)]


class TestNumbers:
    @pytest.mark.parametrize("read", [True, False])
    def test_are_those_of_either_tier(self, alone, read):
        found = alone("auto", 4, read)
        assert state() == DEVICE
        for chosen in "native", "xla":
            values, numbers = alone(chosen, 4, read)
            if read:
                np.testing.assert_allclose(found[0], values, rtol=1e-5)
            for ours, theirs in zip(found[1], numbers, strict=True):
                np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)

    def test_do_not_care_who_computes_in_turn(self, monkeypatch, runtime):
        """Large and small graphs take turns, and with them the tiers."""
        found = []
        for chosen in "auto", "native":
            monkeypatch.setattr(runtime, "tier", chosen)
            net = Net()
            values = [net.step(4 if k % 2 else 1) for k in range(12)]
            found.append((values, net.numbers()))
        assert told()[:1] == ["compiled"]
        np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-5)
        for ours, theirs in zip(found[0][1], found[1][1], strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)

    def test_with_weight_decay_too(self, monkeypatch, runtime):
        """Tables are stored with a factor then."""
        found = []
        for chosen in "auto", "native":
            monkeypatch.setattr(runtime, "tier", chosen)
            net = Net()
            net.m.set_weight_decay(0.01)
            values = [net.step(4) for _ in range(6)]
            found.append(values)
        np.testing.assert_allclose(*found, rtol=1e-5)


class TestWhatGoesOn:
    def test_after_a_value_was_read_is_the_hosts(self):
        """The device computes the first part; tier 0 all, when it goes back."""
        net = Net()
        gradients = []
        for _ in range(3):
            first = net.loss(4)
            first.value()
            tiers = tier()
            loss = first + dy.squared_norm(net.W * dy.inputVector(np.ones(SIZE)))
            loss.value()
            loss.backward()
            gradients.append((tiers, net.W.grad_as_array().copy()))
            for p in net.m.parameters_list():
                p.scale_gradient(0)
        assert [tiers for tiers, _ in gradients] == [1, 0, 0]
        assert told()[-1].startswith("stays on the host")
        for _, gradient in gradients[1:]:
            np.testing.assert_allclose(gradients[0][1], gradient, rtol=1e-5)

    def test_a_gradient_of_constants_is_the_hosts(self):
        net = Net()
        loss = net.loss(4)
        loss.value()
        loss.backward(full=True)
        assert tier() == 0
        assert np.abs(net.W.grad_as_array()).max() > 0


class TestFailures:
    def test_the_host_goes_on(self, monkeypatch):
        """XLA has no memory to compile in, say."""
        monkeypatch.setattr(falling_back, "raises", False)

        def fail(*_):
            raise ValueError("XLA")

        monkeypatch.setattr(Compiled, "lowered", fail)
        net = Net(6)
        values = [net.step(4) for _ in range(3)]
        assert tier() == 0
        assert values[2] < values[0]
        assert told() == ["compiled", "stays on the host"]
        assert dy.stats().fallbacks["prepare"] > 0


def test_states_have_names_of_their_own():
    assert len({HOST, COMPILING, DEVICE, STAYS}) == 4
    assert placement.HOST is HOST
