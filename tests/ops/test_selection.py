"""Several rows, columns or strides."""

import numpy as np
import pytest
from laws import Case, Laws, rejects

import dynetjax as dy
from dynetjax.engine.ir.fused import FUSED_OPS

CASES = [
    Case(dy.select_rows, lambda x, rs: x[rs], x=(4, 2), rs=[2, 0, 2]),
    Case(dy.select_rows, lambda x, rs: x[rs], x=(4,), rs=[3, 1]),
    Case(dy.select_rows, lambda x, rs: x[rs], x=(4, 2, 2), rs=[2, 0, 2]),
    Case(dy.select_cols, lambda x, cs: x[:, cs], x=(2, 4), cs=[2, 0, 2]),
    Case(
        dy.strided_select,
        lambda x, step, start, stop: x[1:4:2],
        x=(5, 2),
        strides=[2],
        range_from=[1],
        range_to=[4],
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
class TestEveryOperation(Laws):
    pass


BATCH = Case(
    dy.strided_select,
    lambda x, step, start, stop: x[:, 1::2],
    x=(2,),
    strides=[1, 2],
    range_from=[0, 1],
    range_to=[2],
    batch=4,
)


@pytest.mark.parametrize("case", [BATCH], ids=str)
class TestStrideOfTheBatch(Laws):
    pass


def matrix():
    return dy.inputTensor(np.ones((2, 3)))


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (lambda: dy.select_rows(matrix(), [2]), ValueError, "rs is out of range"),
        (lambda: dy.select_rows(matrix(), []), ValueError, "select_rows: rs is empty"),
        (lambda: dy.select_cols(matrix(), [3]), ValueError, "cs is out of range"),
        (
            lambda: dy.select_cols(matrix(), 1),
            TypeError,
            "cs is not a sequence",
        ),
        (
            lambda: dy.select_cols(dy.inputVector([1.0]), [0]),
            ValueError,
            "select_cols: x is not a matrix",
        ),
        (
            lambda: dy.strided_select(matrix(), [0], [0], [1]),
            ValueError,
            "strided_select: a range is empty or outside x",
        ),
        (
            lambda: dy.strided_select(matrix(), [1] * 4, [], []),
            ValueError,
            "4 ranges",
        ),
        (
            lambda: dy.strided_select(matrix(), 1, [0], [1]),
            TypeError,
            "strided_select: a range is not a list",
        ),
    ],
)
def test_refusals(function, error, message):
    rejects(function, error, message)


@pytest.mark.parametrize("shape", [(40,), (40, 3)])
def test_number_of_rows_is_data(shape):
    """After some numbers of rows, others make no operations to compile."""
    x = np.arange(np.prod(shape), dtype=float).reshape(shape)

    def run(count):
        dy.renew_cg()
        rows = list(range(count))
        total = dy.sum_elems(dy.select_rows(dy.inputTensor(x), rows))
        assert total.value() == x[:count].sum()

    for count in (2, 3, 5, 9, 15):
        run(count)
    before = len(FUSED_OPS)
    for count in (4, 11, 13):
        run(count)
    assert len(FUSED_OPS) == before
