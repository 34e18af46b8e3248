"""Tables of the process stay small, and what somebody has outlives what is forgotten.

Expected values are NumPy's.
"""

import gc
import threading
from itertools import pairwise

import numpy as np
import pytest

import dynetjax as dy
from dynetjax.core import registry, tables
from dynetjax.core.registry import KINDS
from dynetjax.engine import stats
from dynetjax.engine.ir.fused import FUSED_OPS
from dynetjax.engine.ir.structures import KNOWN
from dynetjax.engine.runtime import RUNTIME
from dynetjax.engine.xla import executable

FEW = 60  # signatures
SHAPES = 200


@pytest.fixture
def few(monkeypatch):
    """All is forgotten after few signatures."""
    monkeypatch.setattr(registry, "MOST_SIGNATURES", FEW)
    monkeypatch.setattr(registry, "OF_EACH", 0)
    tables.forget_all()


def sizes():
    """How many entries the tables have that grow with every shape."""
    operations = [life.of for life in list(registry._lives)]
    return {
        "signatures": sum(len(op.signatures) for op in operations),
        "kinds": len(KINDS),
        "batched kinds": len(registry._batched_kinds),
        "parameter kinds": len(registry._parameter_kinds),
        "structures": len(KNOWN.structures),
        "fused ops": len(FUSED_OPS),
        "families": len(RUNTIME.families),
        "programs": len(RUNTIME.made),
    }


def grown(before):
    """How much more entries there are than before, where somebody has others."""
    return {name: size - before[name] for name, size in sizes().items()}


def model(hidden, rng):
    """A collection, and the parts of ``V tanh(W x)``."""
    pc = dy.ParameterCollection()
    W, V = rng.normal(size=(hidden, 3)), rng.normal(size=(2, hidden))
    return pc, *[pc.parameters_from_numpy(a.astype(np.float32)) for a in (W, V)]


def scores(W, V, x):
    return V * dy.tanh(W * dy.inputVector(x))


def expected(W, V, x):
    return V.as_array() @ np.tanh(W.as_array() @ np.array(x))


class TestManyShapes:
    def test_of_graphs(self, few):
        before, rng, largest = sizes(), np.random.default_rng(1), {}
        for hidden in range(2, SHAPES + 2):
            _, W, V = model(hidden, rng)
            for _ in range(2):
                dy.renew_cg()
                dy.squared_norm(dy.esum([scores(W, V, [1, 2, k]) for k in range(5)]))
            largest = {k: max(n, largest.get(k, 0)) for k, n in grown(before).items()}
        assert max(largest.values()) < 3 * FEW, largest

    def test_of_values_and_gradients(self, few, monkeypatch):
        monkeypatch.setattr(registry, "MOST_SIGNATURES", FEW // 4)
        before, rng, largest = sizes(), np.random.default_rng(2), {}
        for hidden in range(2, 14):
            _, W, V = model(hidden, rng)
            for x in [1.0, 2.0, 3.0], [0.0, -1.0, 0.5]:
                dy.renew_cg()
                out = scores(W, V, x)
                np.testing.assert_allclose(out.npvalue(), expected(W, V, x), rtol=1e-4)
                dy.sum_elems(out).backward()
            inner = np.tanh(W.as_array() @ np.array([[1, 2, 3], [0, -1, 0.5]]).T)
            np.testing.assert_allclose(V.grad_as_array()[0], inner.sum(1), rtol=1e-4)
            largest = {k: max(n, largest.get(k, 0)) for k, n in grown(before).items()}
        assert max(largest.values()) < FEW, largest

    def test_leave_nothing_behind(self):
        """All objects of this package that a model has made are gone with it."""

        def alive():
            tables.forget_all()
            gc.collect()
            names = [str(type(thing).__module__) for thing in gc.get_objects()]
            return sum(name.startswith(OURS) for name in names)

        rng, counts = np.random.default_rng(3), []
        for hidden in range(50, 58):
            _, W, V = model(hidden, rng)
            dy.renew_cg()
            scores(W, V, [1, 2, 3]).value()
            del W, V
            dy.renew_cg()
            dy.renew_cg()
            executable.forward.cache_clear()
            dy.reset_stats()
            counts.append(alive())
        assert counts[-1] <= counts[3], counts


OURS = ("dynetjax.ops", "dynetjax.engine", "dynetjax.core.expression")


def test_in_proportion_to_parameters_that_live(monkeypatch):
    """Models that are all in use keep their signatures."""
    tables.forget_all()
    monkeypatch.setattr(registry, "MOST_SIGNATURES", 10)
    many = [dy.ParameterCollection().add_parameters((2, 2)) for _ in range(9)]
    monkeypatch.setattr(registry.MADE, "signatures", 0)
    registry.MADE.signatures = 10 + registry.OF_EACH * len(registry.OWNERS)
    assert not registry.are_many()
    registry.MADE.signatures += 1
    assert registry.are_many()
    assert many


def test_a_program_is_found_again(few):
    """Nothing is compiled for a structure that was met before all was forgotten."""
    _, W, V = model(7, np.random.default_rng(4))
    for _ in range(2):
        for _ in range(3):
            dy.renew_cg()
            loss = dy.squared_norm(scores(W, V, [1, 2, 3]))
            loss.value()
            loss.backward()
        before = dy.stats()
        tables.forget_all()
    now = dy.stats()
    assert now.graphs > before.graphs - 1
    assert (now.compilations, now.loads) == (before.compilations, before.loads)


def test_a_stale_expression_still_says_so(few):
    x = dy.inputVector([1, 2])
    old = dy.tanh(x)
    dy.renew_cg()
    tables.forget_all()
    with pytest.raises(RuntimeError, match="the expression is stale"):
        old.value()
    with pytest.raises(ValueError, match="the expression is stale"):
        dy.tanh(old)


@pytest.fixture(params=["host", "far"])
def where(request):
    """Where values are computed that are read while a graph grows."""
    if request.param == "far":
        request.getfixturevalue("far")


@pytest.mark.usefixtures("where")
@pytest.mark.parametrize("other_models", [0, 3])
def test_a_graph_goes_on(other_models):
    """Of another thread; it is read, and grows, before and after."""
    rng = np.random.default_rng(5)
    _, W, _ = model(3, rng)
    read, forgotten = threading.Event(), threading.Event()
    found = []

    def run():
        dy.renew_cg()
        h = dy.inputVector([1.0, -1.0, 0.5])
        for step in range(8):
            h = dy.tanh(W * h)
            found.append(h.npvalue())
            if step in (2, 4):
                read.set()
                forgotten.wait(60)
                forgotten.clear()
        loss = dy.sum_elems(dy.concatenate([h, h]))
        found.append(loss.value())
        loss.backward()
        found.append(h.gradient())

    thread = threading.Thread(target=run)
    thread.start()
    for _ in range(2):
        assert read.wait(60)
        read.clear()
        tables.forget_all()
        for size in range(other_models):
            _, A, B = model(70 + size, rng)
            dy.renew_cg()
            out = scores(A, B, [1, 2, 3]).npvalue()
            np.testing.assert_allclose(out, expected(A, B, [1, 2, 3]), rtol=1e-4)
        forgotten.set()
    thread.join(60)
    w, h = W.as_array(), np.array([1.0, -1.0, 0.5])
    states = [h]
    for value in found[:8]:
        states.append(np.tanh(w @ states[-1]))
        np.testing.assert_allclose(value, states[-1], rtol=1e-4)
    assert found[8] == pytest.approx(2 * states[-1].sum(), rel=1e-4)
    np.testing.assert_allclose(found[9], [2, 2, 2])
    back, gradient = np.full(3, 2.0), np.zeros((3, 3))
    for before, after in reversed([*pairwise(states)]):
        back = back * (1 - after**2)
        gradient += np.outer(back, before)
        back = w.T @ back
    np.testing.assert_allclose(W.grad_as_array(), gradient, rtol=1e-3)


def test_an_unread_graph_goes_on():
    """Its first nodes have signatures that are forgotten when the others are made."""
    _, W, V = model(5, np.random.default_rng(6))
    dy.renew_cg()
    first = scores(W, V, [1, 2, 3])
    tables.forget_all()
    second = scores(W, V, [3, 2, 1])
    loss = dy.sum_elems(dy.cmult(first, second))
    one, other = expected(W, V, [1, 2, 3]), expected(W, V, [3, 2, 1])
    assert loss.value() == pytest.approx(float(one @ other), rel=1e-4)
    loss.backward()
    inner = [np.tanh(W.as_array() @ np.array(x)) for x in ([1, 2, 3], [3, 2, 1])]
    found = np.outer(other, inner[0]) + np.outer(one, inner[1])
    np.testing.assert_allclose(V.grad_as_array(), found, rtol=1e-4)


def test_a_trainer_goes_on(few):
    """With weights of momentum, which it has had since before."""
    _, W, V = model(4, np.random.default_rng(7))
    pc = dy.ParameterCollection()
    table = pc.lookup_parameters_from_numpy(np.eye(3, dtype=np.float32))
    A = pc.parameters_from_numpy(np.full((2, 3), 0.1, np.float32))
    trainer = dy.MomentumSGDTrainer(pc, 0.1, 0.9)
    a, e = np.full((2, 3), 0.1), np.eye(3)
    speed_a, speed_e = np.zeros((2, 3)), np.zeros((3, 3))
    for k in range(6):
        dy.renew_cg()
        out = A * table[k % 3]
        loss = dy.squared_norm(out)
        assert loss.value() == pytest.approx(float(((a @ e[k % 3]) ** 2).sum()), 1e-3)
        loss.backward()
        trainer.update()
        back = 2 * (a @ e[k % 3])
        grad_e = np.zeros((3, 3))
        grad_e[k % 3] = a.T @ back
        speed_a = 0.9 * speed_a - 0.1 * np.outer(back, e[k % 3])
        speed_e[k % 3] = 0.9 * speed_e[k % 3] - 0.1 * grad_e[k % 3]
        a, e[k % 3] = a + speed_a, e[k % 3] + speed_e[k % 3]
        tables.forget_all()
        scores(W, V, [1, 2, k]).value()
    np.testing.assert_allclose(A.as_array(), a, rtol=1e-3)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def test_a_builder_goes_on():
    """The equations of an LSTM, in NumPy, for steps before and after."""
    pc = dy.ParameterCollection()
    builder = dy.VanillaLSTMBuilder(1, 2, 3, pc)
    W_x, W_h, b = [p.as_array() for p in builder.get_parameters()[0]]
    words = np.random.default_rng(8).normal(size=(6, 2))
    for cut in range(len(words)):
        dy.renew_cg()
        state, h, c = builder.initial_state(), np.zeros(3), np.zeros(3)
        for k, word in enumerate(words):
            if k == cut:
                tables.forget_all()
            state = state.add_input(dy.inputVector(word))
            i, f, o, g = np.split(W_x @ word + W_h @ h + b, 4)
            c = sigmoid(f + 1) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
        np.testing.assert_allclose(state.output().npvalue(), h, rtol=1e-4)


def test_statistics_are_bounded(monkeypatch):
    monkeypatch.setattr(stats, "MOST_CAUSES", 3)
    monkeypatch.setattr(stats, "MOST_LABELS", 2)
    dy.reset_stats()
    for k in range(5):
        stats.note_program(f"cause {k}")
        stats.note_work([(f"part {k}", 1, 2, 3, 0.0)])
    found = dy.stats()
    assert (found.programs, found.causes) == (5, ["cause 2", "cause 3", "cause 4"])
    assert [*found.work] == ["part 0", "part 1", stats.OTHERS]
    others = found.work[stats.OTHERS]
    assert (others.runs, others.trips, others.rows, others.room) == (3, 3, 6, 9)
    assert found.waste == pytest.approx(1 / 3)
    dy.reset_stats()


def test_a_backward_from_another_than_what_was_read():
    """What was read follows a new rule then, of which no node has been computed."""
    dy.renew_cg()
    pc = dy.ParameterCollection()
    W = pc.parameters_from_numpy(np.eye(3))
    xs = [W * dy.inputVector([k, 2.0, -1.0]) for k in range(4)]
    ys = [dy.cube(x) for x in xs]
    assert ys[3].value() == [27, 8, -1]
    tables.forget_all()
    dy.sum_elems(ys[1]).backward()
    back = 3 * np.array([1.0, 2.0, -1.0]) ** 2
    np.testing.assert_allclose(W.grad_as_array(), np.outer(back, [1, 2, -1]))
