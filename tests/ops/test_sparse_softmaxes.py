"""Softmaxes that are exactly 0, or exactly at a bound, in places."""

import numpy as np
import pytest
from laws import Case, Laws, close, rejects

import dynetjax as dy


def threshold(x):
    """tau and the support, by the sorted numbers."""
    z = np.sort(x.reshape(-1))[::-1]
    above = [k for k in range(1, len(z) + 1) if 1 + k * z[k - 1] > z[:k].sum()]
    k = max(above, default=1)  # none where the largest is infinite
    tau = (z[:k].sum() - 1) / k
    return tau, x > tau


def sparsemax(x):
    return np.maximum(x - threshold(x)[0], 0)


def sparsemax_loss(x, targets):
    tau, support = threshold(x)
    squares = np.sum(x[support] ** 2 - tau**2) + 0 * tau  # NaN of one at infinity
    return (squares + 1 / len(targets))[None] / 2 - np.mean(x.reshape(-1)[targets])


def constrained_softmax(x, y):
    """Whatever exceeds its bound is set to it, until nothing does."""
    q, u = np.exp(x.reshape(-1) - x.max()), y.reshape(-1)
    p, active, mass = np.zeros(len(q)), np.ones(len(q), bool), 0.0
    while active.any():
        p[active] = q[active] * (1 - mass) / q[active].sum()
        over = active & (p > u)
        if not over.any():
            break
        p[over] = u[over]
        mass += u[over].sum()
        active &= ~over
    return p.reshape(x.shape)


CASES = [
    Case(dy.sparsemax, sparsemax, x=(4,)),
    Case(dy.sparsemax, sparsemax, x=(30,), low=-0.1, high=0.1),
    Case(dy.sparsemax, sparsemax, x=(3, 1)),
    Case(dy.sparsemax, sparsemax, x=(1,)),
    Case(dy.sparsemax_loss, sparsemax_loss, x=(4,), target_ids=[2]),
    Case(dy.sparsemax_loss, sparsemax_loss, x=(30,), target_ids=[0, 29, 3]),
    Case(dy.sparsemax_loss, sparsemax_loss, x=(3, 1), target_ids=[0, 1, 2]),
    Case(dy.constrained_softmax, constrained_softmax, x=(4,), y=(4,), low=0.1, high=1),
    Case(dy.constrained_softmax, constrained_softmax, x=(9,), y=(9,), low=0, high=0.3),
    Case(dy.constrained_softmax, constrained_softmax, x=(3,), y=(3, 1), low=1, high=2),
    Case(
        dy.constrained_softmax, constrained_softmax, x=(4, 1), y=(4,), low=0, high=0.2
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
class TestEverySoftmax(Laws):
    pass


def with_gradients(function, r, *arrays):
    """The value, and the gradients where that of the value is `r`."""
    dy.renew_cg()
    collection = dy.ParameterCollection()
    given = [collection.parameters_from_numpy(np.array(a)) for a in arrays]
    y = function(*given)
    value = y.npvalue()
    dy.dot_product(y, dy.inputVector(r)).backward()
    return value, *[p.grad_as_array() for p in given]


@pytest.mark.parametrize(
    ("x", "support"),
    [
        ([1.0, 1.0, 0.0], [0, 1]),  # equal scores share
        ([2.0, 2.0, 2.0], [0, 1, 2]),
        ([1.0, 0.0], [0]),  # exactly at the threshold is outside
        ([0.5, -np.inf, 0.25], [0, 2]),
        ([3e8, 3e8, 1.0], [0, 1]),  # too large to add 1 to
    ],
)
def test_support(x, support):
    r = np.arange(1.0, len(x) + 1)
    y, gradient = with_gradients(dy.sparsemax, r, x)
    assert np.flatnonzero(y).tolist() == support
    close(y.sum(), 1)
    expected = np.zeros(len(x))
    expected[support] = r[support] - r[support].mean()
    close(gradient, expected)


@pytest.mark.parametrize("targets", [[0], [1], (0, 1), np.array([1, 1])])
def test_loss_with_a_target_exactly_at_the_threshold(targets):
    """The gradient is sparsemax(x) - q, also where x is at the kink."""
    value, gradient = with_gradients(
        lambda x: dy.sparsemax_loss(x, targets), [2.0], [1.0, 0.0]
    )
    q = np.zeros(2)
    q[list(targets)] = 1 / len(set(targets))
    close(value, sparsemax_loss(np.array([1.0, 0.0]), list(set(targets))))
    close(gradient, 2 * (np.array([1.0, 0.0]) - q))


def test_loss_of_large_scores():
    x = [1e6, 1e6 + 0.5, 0.0]
    value, gradient = with_gradients(lambda x: dy.sparsemax_loss(x, [0]), [1.0], x)
    close(value, sparsemax_loss(np.array([0.0, 0.5, -1e6]), [0]))
    close(gradient, [0.25 - 1, 0.75, 0])


def test_targets_never_recompile():
    collection = dy.ParameterCollection()
    p = collection.parameters_from_numpy(np.array([0.1, -0.4, 0.7, 1.2]))
    compilations = []
    for targets in ([0], [0], [3, 1], (2,), [0, 1, 2, 3]):
        dy.renew_cg()
        loss = dy.sparsemax_loss(dy.tanh(p), targets)
        loss.value()
        loss.backward()
        p.grad_as_array()
        stats = dy.stats()
        compilations.append(stats.compilations + stats.loads)
    assert compilations[1:] == compilations[1:2] * 4


@pytest.mark.parametrize(
    ("x", "bounds", "fixed"),
    [
        ([1.0, 2.0, 0.0], [1.0, 1.0, 1.0], []),  # nothing is bounded
        ([5.0, 1.0, 1.0], [0.4, 0.5, 0.5], [0]),
        ([5.0, 4.0, 0.0], [0.3, 0.5, 1.0], [0, 1]),  # the second only then
        ([0.0, 0.0, 0.0], [0.1, 0.1, 0.2], [0, 1, 2]),  # less than 1 in all
        ([1.0, 1.0], [0.5, 0.5], []),  # exactly at the bounds is free
        ([1.0, 1.0, -300.0, -301.0], [0.0, 0.5, 0.1, 1.0], [0, 1, 2]),
    ],
)
def test_bounds(x, bounds, fixed):
    r = np.arange(1.0, len(x) + 1)
    p, d_x, d_y = with_gradients(dy.constrained_softmax, r, x, bounds)
    free = np.setdiff1d(np.arange(len(x)), fixed)
    close(p[fixed], np.array(bounds)[fixed])
    close(p.sum(), min(1, sum(bounds)))
    mean = np.sum(p[free] * r[free]) / np.sum(p[free]) if len(free) else 0.0
    expected = np.zeros((2, len(x)))
    expected[0, free] = p[free] * (r[free] - mean)
    expected[1, fixed] = r[fixed] - mean
    close([d_x, d_y], expected)


def test_one_set_of_bounds_meets_a_batch():
    dy.renew_cg()
    x, y = np.random.RandomState(0).randn(5, 3), np.array([0.3, 0.2, 0.4, 0.3, 0.5])
    bounds = dy.ParameterCollection().parameters_from_numpy(y)
    p = dy.constrained_softmax(dy.inputTensor(x, batched=True), bounds)
    close(p.npvalue().T, [constrained_softmax(column, y) for column in x.T])


def tensors(*shapes):
    return [dy.inputTensor(np.ones(shape)) for shape in shapes]


def loss(shape, targets):
    return lambda: dy.sparsemax_loss(*tensors(shape), targets)


def constrained(*shapes):
    return lambda: dy.constrained_softmax(*tensors(*shapes))


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (
            lambda: dy.sparsemax(*tensors((3, 2))),
            ValueError,
            "sparsemax: x is not a ve",
        ),
        (lambda: dy.sparsemax(None), TypeError, "an operand is not an Expression"),
        (loss((3, 2), [0]), ValueError, "sparsemax_loss: x is not a vector"),
        (loss((3,), []), ValueError, "sparsemax_loss: there are no targets"),
        (loss((3,), [0, 3]), ValueError, "target_ids is out of range"),
        (loss((3,), [-1]), OverflowError, "target_ids is negative"),
        (loss((3,), 0), TypeError, "target_ids is not a sequence of ints"),
        (lambda: dy.sparsemax_loss(None, [0]), TypeError, "is not an Expression"),
        (constrained((3,), (2,)), ValueError, "not vectors of one length"),
        (constrained((2, 3), (2, 3)), ValueError, "constrained_softmax: the operands"),
        (constrained((3,), (1, 3)), ValueError, "one upper bound for each score"),
        (
            lambda: dy.constrained_softmax(*tensors((3,)), None),
            TypeError,
            "constrained_softmax: an operand is not an Expression",
        ),
    ],
)
def test_refusals(function, error, message):
    rejects(function, error, message)
