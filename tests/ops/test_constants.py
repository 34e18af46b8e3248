"""Expressions that are filled with numbers."""

import numpy as np
import pytest
from laws import close, covers, rejects

import dynetjax as dy

covers(dy.constant, dy.one_hot, dy.ones, dy.zeroes, dy.zeros)


@pytest.fixture(autouse=True)
def _new_graph():
    dy.renew_cg()


@pytest.mark.parametrize(
    ("make", "number"),
    [
        (dy.zeros, 0),
        (dy.zeroes, 0),
        (dy.ones, 1),
        (lambda dim, *batch: dy.constant(dim, 2.5, *batch), 2.5),
    ],
)
@pytest.mark.parametrize(
    ("args", "dim"),
    [
        ((3,), ((3,), 1)),
        ((2.7,), ((2,), 1)),
        (((2, 3),), ((2, 3), 1)),
        (((2, 3), 4), ((2, 3), 4)),
        ((2, 0), ((2,), 1)),
    ],
)
def test_one_number_everywhere(make, number, args, dim):
    x = make(*args)
    assert x.dim() == dim
    close(x.npvalue(), np.full(dim[0] + (dim[1],) * (dim[1] > 1), number))


def test_one_hot():
    assert dy.one_hot(4, 2).value() == [0, 0, 1, 0]
    assert dy.one_hot(1, False).value() == 1
    close(dy.one_hot(3, range(2)).npvalue(), [[1, 0], [0, 1], [0, 0]])
    for indices in ([2, 0, 2], (2, 0, 2), np.array([2, 0, 2])):
        x = dy.one_hot(3, indices)
        assert x.dim() == ((3,), 3)
        close(x.npvalue(), [[0, 1, 0], [0, 0, 0], [1, 0, 1]])


def test_used_by_others():
    """Inside a product, a sum, and with batches; the gradient reaches the others."""
    numbers = np.random.RandomState(0).rand(3, 4)
    p = dy.ParameterCollection().parameters_from_numpy(numbers)
    y = p * dy.one_hot(4, [1, 3]) + dy.constant(3, 0.5)
    close(y.npvalue(), numbers[:, [1, 3]] + 0.5)
    total = dy.sum_batches(dy.sum_elems(dy.square(y) + dy.ones(3, 2)))
    total.backward()
    expected = np.zeros((3, 4))
    expected[:, [1, 3]] = 2 * (numbers[:, [1, 3]] + 0.5)
    close(p.grad_as_array(), expected)


def test_gradient_of_a_constant():
    x = dy.constant((2, 2), 3.0)
    y = dy.sum_elems(dy.square(x))
    y.backward(full=True)
    close(x.gradient(), np.full((2, 2), 6))


@pytest.mark.parametrize("make", [dy.zeros, dy.zeroes, dy.ones])
@pytest.mark.parametrize(
    ("args", "error", "message"),
    [
        (([2, 3],), TypeError, "dim is not a number or a tuple of numbers"),
        (("a",), TypeError, "dim is not a number or a tuple of numbers"),
        ((None,), TypeError, "dim is not a number or a tuple of numbers"),
        ((-1,), ValueError, "dim is out of range"),
        (((1,) * 8,), ValueError, "dim is out of range"),
        ((0,), ValueError, "dim has no numbers in it"),
        (((),), ValueError, "dim has no numbers in it"),
        ((2, -1), OverflowError, "batch_size is negative"),
        ((2, 1, "GPU:7"), RuntimeError, "Invalid device name"),
    ],
)
def test_refusals(make, args, error, message):
    rejects(lambda: make(*args), error, f"{make.__name__}: {message}")


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (lambda: dy.constant(2, "a"), TypeError, "constant: val is not a number"),
        (lambda: dy.one_hot(3, 3), ValueError, "one_hot: idx is out of range"),
        (lambda: dy.one_hot(3, [0, 3]), ValueError, "one_hot: idx is out of range"),
        (lambda: dy.one_hot(3, []), ValueError, "one_hot: idx is empty"),
        (lambda: dy.one_hot(3, -1), OverflowError, "one_hot: idx is negative"),
        (lambda: dy.one_hot(3, "a"), TypeError, "one_hot: idx is not a sequence"),
        (lambda: dy.one_hot(0, 0), ValueError, "one_hot: dim has no numbers in it"),
    ],
)
def test_other_refusals(function, error, message):
    rejects(function, error, message)


def test_more_numbers_than_can_be_counted():
    """At most 2^31 - 1 in one batch element, also of what is computed."""
    message = "too many numbers in one batch element"
    rejects(lambda: dy.zeros((1 << 16, 1 << 15)), dy.DimError, message)
    column, row = [dy.inputTensor(np.ones(d)) for d in ((1 << 16, 1), (1, 1 << 15))]
    with pytest.raises(dy.DimError, match=f"matmul: {message}"):
        column * row
