"""Contractions of a tensor with vectors, and circular convolution of two vectors."""

import re

import numpy as np
import pytest
from laws import Case, Laws, close, rejects

import dynetjax as dy


def over_last(x, y, b=0.0):
    return np.einsum("ijk,k->ij", x, y.reshape(-1)) + b


def over_two(x, y, z, b=0.0):
    return np.einsum("ijk,k,j->i", x, y.reshape(-1), z.reshape(-1)) + b


def convolution(u, v):
    d = len(u)
    return np.array([sum(u[i] * v[(k - i) % d] for i in range(d)) for k in range(d)])


def correlation(u, v):
    d = len(u)
    return np.array([sum(u[i] * v[(i + k) % d] for i in range(d)) for k in range(d)])


CASES = [
    Case(dy.contract3d_1d, over_last, x=(2, 3, 4), y=(4,)),
    Case(dy.contract3d_1d, over_last, x=(3, 3, 3), y=(3, 1)),
    Case(dy.contract3d_1d, over_last, x=(2, 1, 1), y=(1,)),
    Case(dy.contract3d_1d_bias, over_last, x=(2, 3, 4), y=(4,), b=(2, 3)),
    Case(dy.contract3d_1d_1d, over_two, x=(2, 3, 4), y=(4,), z=(3,)),
    Case(dy.contract3d_1d_1d, over_two, x=(3, 3, 3), y=(3, 1), z=(3, 1)),
    Case(dy.contract3d_1d_1d_bias, over_two, x=(2, 3, 4), y=(4,), z=(3,), b=(2,)),
    Case(dy.circ_conv, convolution, u=(5,), v=(5,)),
    Case(dy.circ_conv, convolution, u=(4,), v=(4,)),
    Case(dy.circ_conv, convolution, u=(1,), v=(1,)),
    Case(dy.circ_corr, correlation, u=(5,), v=(5,)),
    Case(dy.circ_corr, correlation, u=(4,), v=(4,)),
    Case(dy.circ_corr, correlation, u=(1,), v=(1,)),
]


@pytest.mark.parametrize("case", CASES, ids=str)
class TestEveryOperation(Laws):
    pass


def drawn(seed, *shape):
    return np.random.RandomState(seed).uniform(-1, 1, shape)


def test_one_tensor_meets_a_batch():
    dy.renew_cg()
    collection = dy.ParameterCollection()
    arrays = drawn(0, 2, 3, 4), drawn(1, 4, 5), drawn(2, 3, 5), drawn(3, 2)
    x, y, z, b = arrays
    weights, bias = map(collection.parameters_from_numpy, (x, b))
    result = dy.contract3d_1d_1d_bias(
        weights, dy.inputTensor(y, batched=True), dy.inputTensor(z, batched=True), bias
    )
    close(result.npvalue(), np.einsum("ijk,kn,jn->in", x, y, z) + b[:, None])
    dy.sum_batches(dy.sum_elems(result)).backward()
    close(
        weights.grad_as_array(), np.broadcast_to(np.einsum("kn,jn->jk", y, z), x.shape)
    )
    close(bias.grad_as_array(), [5, 5])


def test_a_batch_of_tensors_meets_one_vector():
    dy.renew_cg()
    x, b = drawn(0, 2, 3, 4, 5), drawn(1, 2, 3)
    y = dy.ParameterCollection().parameters_from_numpy(drawn(2, 4))
    batch, bias = dy.inputTensor(x, batched=True), dy.inputTensor(b)
    result = dy.contract3d_1d_bias(batch, y, bias)
    close(result.npvalue(), np.einsum("ijkn,k->ijn", x, drawn(2, 4)) + b[..., None])
    dy.sum_batches(dy.sum_elems(result)).backward()
    close(y.grad_as_array(), x.sum((0, 1, 3)))


@pytest.mark.parametrize("d", [127, 512])
def test_long_vectors(d):
    dy.renew_cg()
    u, v = drawn(0, d), drawn(1, d)
    x, y = dy.inputTensor(u), dy.inputTensor(v)
    scale = np.linalg.norm(u) * np.linalg.norm(v)
    close(dy.circ_conv(x, y).npvalue(), convolution(u, v), rtol=0, atol=1e-6 * scale)
    close(dy.circ_corr(x, y).npvalue(), correlation(u, v), rtol=0, atol=1e-6 * scale)


def tensors(*shapes):
    return [dy.inputTensor(np.ones(shape)) for shape in shapes]


X, MATRIX = (2, 3, 4), (2, 3)


@pytest.mark.parametrize(
    ("op", "shapes", "message"),
    [
        (dy.contract3d_1d, (X, (3,)), "expected: {a,b,k} and {k}"),
        (dy.contract3d_1d, (X, (1, 4)), "contract3d_1d: the dims of the operands do"),
        (dy.contract3d_1d, (MATRIX, (1,)), "got:      {2,3}, {1}"),
        (dy.contract3d_1d_bias, (X, (2,), MATRIX), "contract3d_1d_bias: the dims"),
        (dy.contract3d_1d_bias, (X, (4,), (2,)), "expected: b of dims {2,3}"),
        (dy.contract3d_1d_bias, ((2, 1, 4), (4,), (2,)), "expected: b of dims {2,1}"),
        (dy.contract3d_1d_1d, (X, (3,), (4,)), "z with the middle one"),
        (dy.contract3d_1d_1d, (X, (4,), (4,)), "expected: {a,b,k}, {k} and {b}"),
        (dy.contract3d_1d_1d, (X, (4,), (1, 3)), "contract3d_1d_1d: the dims of the"),
        (dy.contract3d_1d_1d_bias, (X, (4,), (3,), (1,)), "expected: b of dims {2}"),
        (dy.circ_conv, ((3,), (4,)), "circ_conv: the dims of the operands do not fit"),
        (dy.circ_conv, ((3, 1), (3, 1)), "expected: two vectors {d}"),
        (dy.circ_corr, ((3,), (4,)), "circ_corr: the dims of the operands do not fit"),
    ],
)
def test_refusals(op, shapes, message):
    rejects(lambda: op(*tensors(*shapes)), ValueError, re.escape(message))


def test_other_refusals():
    def batches():
        return [dy.inputTensor(np.ones((3, n)), batched=True) for n in (2, 4)]

    rejects(lambda: dy.circ_conv(*batches()), ValueError, "different batch sizes")
    message = "an operand is not an Expression"
    rejects(lambda: dy.circ_corr(*tensors((3,)), None), TypeError, message)
    rejects(lambda: dy.contract3d_1d(None, *tensors((3,))), TypeError, message)
    rejects(lambda: dy.contract3d_1d_1d(*tensors(X, (4,)), None), TypeError, message)
