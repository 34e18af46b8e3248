"""Parameters: arrays that are copies, and an expression of every graph."""

import numpy as np
import pytest

import dynetjax as dy
from dynetjax.model import parameters


@pytest.fixture(autouse=True)
def new_graph():
    dy.renew_cg()


@pytest.fixture
def p():
    return dy.ParameterCollection().parameters_from_numpy(np.array([1.0, -2.0, 3.0]))


def product(p):
    return dy.dot_product(p, dy.inputVector([1.0, 2.0, 3.0]))


class TestArrays:
    def test_copies(self, p):
        array = p.as_array()
        assert array.dtype == np.float64
        assert array.flags.f_contiguous
        array[:] = 0
        p.grad_as_array()[:] = 1
        assert p.as_array().tolist() == [1, -2, 3]
        assert p.grad_as_array().tolist() == [0, 0, 0]

    def test_set_value(self, p):
        product(p).backward()
        p.set_value([4, 5, 6])
        assert p.as_array().tolist() == [4, 5, 6]
        assert p.grad_as_array().tolist() == [1, 2, 3]
        with pytest.raises(ValueError, match="set_value: the shape is not that of /_0"):
            p.set_value(np.zeros((3, 1)))

    def test_zero(self, p):
        product(p).backward()
        p.zero()
        assert not p.as_array().any()
        assert not p.grad_as_array().any()

    def test_scale(self, p):
        product(p).backward()
        p.scale(2)
        p.scale_gradient(-1)
        assert p.as_array().tolist() == [2, -4, 6]
        assert p.grad_as_array().tolist() == [-1, -2, -3]

    def test_clip(self, p):
        p.clip_inplace(-1, 2)
        assert p.as_array().tolist() == [1, -1, 2]


class TestExpression:
    def test_dim_and_value(self, p):
        assert p.shape() == (3,)
        assert p.dim() == ((3,), 1)
        assert p.vec_value() == [1, -2, 3]
        assert str(p) == repr(p) == "Parameter /_0"
        assert bool(p)
        with pytest.raises(TypeError):
            len(p)

    def test_every_graph(self, p):
        for _ in range(2):
            dy.renew_cg()
            assert product(p).scalar_value() == 6

    def test_gradients_add_up(self, p):
        for count in 1, 2:
            dy.renew_cg()
            product(p).backward()
            assert p.grad_as_array().tolist() == [count, 2 * count, 3 * count]
        assert p.gradient().tolist() == [1, 2, 3]

    def test_constant(self, p):
        e = p.expr()
        assert e.npvalue().tolist() == [1, -2, 3]
        assert str(e) == "Constant /_0"
        product(e).backward()
        assert not p.grad_as_array().any()

    def test_expr_with_update(self, p):
        product(p.expr(True)).backward()
        assert p.grad_as_array().any()

    def test_frozen_collects_gradients(self, p):
        assert p.is_updated()
        p.set_updated(False)
        assert not p.is_updated()
        product(p).backward()
        assert p.grad_as_array().any()


def test_parameter_is_the_identity(p, capsys, monkeypatch):
    monkeypatch.setattr(parameters, "_told", False)
    assert dy.parameter(p) is p
    assert "DEPRECATED" in capsys.readouterr().out
    assert dy.parameter(p, 3) == (p, 3)
    assert dy.parameter() == ()
    assert not capsys.readouterr().out


class TestConstParameter:
    def test_zero_gradient_arrives(self, p):
        product(dy.const_parameter(p)).backward()
        assert not p.grad_as_array().any()
        assert p.storage.has_gradient

    def test_several(self, p):
        a, b = dy.const_parameter(p, p)
        assert a.npvalue().tolist() == b.npvalue().tolist() == [1, -2, 3]
        assert dy.const_parameter() == []
        with pytest.raises(TypeError, match="nobackprop"):
            dy.const_parameter(3)
