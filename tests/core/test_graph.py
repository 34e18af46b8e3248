"""The graph as users see it: numbering, staleness, reading, immediate mode."""

import gc
import threading
import weakref

import numpy as np
import pytest

import dynetjax as dy
from dynetjax.core.registry import LOOKUP
from dynetjax.engine.ir.fused import FUSED_OPS
from dynetjax.engine.xla.run import Run
from dynetjax.graph import ComputationGraph

from ..backends import on_cpu


@pytest.fixture(autouse=True)
def _fresh_graph():
    dy.renew_cg()


class TestReading:
    """Types and shapes of the contract's table, one row a case."""

    @pytest.mark.parametrize(
        ("shape", "batch", "value", "npshape"),
        [
            ((1,), 1, float, (1,)),
            ((3,), 1, list, (3,)),
            ((1, 1), 1, np.ndarray, (1, 1)),
            ((3, 1), 1, np.ndarray, (3, 1)),
            ((2, 3), 1, np.ndarray, (2, 3)),
            ((1,), 4, list, (1, 4)),
            ((3,), 4, list, (3, 4)),
            ((2, 3), 4, np.ndarray, (2, 3, 4)),
        ],
    )
    def test_types(self, shape, batch, value, npshape):
        given = np.arange(float(np.prod(shape) * batch)).reshape(*shape, batch)
        x = dy.inputTensor(given, batched=True)
        assert x.dim() == (shape, batch)
        assert type(x.value()) is value
        assert x.npvalue().shape == npshape
        assert x.npvalue().dtype == np.float64
        np.testing.assert_array_equal(x.npvalue(), given.reshape(npshape))
        assert x.vec_value() == given.ravel(order="F").tolist()

    def test_one_number(self):
        assert dy.inputTensor([[2.0]]).scalar_value() == 2.0

    def test_scalar_value_of_more(self):
        with pytest.raises(RuntimeError, match="scalar_value: the expression has more"):
            dy.inputVector([1.0, 2.0]).scalar_value()

    def test_an_array_handed_out_is_a_copy(self):
        x = dy.inputVector([1.0, 2.0])
        x.npvalue()[:] = 9
        assert x.value() == [1, 2]

    @on_cpu
    def test_another_row_of_what_was_read(self, monkeypatch):
        """It is there already, until the graph is computed anew."""
        xs = [dy.inputVector([k, 2, 1, 0, -1]) for k in range(4)]
        ys = [dy.cube(x) for x in xs]
        assert ys[3].value() == [27, 8, 1, 0, -1]
        with monkeypatch.context() as patch:
            patch.setattr(Run, "rows", None)
            for k, y in enumerate(ys):
                assert y.value() == [k**3, 8, 1, 0, -1]
        dy.sum_elems(ys[1]).backward()
        xs[2].set([5, 0, 0, 0, 0])
        assert ys[2].value() == [125, 0, 0, 0, 0]
        assert ys[0].value() == [0, 8, 1, 0, -1]

    def test_many_at_once(self):
        x = dy.inputVector([1.0, 2.0])
        assert dy.values([x, dy.square(x)]) == [[1, 2], [1, 4]]

    def test_forward_wants_a_list(self):
        x = dy.inputVector([1.0])
        dy.forward([x])
        with pytest.raises(TypeError, match="expected a list, got tuple"):
            dy.forward((x,))
        with pytest.raises(IndexError, match="the list of expressions is empty"):
            dy.forward([])


class TestStale:
    def test_read(self):
        x = dy.inputVector([1.0])
        dy.renew_cg()
        for read in (x.value, x.dim, x.forward, x.backward, x.gradient):
            with pytest.raises(RuntimeError, match="the expression is stale"):
                read()

    def test_operand(self):
        x = dy.inputVector([1.0])
        dy.renew_cg()
        fresh = dy.inputVector([1.0])
        for use in (
            lambda: dy.tanh(x),
            lambda: fresh + x,
            lambda: x + fresh,
            lambda: x + 1,
            lambda: dy.esum([fresh, x]),
            lambda: x.set([2.0]),
        ):
            with pytest.raises(ValueError, match="made before renew_cg"):
                use()

    def test_parameters_never_are(self):
        p = dy.ParameterCollection().parameters_from_numpy(np.array([2.0]))
        for _ in range(2):
            dy.renew_cg()
            assert p.value() == 2.0

    def test_its_name(self):
        x = dy.inputVector([1.0])
        assert str(x) == f"expression 0/{dy.cg_version()}"
        dy.renew_cg()
        assert str(x) == "expression (stale)"


def test_a_mistake_adds_no_node():
    x = dy.inputVector([1.0, 2.0])
    with pytest.raises(ValueError, match="add"):
        x + dy.inputVector([1.0, 2.0, 3.0])
    assert dy.square(x).value() == [1, 4]


def test_operands_with_different_batches():
    x = dy.inputTensor(np.ones((2, 3)), batched=True)
    y = dy.inputTensor(np.ones((2, 4)), batched=True)
    with pytest.raises(ValueError, match="different batch sizes") as error:
        dy.cmult(x, y)
    assert "{2X3}, {2X4}" in str(error.value)


def test_numbers_count_what_the_user_made():
    xs = [dy.inputVector([1.0]) for _ in range(20)]
    assert str(dy.inputVector([1.0])).startswith("expression 20/")
    assert str(xs[3]).startswith("expression 3/")


@pytest.mark.parametrize("batch", [5, 20])
def test_a_sum_over_the_batch_is_one_node(batch):
    x = dy.inputTensor(np.ones((2, batch)), batched=True)
    assert str(dy.sum_batches(x)).startswith("expression 1/")
    assert str(dy.tanh(x)).startswith("expression 2/")


class TestImmediate:
    def test_computes_every_node(self):
        dy.renew_cg(immediate_compute=True)
        before = dy.stats().runs
        dy.square(dy.inputVector([2.0]))
        assert dy.stats().runs == before + 2

    def test_validity(self):
        dy.renew_cg(immediate_compute=True, check_validity=True)
        x = dy.inputVector([-1.0])
        with pytest.raises(RuntimeError, match="log: NaN or Inf detected"):
            dy.log(x)


def test_each_thread_has_its_graph():
    x = dy.inputVector([1.0])
    found = []

    def other():
        dy.renew_cg()
        found.append(dy.square(dy.inputVector([3.0])).value())

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert found == [9.0]
    assert (x + 1).value() == 2.0


def test_parts_of_a_list_are_inlined_the_second_time_as_well():
    """What one list uses is a part of it; what two use, or one twice, is not."""
    pc = dy.ParameterCollection()
    table = pc.lookup_parameters_from_numpy(np.arange(6.0).reshape(3, 2) / 10)

    def build():
        dy.renew_cg()
        a, b = dy.exp(table[0]), dy.exp(table[1])
        c = dy.square(table[2])
        return dy.concatenate([a, b]), dy.concatenate([c, c])

    expected = np.exp([0, 0.1, 0.2, 0.3]), np.square([0.4, 0.5] * 2)
    for _ in range(3):
        once, twice = build()
        np.testing.assert_allclose(once.npvalue(), expected[0], rtol=1e-6)
        np.testing.assert_allclose(twice.npvalue(), expected[1], rtol=1e-6)
    once, _ = build()
    once.value()
    stored = once.graph.stored
    read = stored.reads(once.graph.at(once.index))
    assert [FUSED_OPS[stored.fused(k)].form for k in read] == [LOOKUP] * 2


def test_large_inputs_are_freed_at_once():
    several = [dy.inputTensor(np.zeros((300, 300))).data for _ in range(4)]
    numbers = [weakref.ref(data) for data in several]
    del several
    dy.renew_cg()
    assert [data() for data in numbers] == [None] * 4


def test_a_new_model_finds_the_memory_of_the_last_one():
    W = dy.ParameterCollection().add_parameters((2, 2))
    numbers = weakref.ref(W.storage)
    dy.tanh(W * dy.inputVector([1, 2]))
    del W
    dy.renew_cg()
    assert numbers() is None


def test_a_table_lives_as_long_as_a_graph_that_reads_it():
    rows = np.array([[1, 2], [3, 4]])
    E = dy.ParameterCollection().lookup_parameters_from_numpy(rows)
    numbers, row = weakref.ref(E.storage), E[1]
    del E
    gc.collect()
    assert row.value() == [3, 4]
    dy.renew_cg()
    gc.collect()
    assert numbers() is None


def test_a_loss_that_is_kept_keeps_no_other_node():
    x = dy.inputVector([1, 2])
    numbers = weakref.ref(x.data)
    for _ in range(100):
        x = dy.tanh(x)
    loss = dy.squared_norm(x)
    graph = loss.graph
    assert len(graph) == 102
    dy.renew_cg()
    assert (len(graph), numbers()) == (0, None)
    with pytest.raises(RuntimeError, match="is stale"):
        loss.value()


def test_a_thread_that_ends_leaves_no_graph():
    """The collector can tell that nobody has it any more."""

    def work():
        dy.renew_cg()
        x = dy.inputVector([1, 2])
        for _ in range(5):
            x = dy.tanh(x)
        x.value()

    def count():
        gc.collect()
        return sum(type(x) is ComputationGraph for x in gc.get_objects())

    before = count()
    for _ in range(3):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert count() == before
