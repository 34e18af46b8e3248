"""Normalisation of activations and of weights."""

import numpy as np
import pytest
from laws import Case, Laws, close, rejects

import dynetjax as dy


def aligned(x, order):
    return x.reshape(x.shape + (1,) * (order - x.ndim))


def layer_norm(x, g, b):
    order = max(x.ndim, g.ndim, b.ndim)
    x, g, b = (aligned(a, order) for a in (x, g, b))
    return g * (x - x.mean()) / (x.std() + 1e-8) + b


def weight_norm(w, g):
    return w * g.reshape(-1)[0] / np.sqrt(np.sum(w**2))


CASES = [
    Case(dy.layer_norm, layer_norm, x=(5,), g=(5,), b=(5,)),
    Case(dy.layer_norm, layer_norm, x=(3, 2), g=(3, 2), b=(3, 2)),
    Case(dy.layer_norm, layer_norm, x=(3, 2), g=(3,), b=(1,)),
    Case(dy.layer_norm, layer_norm, x=(3, 2), g=(1, 2), b=(3, 1)),
    Case(dy.layer_norm, layer_norm, x=(3,), g=(3, 2), b=(3,)),
    Case(dy.weight_norm, weight_norm, w=(2, 3), g=(1,)),
    Case(dy.weight_norm, weight_norm, w=(4,), g=(1, 1)),
    Case(dy.weight_norm, weight_norm, w=(2, 2, 2), g=(1,)),
]


@pytest.mark.parametrize("case", CASES, ids=str)
class TestEveryNormalisation(Laws):
    pass


def test_statistics_are_those_of_each_batch_element():
    dy.renew_cg()
    collection = dy.ParameterCollection()
    x = np.random.RandomState(0).randn(4, 3) * [1, 10, 100]
    g, b = (collection.parameters_from_numpy(np.array(a)) for a in ([2.0] * 4, [1.0]))
    y = dy.layer_norm(dy.inputTensor(x, batched=True), g, b)
    close(y.npvalue(), 2 * (x - x.mean(0)) / x.std(0) + 1)
    dy.sum_batches(dy.sum_elems(y)).backward()
    close(b.grad_as_array(), [12])


def test_equal_elements():
    dy.renew_cg()
    collection = dy.ParameterCollection()
    x, g, b = (collection.parameters_from_numpy(np.full(3, k)) for k in (2.0, 3, 4))
    y = dy.layer_norm(x, g, b)
    assert y.value() == [4, 4, 4]
    dy.sum_elems(y).backward()
    assert np.isnan(x.grad_as_array()).all()
    assert g.grad_as_array().tolist() == [0, 0, 0]
    assert b.grad_as_array().tolist() == [1, 1, 1]


def test_normalised_weights_meet_a_batch():
    dy.renew_cg()
    collection = dy.ParameterCollection()
    w = np.array([[3.0, 0], [0, 4]])
    weights = collection.parameters_from_numpy(w)
    gain = collection.parameters_from_numpy(np.array([10.0]))
    x = dy.inputTensor(np.array([[1.0, 2], [3, 4]]), batched=True)
    y = dy.weight_norm(weights, gain) * x
    close(y.npvalue(), [[6, 12], [24, 32]])
    dy.sum_batches(dy.sum_elems(y)).backward()
    close(gain.grad_as_array(), [(3 * 3 + 4 * 7) / 5])


def test_weights_of_zero():
    dy.renew_cg()
    y = dy.weight_norm(dy.inputVector([0.0, 0.0]), dy.scalarInput(1))
    assert np.isnan(y.value()).all()


def tensors(*shapes):
    return [dy.inputTensor(np.ones(shape)) for shape in shapes]


@pytest.mark.parametrize(
    ("op", "shapes", "message"),
    [
        (
            dy.layer_norm,
            ((2, 2, 2), (1,), (1,)),
            "layer_norm: x has too many dimension",
        ),
        (dy.layer_norm, ((3,), (2,), (3,)), "layer_norm: the dims of the operands do"),
        (dy.layer_norm, ((3,), (3,), (2,)), "equal sizes, or 1"),
        (dy.weight_norm, ((3,), (3,)), "weight_norm: g is not one number"),
    ],
)
def test_refusals(op, shapes, message):
    rejects(lambda: op(*tensors(*shapes)), ValueError, message)


def test_other_refusals():
    def batches():
        return [dy.inputTensor(np.ones((3, n)), batched=True) for n in (2, 4)]

    rejects(
        lambda: dy.layer_norm(*batches(), *tensors((3,))), ValueError, "different b"
    )
    message = "an operand is not an Expression"
    rejects(lambda: dy.layer_norm(*tensors((3,), (3,)), None), TypeError, message)
    rejects(lambda: dy.weight_norm(*tensors((3,)), None), TypeError, message)
