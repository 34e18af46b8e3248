"""Pooling."""

import math

import numpy as np
import pytest
from laws import Case, Laws, close, rejects

import dynetjax as dy


def window(n, size, step, number, is_valid):
    """The part of an axis that one window covers."""
    count = math.ceil(n / step)
    missing = 0 if is_valid else max((count - 1) * step + size - n, 0)
    start = number * step - missing // 2
    return slice(max(start, 0), start + size)


def pooled(x, ksize, stride, is_valid=True):
    sizes = list(zip(x.shape, ksize, stride, strict=False))
    down, across = (math.ceil((n - (k - 1) * is_valid) / s) for n, k, s in sizes)
    y = np.zeros((down, across, *x.shape[2:]))
    for a in range(down):
        rows = window(*sizes[0], a, is_valid)
        for b in range(across):
            columns = window(*sizes[1], b, is_valid)
            y[a, b] = x[rows, columns].max(axis=(0, 1))
    return y


def largest_k(x, k, d=1):
    def of_line(line):
        order = sorted(range(len(line)), key=lambda i: (-line[i], i))
        return line[sorted(order[:k])]

    return np.apply_along_axis(of_line, d, x)


def folded(x, nrows=2):
    x = x.reshape(len(x), -1)
    return np.array([x[i : i + nrows].sum(0) for i in range(0, len(x), nrows)])


def summed(x, v):
    columns = [x[:, j : j + v].sum(1) for j in range(x.shape[1] - v + 1)]
    return np.stack(columns, axis=1)


SAME = False

CASES = [
    Case(dy.maxpooling2d, pooled, x=(4, 5, 2), ksize=[2, 2], stride=[2, 2]),
    Case(dy.maxpooling2d, pooled, x=(4, 5), ksize=[2, 3], stride=[1, 1]),
    Case(dy.maxpooling2d, pooled, x=(3, 9), ksize=[1, 7], stride=[1, 2]),
    Case(dy.maxpooling2d, pooled, x=(3, 4, 2), ksize=[3, 4], stride=[1, 1]),
    Case(dy.maxpooling2d, pooled, x=(1, 6, 3), ksize=[1, 6], stride=[2, 5]),
    Case(dy.maxpooling2d, pooled, x=(5, 3), ksize=[2, 3], stride=[3, 1]),
    Case(
        dy.maxpooling2d,
        pooled,
        x=(4, 5, 2),
        ksize=[2, 3],
        stride=[1, 1],
        is_valid=SAME,
        high=-0.1,
    ),
    Case(
        dy.maxpooling2d,
        pooled,
        x=(5, 6),
        ksize=[3, 2],
        stride=[2, 2],
        is_valid=SAME,
        high=-0.1,
    ),
    Case(dy.maxpooling2d, pooled, x=(4, 6), ksize=[1, 2], stride=[3, 4], is_valid=SAME),
    Case(dy.maxpooling2d, pooled, x=(2, 3), ksize=[2, 5], stride=[1, 1], is_valid=SAME),
    Case(dy.kmax_pooling, largest_k, x=(3, 5), k=2),
    Case(dy.kmax_pooling, largest_k, x=(4, 3), k=3, d=0),
    Case(dy.kmax_pooling, largest_k, x=(2, 4), k=4),
    Case(dy.kmax_pooling, largest_k, x=(5,), k=1, d=0),
    Case(dy.kmax_pooling, largest_k, x=(2, 4, 3), k=2, d=1),
    Case(dy.fold_rows, folded, x=(4, 3)),
    Case(dy.fold_rows, folded, x=(6, 2), nrows=3),
    Case(dy.fold_rows, folded, x=(3, 2), nrows=1),
    Case(dy.fold_rows, folded, x=(4,), nrows=2),
    Case(dy.kmh_ngram, summed, x=(2, 5), v=2),
    Case(dy.kmh_ngram, summed, x=(2, 9), v=7),
    Case(dy.kmh_ngram, summed, x=(3, 3), v=3),
    Case(dy.kmh_ngram, summed, x=(2, 3), v=1),
]


@pytest.mark.parametrize("case", CASES, ids=str)
class TestEveryPooling(Laws):
    pass


def shares(numbers, function):
    """What each of `numbers` contributes to the sum of the result."""
    dy.renew_cg()
    p = dy.ParameterCollection().parameters_from_numpy(np.array(numbers, float))
    dy.sum_elems(function(p)).backward()
    return p.grad_as_array().tolist()


def pool(ksize, stride=(1, 1), is_valid=True):
    return lambda x: dy.maxpooling2d(x, list(ksize), list(stride), is_valid)


CROSS = [[0, 1], [1, 0]]  # its first 1 by rows is not its first by columns


@pytest.mark.parametrize(
    ("numbers", "function", "wanted"),
    [
        (CROSS, pool((2, 2)), [[0, 1], [0, 0]]),
        (CROSS, pool((2, 2), is_valid=False), [[0, 2], [1, 1]]),
        ([[0, 1, 0], [1, 0, 0]], pool((2, 2), (1, 2)), [[0, 1, 0], [0, 0, 0]]),
        (np.ones((3, 3)), pool((2, 2)), [[1, 1, 0], [1, 1, 0], [0, 0, 0]]),
        (np.ones((2, 3)), pool((2, 3)), [[1, 0, 0], [0, 0, 0]]),
        ([[1, 3, 2, 3, 3, 1, 3]], pool((1, 5)), [[0, 2, 0, 1, 0, 0, 0]]),
        ([[1, 3, 2, 3, 3, 1, 3]], pool((1, 7)), [[0, 1, 0, 0, 0, 0, 0]]),
        ([[2, 2, 2]], pool((1, 3), (1, 1), False), [[2, 1, 0]]),
    ],
)
def test_the_first_of_equals_gets_the_gradient(numbers, function, wanted):
    assert shares(numbers, function) == wanted


@pytest.mark.parametrize("ksize", [[1, 2], [1, 3], [1, 4]])
@pytest.mark.parametrize("place", [0, 3])
def test_nan_is_not_lost(ksize, place):
    dy.renew_cg()
    x = np.ones((1, 4))
    x[0, place] = np.nan
    y = dy.maxpooling2d(dy.inputTensor(x), ksize, [1, 1])
    close(np.isnan(y.npvalue()), np.isnan(summed(x, ksize[1])))


def test_equal_numbers_are_chosen_in_order():
    dy.renew_cg()
    numbers = [2.0, 1, 2, 3, 2]
    y = dy.kmax_pooling(dy.inputVector(numbers), 2, 0)
    assert y.value() == [2, 3]
    two = shares(numbers, lambda x: dy.kmax_pooling(x, 2, 0))
    assert two == [1, 0, 0, 1, 0]
    three = shares(numbers, lambda x: dy.kmax_pooling(x, 3, d=0))
    assert three == [1, 0, 1, 1, 0]


def pooled_whole(columns, stride=(1, 1)):
    """Static arguments of pooling over all columns, as over a sentence."""
    dy.renew_cg()
    x = dy.inputTensor(np.ones((2, columns, 3)))
    y = dy.maxpooling2d(x, [1, columns], list(stride))
    assert y.dim() == ((2, 1, 3), 1)
    return y.signature.static


def test_pooling_over_a_whole_axis_is_the_same_for_every_length():
    assert pooled_whole(5) == pooled_whole(7) == pooled_whole(9, stride=(1, 4))


def test_windows_as_large_as_x_do_not_mix_with_smaller_ones():
    dy.renew_cg()
    x = dy.inputTensor(np.arange(6.0).reshape(2, 3))
    whole, part = pool((2, 3))(x), pool((2, 2))(x)
    around = pool((2, 3), is_valid=False)(x)
    assert whole.npvalue().tolist() == [[5]]
    assert part.npvalue().tolist() == [[4, 5]]
    assert around.npvalue().tolist() == [[4, 5, 5], [4, 5, 5]]


def ones(*shape):
    return dy.inputTensor(np.ones(shape))


@pytest.mark.parametrize(
    "sizes", [(2, 1), np.array([2, 1]), [2.0, np.int64(1)]], ids=repr
)
def test_forms_of_sizes_are_one_program(sizes):
    dy.renew_cg()
    x = ones(4, 4)
    usual = dy.maxpooling2d(x, [2, 1], [2, 1])
    other = dy.maxpooling2d(x, sizes, sizes, is_valid=np.bool_(True))
    assert other.signature is usual.signature


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (lambda: pool((2, 2))(ones(4)), ValueError, "maxpooling2d: x is not an image"),
        (lambda: pool((2, 2))(ones(4, 4, 1, 1)), ValueError, "expected: {H,W} or"),
        (lambda: pool((5, 1))(ones(4, 4)), ValueError, "a window is larger than x"),
        (lambda: pool((4, 5))(ones(4, 4)), ValueError, "4 by 5"),
        (lambda: pool((0, 1))(ones(4, 4)), ValueError, "ksize is not two numbers"),
        (lambda: pool((1,))(ones(4, 4)), ValueError, "ksize is not two numbers"),
        (lambda: pool((1, 1), (1, 0))(ones(4, 4)), ValueError, "stride is not two"),
        (lambda: pool((4, 4), (1,))(ones(4, 4)), ValueError, "stride is not two"),
        (lambda: pool((1, -1))(ones(4, 4)), OverflowError, "ksize is negative"),
        (lambda: dy.maxpooling2d(ones(4, 4), 2, [1, 1]), TypeError, "not a sequence"),
        (lambda: dy.kmax_pooling(ones(3, 4), 5), ValueError, "1 <= k <= 4"),
        (lambda: dy.kmax_pooling(ones(3, 4), 0), ValueError, "k is out of range"),
        (lambda: dy.kmax_pooling(ones(3), 1), ValueError, "no such dimension"),
        (lambda: dy.kmax_pooling(ones(3, 4), -1), OverflowError, "k is negative"),
        (lambda: dy.fold_rows(ones(3, 2)), ValueError, "no multiple of nrows"),
        (lambda: dy.fold_rows(ones(3, 2), 0), ValueError, "nrows = 0"),
        (lambda: dy.fold_rows(ones(4, 2, 2)), ValueError, "too many dimensions"),
        (lambda: dy.fold_rows(ones(4, 2), -2), OverflowError, "nrows is negative"),
        (lambda: dy.kmh_ngram(ones(2, 3), 4), ValueError, "1 <= v <= 3"),
        (lambda: dy.kmh_ngram(ones(2, 3), 0), ValueError, "kmh_ngram: v is out of"),
        (lambda: dy.kmh_ngram(ones(3), 1), ValueError, "x is not a matrix"),
        (lambda: dy.kmh_ngram(ones(2, 3, 4), 1), ValueError, "kmh_ngram: x is not a"),
        (lambda: dy.kmh_ngram(ones(2, 3), -1), OverflowError, "v is negative"),
    ],
)
def test_refusals(function, error, message):
    rejects(function, error, message)
