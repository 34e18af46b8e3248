"""The engine's state: what it knows is in one object, and tests can do without it."""

import numpy as np

import dynetjax as dy
from dynetjax.core import tables
from dynetjax.engine.runtime import RUNTIME


def value(W):
    dy.renew_cg()
    return dy.squared_norm(dy.tanh(W * dy.inputVector([0.5, -1.0, 2.0]))).value()


def known():
    """How much the engine knows, by table."""
    return {
        name: len(found)
        for name, found in vars(RUNTIME).items()
        if hasattr(found, "clear")
    }


def test_apart_from_what_is_known():
    W = dy.ParameterCollection().parameters_from_numpy(np.eye(3))
    expected = float((np.tanh([0.5, -1, 2]) ** 2).sum())
    assert abs(value(W) - expected) < 1e-5
    before = known()
    assert all(before[name] for name in ("families", "made", "buffers"))
    with RUNTIME.apart() as runtime:
        assert runtime is RUNTIME
        assert not any(known().values())
        assert abs(value(W) - expected) < 1e-5
        assert known()["families"] == 1
    assert known() == before


def test_apart_with_the_same_settings(monkeypatch):
    monkeypatch.setattr(RUNTIME, "tier", "xla")
    with RUNTIME.apart():
        assert RUNTIME.tier == "xla"
        RUNTIME.tier = "auto"
    assert RUNTIME.tier == "xla"


def test_it_forgets_with_all_other_tables(runtime):
    value(dy.ParameterCollection().parameters_from_numpy(np.eye(3)))
    assert any(known().values())
    tables.forget_all()
    assert not any(known().values())
