"""Buffers that are used again: what an earlier run left in them is never read."""

import gc
import re

import jax
import numpy as np
import pytest

import dynetjax as dy
from dynetjax.engine.xla import buffers, executable
from dynetjax.engine.xla.compiling import Compiled, shape_of
from dynetjax.engine.xla.run import Run

from ...backends import assert_same, on_cpu

CLASSES, SIZE = 20_000, 3


@pytest.fixture
def uses(runtime):
    """The pools that there are, none at first."""
    return runtime.buffers


def arrays(uses):
    """All that are held."""
    return [a for use in uses.values() for held in use._free for a in held]


def spoil(uses):
    """Leave NaN in whatever is held, but for row 0."""
    for use in uses.values():
        use._free = [[a.at[1:].set(np.nan) for a in held] for held in use._free]


def gradients(model, count):
    """Of a loss over as many scores of many classes, by name."""
    dy.renew_cg()
    W, x, y = model
    scores = [W * dy.tanh(x + dy.inputVector([k] * SIZE)) for k in range(count)]
    loss = dy.esum([dy.pickneglogsoftmax(s, k) for k, s in enumerate(scores)])
    loss = loss + dy.dot_product(y, y)
    value = loss.value()
    loss.backward()
    found = [value, *[p.grad_as_array() for p in model]]
    for p in model:
        p.scale_gradient(0)
    dy.renew_cg()
    return found


def test_garbage_is_never_read(uses):
    pc = dy.ParameterCollection()
    rng = np.random.default_rng(3)
    shapes = [(CLASSES, SIZE), (SIZE,), (SIZE,)]
    model = [pc.parameters_from_numpy(rng.normal(size=s)) for s in shapes]
    first = gradients(model, 40)
    assert arrays(uses)
    spoil(uses)
    again = gradients(model, 40)
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a, b)
    spoil(uses)
    few = gradients(model, 7)
    assert all(np.isfinite(g).all() for g in few)


class Sentences:
    """An LSTM and a GRU on top of it over words of a table, and losses."""

    def __init__(self):
        self.model = dy.ParameterCollection()
        self.table = self.model.add_lookup_parameters((20, 5))
        self.lstm = dy.VanillaLSTMBuilder(1, 5, 6, self.model)
        self.gru = dy.GRUBuilder(1, 6, 6, self.model)
        self.hidden = self.model.add_parameters((6, 6))
        self.out = self.model.add_parameters((4, 6))

    def states(self, words):
        """Of the GRU."""
        xs = self.lstm.initial_state().transduce([self.table[w] for w in words])
        return self.gru.initial_state().transduce(xs)

    def loss(self, words):
        """Of words, each of which is to be told from the last."""
        xs = self.states(words)
        scores = [self.out * dy.rectify(self.hidden * dy.tanh(x)) for x in xs]
        return dy.esum([dy.pickneglogsoftmax(s, 1) for s in scores])

    def gradients(self, words):
        """The loss, and gradients of all."""
        dy.renew_cg()
        loss = self.loss(words)
        value = loss.value()
        loss.backward()
        every = [*self.model.parameters_list(), *self.model.lookup_parameters_list()]
        found = [value, *[p.grad_as_array() for p in every]]
        for p in every:
            p.scale_gradient(0)
        return found


def test_no_graph_reads_what_another_left(uses):
    program = Sentences()
    sentences = [[3] * n for n in (2, 30, 7, 90, 1)]
    expected = []
    for words in sentences:
        uses.clear()
        expected.append(program.gradients(words))
    for words, found in zip(sentences, expected, strict=True):
        dy.renew_cg()
        spoil(uses)
        for a, b in zip(program.gradients(words), found, strict=True):
            assert_same(a, b)


def test_values_that_a_user_has_stay_as_they_are(uses):
    program = Sentences()
    for words in ([1, 2, 3], [4, 5], [6]):
        dy.renew_cg()
        states = program.states(words)
        first, _ = dy.npvalues([states[-1], program.loss(words)])
        copy = first.copy()
        program.gradients([7, 8, 9])
        np.testing.assert_array_equal(first, copy)


def test_arrays_are_lent_again(uses):
    program = Sentences()
    for _ in range(3):
        program.gradients([1, 2, 3])
    dy.renew_cg()
    places = {a.unsafe_buffer_pointer() for a in arrays(uses)}
    program.gradients([5, 4, 1])
    dy.renew_cg()
    assert {a.unsafe_buffer_pointer() for a in arrays(uses)} == places


def test_a_program_that_failed_leaves_nothing_behind(uses, monkeypatch):
    program = Sentences()
    expected = program.gradients([1, 2, 3])
    dy.renew_cg()
    loss = program.loss([1, 2, 3])

    def fail(*args):
        raise RuntimeError("no answer")

    with monkeypatch.context() as patch:
        patch.setattr("dynetjax.engine.xla.run.Run.rows", fail)
        with pytest.raises(RuntimeError, match="no answer"):
            loss.value()
    dy.renew_cg()
    assert not arrays(uses)
    for a, b in zip(program.gradients([1, 2, 3]), expected, strict=True):
        np.testing.assert_array_equal(a, b)


@on_cpu
def test_arrays_are_held_until_others_are_used_more(uses):
    size = buffers.HELD // 8
    for n in range(6):
        use = buffers.buffer_pool_for(n, lambda n=n: [(size - n, 1)])
        lent = [use.acquire() for _ in range(buffers.OF_A_USE + 1)]
        for several in lent:
            use.release(several)
        assert len(use._free) == buffers.OF_A_USE
    assert [n for n, use in uses.items() if use.held] == [2, 3, 4, 5]


def test_what_is_in_use_is_held_however_large_it_is(uses, monkeypatch):
    """Else all its arrays would be made anew in every run."""
    monkeypatch.setattr(buffers, "HELD", 100)
    recent = range(buffers.RECENT)
    for n in [*recent, -1, *recent]:
        use = buffers.buffer_pool_for(n, lambda: [(200, 1)])
        use.release(use.acquire())
        held = [n for n, use in uses.items() if use.held]
        assert len(held) == min(len(uses), buffers.RECENT)
    assert held == [*recent]


@on_cpu
def test_what_was_not_used_for_longest_makes_way_for_new_arrays(uses, monkeypatch):
    """Those of another size are not there beside them."""
    monkeypatch.setattr(buffers, "MOST", 500)
    several = [buffers.buffer_pool_for(n, lambda: [(200, 1)]) for n in range(3)]
    for use in several[:2]:
        use.release(use.acquire())
    assert [use.held for use in several] == [200, 200, 0]
    several[2].release(several[2].acquire())
    assert [use.held for use in several] == [0, 200, 200]


def test_a_device_beside_the_host_holds_more(uses, monkeypatch, far):
    del far
    monkeypatch.setattr(buffers, "MOST", 500 // buffers.FAR)
    several = [buffers.buffer_pool_for(n, lambda: [(200, 1)]) for n in range(3)]
    for use in several:
        use.release(use.acquire())
    assert [use.held for use in several] == [0, 200, 200]


def test_a_program_is_compiled_before_its_arrays_are_made(uses, monkeypatch):
    """What the compiler takes would come on top of them."""
    events, lend, compile_it = [], buffers.BufferPool.acquire, Compiled.compile

    def noted_lend(use):
        events.append(f"lend {len(use.shapes)}")
        return lend(use)

    def noted_compile(program, *shapes, **about):
        events.append(f"compile {len(shapes[-1])}")
        compile_it(program, *shapes, **about)

    monkeypatch.setattr(buffers.BufferPool, "acquire", noted_lend)
    monkeypatch.setattr(Compiled, "compile", noted_compile)
    pc = dy.ParameterCollection()
    W = pc.add_parameters((31, 31))
    for _ in range(2):
        dy.renew_cg()
        dy.squared_norm(dy.tanh(W * dy.inputVector([0.1] * 31))).value()
    count = int(events[0].split()[1])
    assert events == [f"compile {count}", f"lend {count}", f"lend {count}"]


def test_a_dropped_graph_is_freed_at_once(uses):
    """And not when the garbage collector comes by: what it holds may be large."""
    pc = dy.ParameterCollection()
    model = [pc.add_parameters(s) for s in [(CLASSES, SIZE), (SIZE,), (SIZE,)]]
    gradients(model, 40)
    gc.collect()
    gc.disable()
    try:
        others = all_runs()  # of other tests, whose graphs somebody has
        gradients(model, 40)
        assert all(any(run is other for other in others) for run in all_runs())
    finally:
        gc.enable()


def all_runs():
    return [o for o in gc.get_objects() if type(o) is Run]


@on_cpu
def test_each_lent_array_comes_back_in_its_own_place(monkeypatch):
    """Not in that of another result of its shape, for which XLA would copy all."""
    seen, forward = [], executable.forward

    def watched(*about):
        program = forward(*about)

        def run(*args):
            shapes = jax.tree.map(shape_of, args)
            seen.append((program.lowered(shapes).compile(), len(args[-1])))
            return program(*args)

        run.is_new = False
        return run

    monkeypatch.setattr(executable, "forward", watched)
    pc = dy.ParameterCollection()
    table = pc.add_lookup_parameters((9, 64))
    W = pc.add_parameters((64, 64))
    dy.renew_cg()
    rows = [dy.tanh(W * table[k % 9]) for k in range(200)]
    dy.squared_norm(dy.esum(rows)).value()
    ((program, lent),) = seen
    (pairs,) = re.findall(r"input_output_alias={(.*?) }, ", program.as_text())
    found = re.findall(r"{(\d+)}: \((\d+),", pairs)
    places = [(int(result), int(argument)) for result, argument in found]
    assert len(places) == lent > 0
    first = places[0][1]
    assert places == [(k, first + k) for k in range(lent)]
