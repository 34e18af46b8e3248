"""Convolutions."""

import math

import numpy as np
import pytest
from laws import Case, Laws, close, rejects

import dynetjax as dy


def surrounded(x, sizes, stride):
    """`x` among as many zeros as make room for a window at every step."""
    around = []
    for n, size, step in zip(x.shape, sizes, stride, strict=False):
        last = (math.ceil(n / step) - 1) * step + size
        missing = max(last - n, 0)
        around.append((missing // 2, missing - missing // 2))
    return np.pad(x, [*around, (0, 0)])


def convolved(x, f, stride, is_valid=True):
    x = x.reshape(*x.shape[:2], -1)
    rows, columns = f.shape[:2]
    if not is_valid:
        x = surrounded(x, (rows, columns), stride)
    down = range(0, x.shape[0] - rows + 1, stride[0])
    across = range(0, x.shape[1] - columns + 1, stride[1])
    y = np.zeros((len(down), len(across), f.shape[3]))
    for a, top in enumerate(down):
        for b, left in enumerate(across):
            window = x[top : top + rows, left : left + columns]
            for o in range(f.shape[3]):
                y[a, b, o] = np.sum(window * f[..., o])
    return y


def convolved_with_bias(x, f, b, stride, is_valid=True):
    return convolved(x, f, stride, is_valid) + b


def narrowed(x, y):
    y = y.reshape(*y.shape, *[1] * (3 - y.ndim))
    width = y.shape[1]
    places = range(x.shape[1] - width + 1)
    return np.array(
        [
            [np.sum(x[:, j : j + width] * y[:, :, f]) for j in places]
            for f in range(y.shape[2])
        ]
    )


ONE, VALID, SAME = [1, 1], True, False

CASES = [
    Case(dy.conv2d, convolved, x=(5, 4, 2), f=(2, 3, 2, 3), stride=ONE),
    Case(dy.conv2d, convolved, x=(3, 6), f=(3, 2, 1, 4), stride=ONE),
    Case(dy.conv2d, convolved, x=(3, 4), f=(3, 4, 1, 2), stride=ONE),
    Case(dy.conv2d, convolved, x=(2, 3, 2), f=(1, 1, 2, 2), stride=ONE),
    Case(dy.conv2d, convolved, x=(6, 7), f=(2, 2, 1, 1), stride=[2, 3]),
    Case(dy.conv2d, convolved, x=(4, 3, 2), f=(3, 3, 2, 1), stride=ONE, is_valid=SAME),
    Case(dy.conv2d, convolved, x=(4, 3), f=(2, 4, 1, 2), stride=ONE, is_valid=SAME),
    Case(dy.conv2d, convolved, x=(5, 6), f=(3, 2, 1, 1), stride=[2, 2], is_valid=SAME),
    Case(dy.conv2d, convolved, x=(4, 5), f=(1, 1, 1, 1), stride=[3, 2], is_valid=SAME),
    Case(dy.conv2d, convolved, x=(2, 2), f=(5, 4, 1, 1), stride=ONE, is_valid=SAME),
    Case(
        dy.conv2d_bias,
        convolved_with_bias,
        x=(4, 3, 2),
        f=(2, 2, 2, 3),
        b=(3,),
        stride=ONE,
    ),
    Case(
        dy.conv2d_bias,
        convolved_with_bias,
        x=(4, 5),
        f=(3, 2, 1, 2),
        b=(2,),
        stride=[2, 1],
        is_valid=SAME,
    ),
    Case(dy.filter1d_narrow, narrowed, x=(3, 5), y=(3, 2)),
    Case(dy.filter1d_narrow, narrowed, x=(3, 5), y=(3, 2, 1)),
    Case(dy.filter1d_narrow, narrowed, x=(2, 4), y=(2, 3, 4)),
    Case(dy.filter1d_narrow, narrowed, x=(2, 4), y=(2, 4, 2)),
    Case(dy.filter1d_narrow, narrowed, x=(3, 4), y=(3,)),
]


@pytest.mark.parametrize("case", CASES, ids=str)
class TestEveryConvolution(Laws):
    pass


def test_room_for_an_odd_number_is_below_and_to_the_right():
    dy.renew_cg()
    x = dy.inputTensor(np.ones((2, 2)))
    f = dy.inputTensor(np.ones((2, 2, 1, 1)))
    y = dy.conv2d(x, f, ONE, is_valid=False)
    assert y.npvalue()[..., 0].tolist() == [[4, 2], [2, 1]]


SHARED = {
    "conv2d": (lambda x, f: dy.conv2d(x, f, ONE), convolved, (3, 2, 1, 2)),
    "filter1d_narrow": (dy.filter1d_narrow, lambda x, f, _: narrowed(x, f), (3, 2, 2)),
}


@pytest.mark.parametrize(("op", "formula", "shape"), SHARED.values(), ids=SHARED)
def test_a_batch_shares_its_filters(op, formula, shape):
    """Their gradient is the sum over the batch."""
    dy.renew_cg()
    random = np.random.RandomState(1)
    x, filters = random.randn(3, 5, 4), random.randn(*shape)
    f = dy.ParameterCollection().parameters_from_numpy(filters)
    y = op(dy.inputTensor(x, batched=True), f)
    wanted = [formula(x[..., k], filters, ONE) for k in range(4)]
    close(y.npvalue(), np.stack(wanted, axis=-1))
    dy.sum_batches(dy.sum_elems(y)).backward()
    covered = sum(x[:, j : j + 2].sum(axis=-1) for j in range(4))
    slopes = covered.reshape(3, 2, *[1] * (len(shape) - 2))
    close(f.grad_as_array(), np.broadcast_to(slopes, shape))


@pytest.mark.parametrize("stride", [(2, 1), np.array([2, 1]), [2.0, np.int64(1)]])
def test_forms_of_a_stride_are_one_program(stride):
    dy.renew_cg()
    x, f = dy.inputTensor(np.ones((4, 4))), dy.inputTensor(np.ones((2, 2, 1, 1)))
    usual = dy.conv2d(x, f, [2, 1])
    other = dy.conv2d(x, f, stride, is_valid=1)
    assert other.signature is usual.signature


def ones(*shape):
    return dy.inputTensor(np.ones(shape))


def image():
    return ones(4, 4, 2)


def filters(*shape):
    return ones(*(shape or (2, 2, 2, 3)))


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (lambda: dy.conv2d(ones(4), filters(), ONE), ValueError, "conv2d: the dims of"),
        (lambda: dy.conv2d(ones(4, 4), filters(), ONE), ValueError, "C is 1 for {H,W}"),
        (lambda: dy.conv2d(image(), ones(2, 2, 2), ONE), ValueError, "{FH,FW,C,O}"),
        (lambda: dy.conv2d(image(), filters(5, 1, 2, 1), ONE), ValueError, "is larger"),
        (lambda: dy.conv2d(image(), filters(1, 5, 2, 1), ONE), ValueError, "4 by 4"),
        (
            lambda: dy.conv2d(image(), filters(), [0, 1]),
            ValueError,
            "stride is not two",
        ),
        (lambda: dy.conv2d(image(), filters(), [1]), ValueError, "two numbers from 1"),
        (lambda: dy.conv2d(image(), filters(), [1, 1, 1]), ValueError, "two numbers"),
        (lambda: dy.conv2d(image(), filters(), 1), TypeError, "stride is not a seq"),
        (lambda: dy.conv2d(image(), filters(), [1, "a"]), TypeError, "not a number"),
        (lambda: dy.conv2d(image(), filters(), [1, -1]), OverflowError, "negative"),
        (lambda: dy.conv2d(None, filters(), ONE), TypeError, "not an Expression"),
        (
            lambda: dy.conv2d_bias(image(), filters(), ones(2), ONE),
            ValueError,
            "a bias of .3., one",
        ),
        (
            lambda: dy.conv2d_bias(image(), filters(), ones(3, 1), ONE),
            ValueError,
            "conv2d_bias: the dims",
        ),
        (
            lambda: dy.conv2d_bias(image(), filters(), ones(3), [1, 0]),
            ValueError,
            "conv2d_bias: stride",
        ),
        (
            lambda: dy.conv2d_bias(image(), filters(5, 5, 2, 3), ones(3), ONE),
            ValueError,
            "conv2d_bias: a window is larger than x",
        ),
        (lambda: dy.filter1d_narrow(image(), ones(4, 2)), ValueError, "x of {d,n}"),
        (lambda: dy.filter1d_narrow(ones(4, 3), ones(3, 2)), ValueError, "the rows of"),
        (lambda: dy.filter1d_narrow(ones(2, 3), ones(2, 4)), ValueError, "k <= n"),
        (
            lambda: dy.filter1d_narrow(ones(2, 3), ones(2, 1, 1, 1)),
            ValueError,
            "filter1d_narrow: the dims",
        ),
    ],
)
def test_refusals(function, error, message):
    rejects(function, error, message)
