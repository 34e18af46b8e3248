"""Python's operators on expressions."""

import numpy as np
import pytest
from laws import close

import dynetjax as dy

A = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])


@pytest.fixture
def x():
    dy.renew_cg()
    return dy.inputTensor(A)


@pytest.mark.parametrize(
    "formula",
    [
        lambda x: x + x,
        lambda x: x - x,
        lambda x: x + 2,
        lambda x: 2 + x,
        lambda x: x - 2,
        lambda x: 2 - x,
        lambda x: -x,
        lambda x: x * 3,
        lambda x: 3 * x,
        lambda x: True * x,
        lambda x: x * np.float64(3),
        lambda x: np.float32(3) * x,
        lambda x: x / 4,
        lambda x: x**2,
        lambda x: sum([x, x, x]),
    ],
)
def test_as_numpy(x, formula):
    close(formula(x).npvalue(), formula(A))


def test_product_is_that_of_matrices(x):
    close((x * dy.inputVector([1, 2])).npvalue(), A @ [1, 2])
    close((x * dy.transpose(x)).npvalue(), A @ A.T)


def test_division_by_zero(x):
    assert np.isposinf((x / 0).npvalue()).all()


@pytest.mark.parametrize(
    "formula",
    [
        lambda x: x / x,
        lambda x: 2 / x,
        lambda x: 2**x,
        lambda x: x + None,
        lambda x: x + "a",
        lambda x: None - x,
        lambda x: x - [1],
        lambda x: x**None,
    ],
)
def test_not_implemented(x, formula):
    with pytest.raises(NotImplementedError, match="the operands are not supported"):
        formula(x)


def test_rows(x):
    close(x[1].npvalue(), A[1])
    close(x[-1].npvalue(), A[-1])
    close(x[True].npvalue(), A[1])
    assert dy.inputVector([1, 2, 3])[2].dim() == ((1,), 1)
    assert [row.value() for row in x] == A.tolist()


@pytest.mark.parametrize(
    "key",
    [
        slice(0, 1),
        slice(1, None),
        slice(0, 3, 2),
        slice(None),
        (slice(1, 3), slice(0, 1)),
        (slice(None), slice(1, 2)),
        (slice(0, 3, 2),),
    ],
    ids=str,
)
def test_slices(x, key):
    close(x[key].npvalue(), A[key])


def test_a_slice_of_rows_is_a_range():
    dy.renew_cg()
    x = dy.tanh(dy.inputVector([1, 2, 3, 4]))
    assert x[1:3].signature.op.name == "pick_range"
    assert x[1:3:1].signature.op.name == "strided_select"


def test_slice_of_the_batch():
    dy.renew_cg()
    batch = np.arange(12.0).reshape(2, 6)
    x = dy.inputTensor(batch, batched=True)
    close(x[:, 1:6:2].npvalue(), batch[:, 1:6:2])


@pytest.mark.parametrize(
    ("key", "error"),
    [
        (3, IndexError),
        (-4, IndexError),
        (slice(-2, None), ValueError),
        (slice(0, 9), ValueError),
        (slice(2, 2), ValueError),
        (slice(0, 3, -1), ValueError),
        ((slice(0, 3, 0),), IndexError),
        ((slice(0, 3), 1), AttributeError),
        ((slice(None),) * 4, ValueError),
        (1.0, AssertionError),
        (None, AssertionError),
        (Ellipsis, AssertionError),
    ],
    ids=str,
)
def test_bad_keys(x, key, error):
    with pytest.raises(error, match=r"x\[|strided_select: a range is empty or outside"):
        x[key]


def test_stale_operands(x):
    dy.renew_cg()
    fresh = dy.inputTensor(A)
    for formula in (lambda: x + fresh, lambda: fresh + x, lambda: x[0], lambda: -x):
        with pytest.raises((ValueError, RuntimeError), match="the expression is stale"):
            formula()
