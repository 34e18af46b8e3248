"""Where memory runs out: an error that tells what takes it, and nothing is lost."""

import jax
import numpy as np
import pytest

import dynetjax as dy
from dynetjax.engine import out_of_memory
from dynetjax.engine.out_of_memory import memory_of
from dynetjax.engine.xla.run import Run
from dynetjax.graph import current_graph


def example():
    m = dy.ParameterCollection()
    W = m.parameters_from_numpy(np.array([[1.0, 2.0], [3.0, 4.0]]))
    E = m.lookup_parameters_from_numpy(np.ones((3, 2)))
    dy.renew_cg()
    return W, E, dy.squared_norm(dy.tanh(W * E[1]))


def test_nothing_is_lost(monkeypatch):
    """After the error the same graph can be computed, or another one."""
    W, E, loss = example()

    def fail(self, *args, **options):
        reason = "RESOURCE_EXHAUSTED: Out of memory allocating 123 bytes."
        raise jax.errors.JaxRuntimeError(reason)

    for read in loss.value, loss.backward:
        with monkeypatch.context() as patched:
            patched.setattr(Run, "forward", fail)
            with pytest.raises(MemoryError, match="123 bytes could not be had"):
                read()
    assert not W.grad_as_array().any()
    value = loss.value()
    loss.backward()
    gradients = W.grad_as_array(), E.grad_as_array()
    W, E, again = example()
    assert again.value() == pytest.approx(value, rel=1e-6)
    again.backward()
    np.testing.assert_allclose(W.grad_as_array(), gradients[0], rtol=1e-5)
    np.testing.assert_allclose(E.grad_as_array(), gradients[1], rtol=1e-5)


def test_other_errors_of_the_device(monkeypatch):
    _, _, loss = example()

    def fail(self, *args, **options):
        raise jax.errors.JaxRuntimeError("INTERNAL: something else")

    monkeypatch.setattr(Run, "forward", fail)
    with pytest.raises(jax.errors.JaxRuntimeError, match="something else"):
        loss.value()


def test_the_message():
    dy.renew_cg()
    for _ in range(2):
        dy.tanh(dy.inputTensor(np.zeros((1024, 512))))
    dy.sum_elems(dy.zeros(3))
    with pytest.raises(MemoryError) as caught, memory_of(current_graph()):
        raise MemoryError("Unable to allocate 7.5 GiB for an array")
    assert "7.5 GiB could not be had" in str(caught.value)
    assert "2 tanh {1024,512} take 4 MB" in str(caught.value)
    dy.renew_cg()
    with pytest.raises(MemoryError, match="which is empty"), memory_of(current_graph()):
        raise MemoryError


def test_other_errors_pass():
    with pytest.raises(ValueError, match="something other"), memory_of(current_graph()):
        raise ValueError("something other")


def test_large_rows_take_the_room_they_need():
    """A matrix per node: no arrays for many more, and no lanes without one."""
    m = dy.ParameterCollection()
    W = m.add_parameters((300, 300))
    for _ in range(6):
        dy.renew_cg()
        y = W * dy.inputTensor(np.ones((300, 200)))
        loss = dy.squared_norm(dy.tanh(y))
        loss.backward()
    parts = loss.graph.state.parts
    pools = [pool for part in parts for pool in part.values.pools]
    assert sum(pool.nbytes for pool in pools) < 40 * 4 * 300 * 200


def test_large_rows_that_a_graph_does_without():
    """Their component is there, with room for few rows, and runs on none."""
    m = dy.ParameterCollection()
    matrices = m.lookup_parameters_from_numpy(np.full((64, 128, 128), 0.01))
    vectors = m.lookup_parameters_from_numpy(np.ones((64, 128)))
    ids = list(range(64)) * 4
    for count in (256, 4, 256, 4):
        dy.renew_cg()
        x = dy.lookup_batch(vectors, ids[:count])
        if count == 256:
            x = dy.tanh(dy.lookup_batch(matrices, ids) * x)
        loss = dy.sum_batches(dy.squared_norm(x))
        wanted = 256 * 128 * np.tanh(1.28) ** 2 if count == 256 else 4 * 128
        assert loss.value() == pytest.approx(wanted, rel=1e-4)
        loss.backward()


def grow(updates, words=20):
    """Losses of one graph, each with its gradients; bytes that tier 0 takes after."""
    pc = dy.ParameterCollection()
    weights, table = pc.add_parameters((64, 64)), pc.add_lookup_parameters((100, 64))
    trainer = dy.SimpleSGDTrainer(pc)
    dy.renew_cg()
    for _ in range(updates):
        rows = [dy.tanh(weights * table[k % 100]) for k in range(words)]
        loss = dy.esum([dy.squared_norm(row) for row in rows])
        loss.backward()
        trainer.update()
    return loss.graph.state.memory()


def test_gradients_of_a_graph_that_grows(natively):
    """Twice the nodes take twice the memory, although each backward asks for more."""
    assert grow(440) <= 3 * grow(220)


def test_a_graph_that_grows_is_told_of_once(monkeypatch):
    monkeypatch.setattr(out_of_memory, "MOST_NODES", 50)
    message = (
        r"the computation graph has become very large\n.*nodes.*MB\n.*\n.*renew_cg"
    )
    with pytest.warns(RuntimeWarning, match=message) as told:
        grow(8, words=4)
    assert [warning.filename for warning in told] == [__file__]


def test_a_graph_of_many_numbers_is_told_of(natively, monkeypatch):
    monkeypatch.setattr(out_of_memory, "MOST_BYTES", 1 << 20)
    with pytest.warns(RuntimeWarning, match="has become very large") as told:
        grow(4, words=2000)
    assert len(told) == 1
