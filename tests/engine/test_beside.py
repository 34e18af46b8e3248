"""Graphs that tier 0 computes, forward and backward, while programs are compiled."""

import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pytest

import dynetjax as dy
from dynetjax import expression
from dynetjax.engine import backward_pass, beside, compiling, fused, plan, policy
from dynetjax.engine.beside import Beside
from dynetjax.engine.compiling import Compiled
from dynetjax.engine.differentiate import Backward
from dynetjax.engine.kept import Kept
from dynetjax.engine.run import Run
from dynetjax.graph import current_graph

from ..backends import on_cpu

part = pytest.importorskip("dynetjax.engine.native.part")
NativeBackward, NativePart = part.NativeBackward, part.NativePart

pytestmark = on_cpu

WORDS = 9


@pytest.fixture(autouse=True)
def as_in_a_new_process(monkeypatch):
    monkeypatch.setattr(policy, "tier", "auto")
    monkeypatch.setattr(policy, "SMALL", -1)
    monkeypatch.setattr(policy, "LARGE", 1 << 27)
    forget_programs(monkeypatch)
    dy.renew_cg()
    yield
    expression.engine()._beside.wait()


def forget_programs(monkeypatch):
    """As in a new process."""
    monkeypatch.setattr(plan, "_kept", Kept())
    plan._scopes.clear()
    monkeypatch.setattr(fused, "_trained", set())
    fused.fused_forward.cache_clear()
    fused.fused_backward.cache_clear()


@pytest.fixture
def hold(monkeypatch):
    """Keeps programs from being compiled until it is set."""
    event, run = threading.Event(), beside._make

    def make_later(programs):
        event.wait(60)
        run(programs)

    monkeypatch.setattr(beside, "_make", make_later)
    yield event
    event.set()


class Tagger:
    """Trains on sentences; as a parser does, if it looks at scores on the way."""

    def __init__(self, looks):
        dy.reset_random_seed(5)
        self.looks = looks
        self.pc = dy.ParameterCollection()
        self.table = self.pc.add_lookup_parameters((WORDS, 4))
        self.lstm = dy.VanillaLSTMBuilder(1, 4, 6, self.pc)
        self.out = self.pc.add_parameters((3, 6))
        self.trainer = dy.AdamTrainer(self.pc, 0.02)
        self.ways = []

    def loss(self, k, length=7):
        dy.renew_cg()
        xs = [self.table[(3 * k + j) % WORDS] for j in range(length)]
        states, losses = self.lstm.initial_state().transduce(xs), []
        for state, after in pairwise(states):
            scores = self.out * dy.tanh(state + after)
            worst = int(scores.npvalue().argmin()) if self.looks else k % 3
            losses.append(dy.pickneglogsoftmax(scores, worst))
        return dy.esum(losses)

    def step(self, k, length=7):
        loss = self.loss(k, length)
        value = loss.value()
        loss.backward()
        self.ways.append(type(current_graph().state.last))
        self.trainer.update()
        return value


@pytest.mark.parametrize("looks", [False, True])
class TestTraining:
    def test_is_as_without(self, looks, monkeypatch):
        """The same losses, and no more programs."""

        def train():
            forget_programs(monkeypatch)
            tagger, before, losses = Tagger(looks), dy.stats().programs, []
            for k in range(8):
                losses.append(tagger.step(k))
                if k == 3:
                    expression.engine()._beside.wait()
            return losses, tagger.ways, dy.stats().programs - before

        losses, ways, programs = train()
        assert ways[0] is NativeBackward
        assert ways[4:] == [Backward] * 4
        monkeypatch.setattr(policy, "tier", "xla")
        wanted, ways, others = train()
        assert ways == [Backward] * 8
        assert losses == pytest.approx(wanted, rel=1e-5)
        assert programs == others

    def test_nobody_waits_for_programs(self, looks, hold):
        tagger = Tagger(looks)
        for k in range(4):
            tagger.step(k)
        assert tagger.ways == [NativeBackward] * 4
        assert all(type(part) is NativePart for part in current_graph().state.parts)
        hold.set()
        expression.engine()._beside.wait()
        tagger.step(4)
        assert tagger.ways[-1] is Backward
        assert type(current_graph().state.parts[0]) is Run

    def test_there_is_no_second_time(self, looks):
        first, second = Tagger(looks), Tagger(looks)
        first.step(0)
        expression.engine()._beside.wait()
        second.step(0)
        second.step(1)
        assert second.ways[-1] is Backward

    def test_gradients_of_nodes(self, looks, hold, monkeypatch):
        def gradients():
            tagger = Tagger(looks)
            loss = tagger.loss(0)
            loss.backward()
            way = type(current_graph().state.last)
            found = [tagger.table.grad_as_array()]
            found += [p.grad_as_array() for p in tagger.pc.parameters_list()]
            hold.set()
            found.append(loss.graph.nodes[-5].gradient())
            assert type(current_graph().state.last) is Backward
            tagger.step(1)
            return way, found

        way, here = gradients()
        assert way is NativeBackward
        monkeypatch.setattr(policy, "tier", "xla")
        way, there = gradients()
        assert way is Backward
        for one, other in zip(here, there, strict=True):
            assert np.abs(other).max() > 0.001
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-7)

    def test_several_backwards_before_one_update(self, looks, hold, monkeypatch):
        def gradients():
            tagger = Tagger(looks)
            for k in range(2):
                loss = tagger.loss(k)
                loss.backward()
                (loss * 2.0).backward()
            found = [tagger.table.grad_as_array(), tagger.out.grad_as_array()]
            return type(current_graph().state.last), found

        way, here = gradients()
        assert way is NativeBackward
        hold.set()
        monkeypatch.setattr(policy, "tier", "xla")
        way, there = gradients()
        assert way is Backward
        for one, other in zip(here, there, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)

    def test_more_rows_than_in_the_graph_before(self, looks, hold):
        tagger = Tagger(looks)
        tagger.step(0, length=3)
        loss = tagger.loss(1)
        loss.backward()
        assert type(current_graph().state.last) is NativeBackward
        found = tagger.table.grad_as_array()
        hold.set()
        tagger.table.scale_gradient(0)
        loss.backward(full=True)
        np.testing.assert_allclose(
            tagger.table.grad_as_array(), found, rtol=1e-5, atol=1e-7
        )

    def test_interrupted(self, looks, hold, monkeypatch):
        tagger = Tagger(looks)
        loss = tagger.loss(0)
        loss.value()

        def interrupt(*_):
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(backward_pass, "backward_natively", interrupt)
            with pytest.raises(KeyboardInterrupt):
                loss.backward()
        assert not tagger.out.grad_as_array().any()
        loss.backward()
        found = tagger.out.grad_as_array()
        assert type(current_graph().state.last) is NativeBackward
        hold.set()
        tagger.out.scale_gradient(0)
        loss.backward(full=True)
        np.testing.assert_allclose(tagger.out.grad_as_array(), found, rtol=1e-5)


def test_what_has_no_byte_code_waits_for_programs(hold):
    tagger = Tagger(looks=False)
    tagger.step(0)
    assert tagger.ways == [NativeBackward]
    threading.Timer(0.1, hold.set).start()
    loss = tagger.loss(1)
    halves = dy.jax_op(lambda x: x.astype(np.float16).astype(np.float32))
    (loss + dy.squared_norm(halves(tagger.table[1]))).backward()
    assert hold.is_set()
    assert not expression.engine()._beside.is_busy
    assert type(current_graph().state.last) is Backward


def test_not_where_equal_graphs_are_to_be_bitwise_equal(monkeypatch):
    monkeypatch.setattr(compiling, "_at_once", True)
    tagger = Tagger(looks=False)
    tagger.step(0)
    assert tagger.ways == [Backward]


def test_threads_that_ask_at_once():
    made, several = [], Beside(lambda: True)

    class Program:
        def prepare(self):
            made.append(1)

        def wait(self):
            pass

    several.make([lambda: (Program(), ())])
    at_once = threading.Barrier(8)

    def ask(_):
        at_once.wait()
        return several.is_busy

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(ask, range(8)))
    several.wait()
    assert made == [1]
    assert not several.is_busy


def test_a_process_that_comes_to_its_end_compiles_no_more(monkeypatch):
    asked = []
    tagger = Tagger(looks=False)
    tagger.step(0)
    monkeypatch.setattr(Compiled, "prepare", lambda *args: asked.append(args))
    monkeypatch.setattr(threading.main_thread(), "is_alive", lambda: False)
    expression.engine()._beside.wait()
    assert not asked
