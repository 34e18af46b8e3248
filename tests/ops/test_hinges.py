"""Hinge losses."""

import numpy as np
import pytest
from laws import Case, Laws, close, rejects

import dynetjax as dy


def hinge(x, v, m=1.0):
    x = x.reshape(-1)
    others = np.delete(x, v, axis=0)
    return np.maximum(0, others - x[v] + m).sum(0, keepdims=True)


def hinge_dim(x, v, d=0, m=1.0):
    """`hinge` of every column of a matrix, or every row; the batch last."""
    if x.ndim == 3:
        every = v if isinstance(v[0], list) else [v] * x.shape[2]
        return np.stack([hinge_dim(x[..., k], v, d, m) for k, v in enumerate(every)], 1)
    lines = x if d else x.T
    return np.array([hinge(x, c, m)[0] for x, c in zip(lines, v, strict=True)])


def per_element(x, vs, m):
    return np.stack([hinge(x[:, k], v, m) for k, v in enumerate(vs)], axis=-1)


CASES = [
    Case(dy.hinge_dim, hinge_dim, x=(4, 3), v=[3, 0, 2]),
    Case(dy.hinge_dim, hinge_dim, x=(2, 3), v=[2, 0], d=1, m=0.5),
    Case(dy.hinge_dim, hinge_dim, x=(3, 3), v=[2, 0, 1], d=1),
]
BATCHES = [
    Case(dy.hinge_batch, per_element, x=(4,), vs=[2, 0, 3], m=0.5, batch=3),
    Case(dy.hinge_dim, hinge_dim, x=(4, 2), v=[[3, 0], [1, 1]], batch=2),
]
ONE_CLASS = [
    Case(dy.hinge, hinge, x=(4,), v=2),
    Case(dy.hinge, hinge, x=(4, 1), v=0, m=0.3),
]


@pytest.mark.parametrize("case", [*CASES, *BATCHES], ids=str)
class TestEveryHinge(Laws):
    pass


@pytest.mark.parametrize("case", ONE_CLASS, ids=str)
class TestOneClass(Laws):
    def test_batch(self, case):
        """A batch needs a class for each element."""
        dy.renew_cg()
        batch = case.inputs(case.arrays(batch=3), batch=3)
        with pytest.raises(ValueError, match="x is batched, and v is one number"):
            case.call(case.op, batch)


def test_no_gradient_exactly_on_the_margin():
    dy.renew_cg()
    p = dy.ParameterCollection().parameters_from_numpy(np.array([2.0, 1.0]))
    (dy.hinge(p, 0) + dy.hinge_dim(dy.reshape(p, (2, 1)), [0])).backward()
    assert p.grad_as_array().tolist() == [0, 0]


def test_set_index():
    dy.renew_cg()
    x = np.array([[0.5, -1.0], [2.0, 0.3], [-0.4, 1.1]])
    one = dy.hinge(dy.inputVector(x[:, 0]), 0, 0.5)
    two = dy.hinge_batch(dy.inputTensor(x, batched=True), [0, 1])
    dy.forward([one, two])
    one.set_index(1)
    two.set_index([2, 2])
    close(one.value(), hinge(x[:, 0], 1, 0.5)[0])
    close(two.value(), per_element(x, [2, 2], 1.0)[0])


def vector():
    return dy.inputVector([0.5] * 3)


def matrix():
    return dy.inputTensor(np.ones((3, 2)))


def batch():
    return dy.inputTensor(np.ones((3, 2)), batched=True)


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (lambda: dy.hinge(vector(), 3), ValueError, "hinge: v is out of range"),
        (lambda: dy.hinge(vector(), 0, -1.0), ValueError, "hinge: m is too small"),
        (lambda: dy.hinge(batch(), 0), ValueError, "use hinge_batch"),
        (lambda: dy.hinge_batch(batch(), [0]), ValueError, "vs does not fit the batch"),
        (lambda: dy.hinge_dim(vector(), [0]), ValueError, "not a matrix of scores"),
        (lambda: dy.hinge_dim(matrix(), [0, 3]), ValueError, "v is out of range"),
        (lambda: dy.hinge_dim(matrix(), [0, -1]), OverflowError, "v is negative"),
        (lambda: dy.hinge_dim(matrix(), 0), TypeError, "v is not a sequence of ints"),
        (lambda: dy.hinge_dim(matrix(), [0]), ValueError, "v does not fit the matrix"),
        (lambda: dy.hinge_dim(matrix(), [[0, 1]] * 2), ValueError, "v does not fit th"),
        (lambda: dy.hinge_dim(matrix(), [0, 1], 2), ValueError, "x has no such dimens"),
        (lambda: dy.hinge_dim(matrix(), [0, 1], 0, -1), ValueError, "m is too small"),
    ],
)
def test_refusals(function, error, message):
    rejects(function, error, message)
