"""Values asked for while the graph is still growing."""

import gc
import threading

import numpy as np
import pytest

import dynetjax as dy
from dynetjax.engine import policy
from dynetjax.engine.plan import layout
from dynetjax.engine.plan.family import Family
from dynetjax.engine.runtime import RUNTIME
from dynetjax.graph import ComputationGraph, current_graph


def later_only():
    """Tier 0 has what is added to a graph that has begun."""
    state = current_graph().state
    return state is not None and bool(state.parts)


@pytest.fixture(autouse=True, params=["host", "device", "all on the host"])
def place(request, monkeypatch):
    """Where increments are computed, if they can be."""
    if request.param == "device":
        monkeypatch.setattr(RUNTIME, "tier", "xla")
    if request.param == "all on the host":
        monkeypatch.setattr(RUNTIME, "tier", "native")
    if request.param == "host":  # tier 1 begins, and tier 0 has what comes later
        monkeypatch.setattr(RUNTIME, "tier", "auto")
        monkeypatch.setattr(policy, "native", later_only)


on_device = pytest.mark.parametrize("place", ["device"], indirect=True)


@pytest.fixture
def weights():
    pc = dy.ParameterCollection()
    return pc.parameters_from_numpy(np.array([[0.5, -0.2], [0.1, 0.3]]))


def reference(steps):
    w, h = np.array([[0.5, -0.2], [0.1, 0.3]]), np.array([1.0, 2.0])
    found = []
    for _ in range(steps):
        h = np.tanh(w @ h)
        found.append(h)
    return found


def test_a_value_at_every_step(weights):
    dy.renew_cg()
    h = dy.inputVector([1.0, 2.0])
    for expected in reference(6):
        h = dy.tanh(weights * h)
        np.testing.assert_allclose(h.npvalue(), expected, rtol=1e-5)


def test_a_value_that_was_computed_inside_another(weights):
    """The inner node is used once, so nothing stored it; it is read all the same."""
    dy.renew_cg()
    inner = dy.tanh(weights * dy.inputVector([1.0, 2.0]))
    outer = dy.square(inner)
    expected = reference(1)[0]
    np.testing.assert_allclose(outer.npvalue(), expected**2, rtol=1e-5)
    np.testing.assert_allclose(inner.npvalue(), expected, rtol=1e-5)
    np.testing.assert_allclose((inner + 1).npvalue(), expected + 1, rtol=1e-5)


def test_a_value_inside_a_long_sum():
    """Additions in the middle of a chain are partial sums of another shape."""
    dy.renew_cg()
    partial = [dy.scalarInput(1.0)]
    for k in range(2, 31):
        partial.append(partial[-1] + dy.scalarInput(float(k)))
    assert partial[-1].value() == pytest.approx(465)
    for k in (3, 8, 15, 16, 22, 28):
        assert partial[k - 1].value() == pytest.approx(k * (k + 1) / 2)


def test_backward_after_values_in_the_middle(weights):
    def run(peek):
        dy.renew_cg()
        h = dy.inputVector([1.0, 2.0])
        for _ in range(4):
            h = dy.tanh(weights * h)
            if peek:
                h.value()
        dy.dot_product(h, h).backward()
        gradient = weights.grad_as_array()
        weights.scale_gradient(0)
        return gradient

    np.testing.assert_allclose(run(peek=True), run(peek=False), rtol=1e-5)


def test_the_program_decides_what_comes_next(weights):
    """Stops as soon as a value says so, as early-exit classifiers do."""
    dy.renew_cg()
    h, steps = dy.inputVector([1.0, 2.0]), 0
    while dy.dot_product(h, h).value() > 1e-3:
        h, steps = dy.tanh(weights * h), steps + 1
    norms = [float(v @ v) for v in reference(20)]
    assert steps == next(k for k, n in enumerate(norms, 1) if n <= 1e-3)


def test_set_and_recalculate():
    dy.renew_cg()
    x = dy.scalarInput(2.0)
    y = dy.square(x)
    assert y.value() == 4
    x.set(3.0)
    assert y.value() == 9


def test_a_parameter_keeps_its_value_until_recalculated():
    pc = dy.ParameterCollection()
    p = pc.parameters_from_numpy(np.array([1.0, 2.0]))
    dy.renew_cg()
    y = p * 2
    assert y.value() == [2, 4]
    p.set_value([5.0, 6.0])
    assert y.value() == [2, 4]
    assert y.value(recalculate=True) == [10, 12]


@on_device
@pytest.mark.parametrize(
    ("owner", "method"), [(layout, "_bound"), (Family, "_rebuild")], ids=str
)
def test_an_interrupted_run_leaves_nothing_behind(monkeypatch, owner, method):
    """What was cut off half way is not taken for the next graph of the structure."""

    def run(number):
        dy.renew_cg()
        x = dy.inputVector([number, 2.0, 3.0, 4.0, 5.0])
        wrapped = dy.tanh(x) if owner is layout else dy.tanh(dy.atanh(dy.tanh(x)))
        return dy.sum_elems(dy.square(wrapped))

    def interrupt(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(owner, method, interrupt)
        loss = run(1.0)
        with pytest.raises(KeyboardInterrupt):
            loss.value()
    expected = np.tanh([1.0, 2.0, 3.0, 4.0, 5.0])
    assert loss.value() == pytest.approx(float(expected @ expected), rel=1e-5)
    expected[0] = np.tanh(0.5)
    assert run(0.5).value() == pytest.approx(float(expected @ expected), rel=1e-5)


class TestGradient:
    def test_of_inner_nodes(self):
        pc = dy.ParameterCollection()
        w = pc.parameters_from_numpy(np.array([0.3, -0.4]))
        dy.renew_cg()
        y = dy.tanh(w)
        z = dy.square(y)
        loss = dy.sum_elems(z)
        loss.backward()
        t = np.tanh([0.3, -0.4])
        np.testing.assert_allclose(z.gradient(), [1, 1])
        np.testing.assert_allclose(y.gradient(), 2 * t, rtol=1e-5)
        np.testing.assert_allclose(w.gradient(), 2 * t * (1 - t**2), rtol=1e-5)
        np.testing.assert_allclose(w.grad_as_array(), w.gradient(), rtol=1e-6)

    def test_of_constants_is_zero_unless_full(self):
        pc = dy.ParameterCollection()
        w = pc.parameters_from_numpy(np.array([0.3, -0.4]))
        dy.renew_cg()
        x = dy.inputVector([2.0, 3.0])
        loss = dy.dot_product(x, w)
        loss.backward()
        np.testing.assert_array_equal(x.gradient(), [0, 0])
        loss.backward(full=True)
        np.testing.assert_allclose(x.gradient(), [0.3, -0.4], rtol=1e-6)

    def test_of_a_node_that_was_read_after_backward(self):
        pc = dy.ParameterCollection()
        w = pc.parameters_from_numpy(np.array([0.3, -0.4]))
        dy.renew_cg()
        x = dy.inputVector([2.0, 3.0])
        inner = dy.cmult(x, w)
        dy.sum_elems(dy.square(inner)).backward()
        np.testing.assert_allclose(inner.npvalue(), [0.6, -1.2], rtol=1e-6)
        np.testing.assert_allclose(inner.gradient(), [1.2, -2.4], rtol=1e-6)

    def test_before_any_backward(self):
        dy.renew_cg()
        x = dy.inputVector([2.0])
        with pytest.raises(RuntimeError, match=r"no backward\(\)"):
            x.gradient()

    def test_of_a_node_made_later(self):
        pc = dy.ParameterCollection()
        w = pc.parameters_from_numpy(np.array([0.3]))
        dy.renew_cg()
        dy.square(w).backward()
        later = dy.square(w)
        with pytest.raises(RuntimeError, match="made after the last backward"):
            later.gradient()

    def test_backward_twice_adds_up(self):
        pc = dy.ParameterCollection()
        w = pc.parameters_from_numpy(np.array([0.5]))
        dy.renew_cg()
        loss = dy.square(w)
        loss.backward()
        loss.backward()
        assert w.grad_as_array()[0] == pytest.approx(2.0)


def test_backward_of_more_than_one_number():
    dy.renew_cg()
    with pytest.raises(ValueError, match=r"backward: the expression is not one number"):
        dy.inputVector([1.0, 2.0]).backward()


def test_backward_of_a_batched_loss():
    dy.renew_cg()
    x = dy.inputTensor(np.ones((1, 3)), batched=True)
    with pytest.raises(ValueError, match=r"\{1X3\}"):
        x.backward()


class Stepper:
    """A recurrence of which some steps are read."""

    def __init__(self, size=3):
        rng = np.random.default_rng(3)
        self.W, self.x = rng.normal(size=(size, size)) * 0.5, rng.normal(size=size)
        self.pc = dy.ParameterCollection()
        self.weights = self.pc.parameters_from_numpy(self.W)
        self.table = self.pc.lookup_parameters_from_numpy(rng.normal(size=(7, size)))

    def run(self, steps, read):
        """The values that were read, and those there should be."""
        dy.renew_cg()
        h, expected = dy.inputVector(self.x), self.x
        rows, found, wanted = self.table.as_array(), [], []
        for k in range(steps):
            h = dy.tanh(self.weights * h + self.table[k % 7])
            expected = np.tanh(self.W @ expected + rows[k % 7])
            if read(k):
                found.append(h.npvalue())
                wanted.append(expected)
        return found, wanted


def test_steps_read_at_random_stop_compiling():
    net = Stepper()

    def epoch(seed):
        rng = np.random.default_rng(seed)
        gaps = rng.integers(1, 6, size=60)  # at most so many steps between two reads
        found, wanted = net.run(60, set(np.cumsum(gaps).tolist()).__contains__)
        np.testing.assert_allclose(found, wanted, rtol=1e-4)

    for seed in range(6):
        epoch(seed)
    before = dy.stats()
    for seed in range(6, 12):
        epoch(seed)
    after = dy.stats()
    done = before.compilations + before.loads
    assert after.compilations + after.loads == done


def test_a_graph_that_is_never_renewed():
    net = Stepper()
    found, wanted = net.run(600, lambda _: True)
    np.testing.assert_allclose(found[-1], wanted[-1], rtol=1e-3)


def test_many_nodes_that_read_older_ones():
    net = Stepper()
    dy.renew_cg()
    first = [dy.tanh(net.weights * net.table[k % 7]) for k in range(90)]
    first[0].value()
    second = [dy.tanh(net.weights * h) for h in first]
    last = dy.esum(second)
    rows = net.table.as_array()
    expected = [np.tanh(net.W @ np.tanh(net.W @ rows[k % 7])) for k in range(90)]
    np.testing.assert_allclose(last.npvalue(), sum(expected), rtol=1e-4)
    np.testing.assert_allclose(second[89].npvalue(), expected[89], rtol=1e-4)
    third = dy.square(second[3])
    np.testing.assert_allclose(third.npvalue(), expected[3] ** 2, rtol=1e-4)


def test_a_part_with_loops_that_reads_nothing_older():
    dy.renew_cg()
    assert dy.inputVector([3.0, 4.0]).npvalue().tolist() == [3.0, 4.0]
    h = dy.inputVector([1.0, 2.0])
    w = dy.inputTensor([[0.5, -0.2], [0.1, 0.3]])
    for _ in range(6):
        h = dy.tanh(w * h)
    np.testing.assert_allclose(h.npvalue(), reference(6)[-1], rtol=1e-5)


def test_batches_gathered_from_older_nodes():
    net = Stepper()
    rows = net.table.as_array()
    dy.renew_cg()
    x = dy.lookup_batch(net.table, [1, 2, 3])
    y = dy.tanh(net.weights * x)
    y.value()
    one = dy.pick_batch_elem(y, 1)
    both = dy.concatenate_to_batch([one, y])
    np.testing.assert_allclose(
        both.npvalue()[:, 0], np.tanh(net.W @ rows[2]), rtol=1e-5
    )
    np.testing.assert_allclose(
        dy.sum_batches(both).npvalue(),
        np.tanh(rows[[2, 1, 2, 3]] @ net.W.T).sum(0),
        rtol=1e-5,
    )
    z = dy.cmult(y, dy.pick_batch_elem(x, 0))  # a row for all batch elements
    np.testing.assert_allclose(
        z.npvalue(), np.tanh(net.W @ rows[1:4].T) * rows[1][:, None], rtol=1e-5
    )


def test_values_after_an_update_are_the_old_ones():
    net = Stepper()
    trainer = dy.SimpleSGDTrainer(net.pc, 0.1)
    dy.renew_cg()
    y = dy.tanh(net.weights * dy.inputVector(net.x))
    y.value()
    dy.sum_elems(y).backward()
    trainer.update()
    before = np.tanh(net.W @ net.x)
    np.testing.assert_allclose(y.npvalue(), before, rtol=1e-5)
    np.testing.assert_allclose(
        dy.tanh(net.weights * y).npvalue(), np.tanh(net.W @ before), rtol=1e-5
    )


def test_masks_are_those_that_were_read():
    """What backward computes again has the masks that the user saw."""
    net = Stepper(size=40)
    dy.renew_cg()
    x = dy.dropout(dy.inputVector(net.x), 0.5)
    x.value()
    y = dy.dropout(dy.square(net.weights * x), 0.5)
    seen = y.npvalue()
    loss = dy.sum_elems(y)
    loss.backward()
    np.testing.assert_allclose(y.npvalue(), seen, rtol=1e-5, atol=1e-6)
    assert loss.value() == pytest.approx(seen.sum(), rel=1e-5)


def test_no_graph_is_kept():
    net = Stepper()
    net.run(4, lambda _: True)
    version = current_graph().version
    dy.renew_cg()
    gc.collect()
    graphs = [g for g in gc.get_objects() if type(g) is ComputationGraph]
    assert version not in [graph.version for graph in graphs]
    assert current_graph() in graphs


def test_threads_read_steps_of_one_model():
    net = Stepper()
    rows = net.table.as_array()
    failed = []

    def work(first):
        dy.renew_cg()
        h, expected = dy.inputVector(net.x), net.x
        for k in range(first, first + 150):
            h = dy.tanh(net.weights * h + net.table[k * first % 7])
            expected = np.tanh(net.W @ expected + rows[k * first % 7])
            if not np.allclose(h.npvalue(), expected, rtol=1e-3, atol=1e-5):
                failed.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_backward_after_a_revert_brings_back_no_node(weights):
    """What was reverted is not taken for computed when a part runs once more."""
    dy.renew_cg()
    h = dy.tanh(weights * dy.inputVector([1.0, 2.0]))
    loss = dy.squared_norm(h)
    dy.cg_checkpoint()
    (h * 3).npvalue()
    dy.cg_revert()
    loss.backward()
    expected = reference(1)[0]
    np.testing.assert_allclose((h * 5).npvalue(), 5 * expected, rtol=1e-5)
