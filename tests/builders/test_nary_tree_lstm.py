"""NaryTreeLSTMBuilder against DyNet's numbers and its equations in NumPy."""

from functools import partial

import numpy as np
import pytest

import dynetjax as dy

from .trees import (
    CHILDREN,
    RECORDED,
    check_gradients,
    everything,
    fill_tree,
    number,
    numbers,
    outputs,
    run,
    sigmoid,
)


@pytest.fixture(params=[1, 2, 3], ids="N={}".format)
def builder(request):
    dy.renew_cg()
    made = dy.NaryTreeLSTMBuilder(request.param, 2, 3, 2, dy.ParameterCollection())
    fill_tree(made)
    return made


def test_dynet_numbers(builder):
    wanted = RECORDED[f"nary {builder.N} outputs"]
    np.testing.assert_allclose(outputs(builder).ravel(), wanted, atol=1e-6)


def test_dynet_gradients(builder):
    """Sums of their squares, parameter by parameter."""
    states = builder.transduce(list(zip(inputs(), CHILDREN, strict=True)))
    dy.esum([dy.squared_norm(e) for e in states]).backward()
    own = builder.param_collection()
    for what, some in [
        ("parameters", own.parameters_list()),
        ("tables", own.lookup_parameters_list()),
    ]:
        wanted = RECORDED[f"nary {builder.N} squared gradients of {what}"]
        found = [np.sum(p.grad_as_array() ** 2) for p in some]
        np.testing.assert_allclose(found, wanted, rtol=1e-4)


def inputs():
    return [dy.inputVector(x) for x in numbers(3)]


def test_first_values():
    dy.reset_random_seed(7)
    for N in (1, 2):  # as they were made when they were recorded
        builder = dy.NaryTreeLSTMBuilder(N, 2, 3, 2, dy.ParameterCollection())
    found = [
        np.moveaxis(p.as_array(), 0, -1)
        if isinstance(p, dy.LookupParameters)
        else p.as_array()
        for p in everything(builder)
    ]
    found = np.concatenate([values.ravel(order="F") for values in found])
    wanted = RECORDED["nary 2 first values"]
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-7)


def step_of(N):
    def step(layer, x, below):
        W_i, U_i, V_i, b_i, W_f, U_f, V_f, b_f, *others = layer
        W_o, U_o, V_o, b_o, W_c, U_c, b_c = others
        e = [min(j, N - 1) for j in range(len(below))]
        i, o, u = W_i @ x + b_i, W_o @ x + b_o, W_c @ x + b_c
        for j, (c, h) in enumerate(below):
            i = i + U_i[e[j]] @ h + V_i[e[j]] @ c
            o = o + U_o[e[j]] @ h + V_o[e[j]] @ c
            u = u + U_c[e[j]] @ h
        cell = sigmoid(i) * np.tanh(u)
        for k, (c_k, _) in enumerate(below):
            f = W_f @ x + b_f + 1
            for j, (c, h) in enumerate(below):
                both = e[j] * N + e[k]
                f = f + U_f[both] @ h + V_f[both] @ c
            cell = cell + sigmoid(f) * c_k
        return cell, sigmoid(o) * np.tanh(cell)

    return step


def test_equations(builder):
    layers = [[p.as_array() for p in layer] for layer in builder.get_parameters()]
    wanted = run(step_of(builder.N), layers, numbers(3), CHILDREN)
    np.testing.assert_allclose(outputs(builder), wanted, atol=1e-6)


def test_gradients(builder):
    check_gradients(builder, partial(run, step_of(builder.N)))


def test_parameters():
    builder = dy.NaryTreeLSTMBuilder(2, 2, 3, 5, dy.ParameterCollection())
    for layer, size in zip(builder.get_parameters(), (3, 5), strict=True):
        W, b = (5, size), (5,)
        gate = [W, (2, 5, 5), (2, 5, 5), b]
        forget = [W, (4, 5, 5), (4, 5, 5), b]
        wanted = [*gate, *forget, *gate, W, (2, 5, 5), b]
        assert [p.shape() for p in layer] == wanted
    names = [p for layer in builder.get_parameters() for p in layer]
    assert [number(p) for p in names] == list(range(30))
    assert names[16].name() == "/nary-tree-lstm-builder/_16"
    assert builder.spec == (2, 2, 3, 5)


def test_one_number():
    """Matrices of one number are no matrices for the engine."""
    dy.renew_cg()
    builder = dy.NaryTreeLSTMBuilder(2, 1, 1, 1, dy.ParameterCollection())
    fill_tree(builder)
    found = outputs(builder)
    wide = dy.NaryTreeLSTMBuilder(2, 1, 1, 2, dy.ParameterCollection())
    for p, q in zip(everything(builder), everything(wide), strict=True):
        values = p.as_array()
        padding = [(0, b - a) for a, b in zip(values.shape, q.shape(), strict=True)]
        values = np.pad(values, padding)
        if isinstance(q, dy.LookupParameters):
            q.init_from_array(values)
        else:
            q.set_value(values)
    np.testing.assert_allclose(found, outputs(wide)[:, :1], atol=1e-6)


def test_no_places():
    with pytest.raises(ValueError, match="N is 0"):
        dy.NaryTreeLSTMBuilder(0, 1, 3, 2, dy.ParameterCollection())
