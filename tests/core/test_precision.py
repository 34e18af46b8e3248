"""How exactly a device multiplies: what XLA is told."""

import jax
import numpy as np
import pytest

import dynetjax as dy
from dynetjax.core.precision import PRECISION, PRECISIONS
from dynetjax.engine.xla.compiling import Compiled

SIZE = 11  # of no other array here


@pytest.fixture(autouse=True)
def as_before():
    yield
    dy.init(precision="highest")


@pytest.fixture
def texts(monkeypatch):
    """Of the programs that are made."""
    found, lower = [], Compiled.lowered

    def noted(self, shapes):
        lowered = lower(self, shapes)
        found.append(lowered.as_text())
        return lowered

    monkeypatch.setattr(Compiled, "lowered", noted)
    return found


@pytest.fixture(scope="module")
def net():
    dy.reset_random_seed(1)
    m = dy.ParameterCollection()
    return m, m.add_parameters((SIZE, SIZE))


def loss(net):
    """Its value, and the gradient."""
    _, W = net
    dy.renew_cg()
    x = dy.tanh(W * dy.inputVector(np.linspace(-1, 1, SIZE)))
    y = dy.squared_norm(W * x)
    y.backward()
    gradient = W.grad_as_array().copy()
    W.scale_gradient(0)
    return y.value(), gradient


@pytest.mark.parametrize(
    ("name", "told"),
    [("tensorfloat32", "HIGH"), ("bfloat16", "DEFAULT"), ("highest", "HIGHEST")],
)
def test_all_products_have_it(net, by_xla, texts, name, told):
    """There and back; and on a CPU they are as exact as ever."""
    expected = loss(net)
    dy.init(precision="highest" if name != "highest" else "bfloat16")
    dy.init(precision=name)
    del texts[:]
    value, gradient = loss(net)
    all_text = "\n".join(texts)
    assert all_text.count("dot_general") == all_text.count(f"[{told}, {told}]") > 2
    np.testing.assert_allclose(value, expected[0], rtol=1e-6)
    np.testing.assert_allclose(gradient, expected[1], rtol=1e-5)


def test_the_algorithms_of_a_gpu():
    """JAX's names mean others there."""
    for name, algorithm in [("tensorfloat32", "TF32"), ("bfloat16", "BF16")]:
        PRECISION.choose(name, "gpu")
        told = PRECISION.of_products
        assert told is jax.lax.DotAlgorithmPreset[f"{algorithm}_{algorithm}_F32"]
    PRECISION.choose("highest", "gpu")
    assert PRECISION.of_products is jax.lax.Precision.HIGHEST


def test_an_algorithm_can_be_differentiated(net, by_xla, texts):
    """XLA has one for bfloat16 on a CPU, too."""
    dy.init(precision="bfloat16")
    PRECISION.choose("bfloat16", "gpu")
    value, gradient = loss(net)
    assert "lhs_precision_type = bf16" in "\n".join(texts)
    dy.init(precision="highest")
    exact = loss(net)
    np.testing.assert_allclose(value, exact[0], rtol=0.02)
    np.testing.assert_allclose(gradient, exact[1], rtol=0.1, atol=0.02)


def test_tier_0_computes_in_float32(net, natively):
    exact = loss(net)
    dy.init(precision="bfloat16")
    assert loss(net)[0] == exact[0]


def test_there_is_no_such_one():
    assert PRECISIONS == ("highest", "tensorfloat32", "bfloat16")
    with pytest.raises(ValueError, match="init: there is no such precision"):
        dy.init(precision="float64")
