"""Buffers that are used again: what an earlier run left in them is never read."""

import gc

import numpy as np
import pytest

import dynetjax as dy
from dynetjax.engine import scratch
from dynetjax.engine.run import Run

CLASSES, SIZE = 20_000, 3


@pytest.fixture
def free(monkeypatch):
    """The buffers that are held, none at first."""
    held = {}
    monkeypatch.setattr(scratch, "_free", held)
    return held


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


def test_garbage_is_never_read(free):
    pc = dy.ParameterCollection()
    rng = np.random.default_rng(3)
    shapes = [(CLASSES, SIZE), (SIZE,), (SIZE,)]
    model = [pc.parameters_from_numpy(rng.normal(size=s)) for s in shapes]
    first = gradients(model, 40)
    large = [b for held in free.values() for b in held]
    assert len(large) == 2  # scores, and their cotangents
    assert all(b.size >= scratch.LARGE for b in large)
    for held in free.values():
        held[:] = [b * np.nan for b in held]
    again = gradients(model, 40)
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a, b)
    few = gradients(model, 7)
    assert all(np.isfinite(g).all() for g in few)


def test_buffers_are_held_until_others_are_used_more(free):
    size = scratch.HELD // 8
    for n in range(6):
        shape = (size - n,)
        scratch.take_back([np.empty(shape, np.float32)] * (scratch.OF_A_SHAPE + 1))
        assert len(free[shape]) == scratch.OF_A_SHAPE
    assert sorted(free, reverse=True) == [(size - n,) for n in (2, 3, 4, 5)]
    kept = scratch.lend([(size - 5,)])[0]
    assert kept.shape == (size - 5,)
    assert len(free[kept.shape]) == scratch.OF_A_SHAPE - 1


def test_a_dropped_graph_is_freed_at_once(free):
    """And not when the garbage collector comes by: what it holds may be large."""
    pc = dy.ParameterCollection()
    model = [pc.add_parameters(s) for s in [(CLASSES, SIZE), (SIZE,), (SIZE,)]]
    gradients(model, 40)
    gc.collect()
    gc.disable()
    try:
        gradients(model, 40)
        runs = [o for o in gc.get_objects() if type(o) is Run]
    finally:
        gc.enable()
    assert not runs
