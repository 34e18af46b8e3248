"""Shape and selection of one part."""

import numpy as np
import pytest
from laws import Case, Laws, close, rejects

import dynetjax as dy


def fortran(shape):
    return lambda x: x.reshape(shape, order="F")


CASES = [
    Case(dy.concatenate, np.concatenate, xs=[(2,), (3,)]),
    Case(dy.concatenate, np.concatenate, xs=[(2, 2), (1, 2), (3, 2)]),
    Case(dy.concatenate, np.concatenate, xs=[(2, 2), (2, 3)], d=1),
    Case(dy.concatenate, lambda xs, d: np.stack(xs, d), xs=[(2, 2), (2, 2)], d=2),
    Case(
        dy.concatenate,
        lambda xs: np.concatenate([xs[0], xs[1][:, 0]]),
        xs=[(2,), (3, 1)],
    ),
    Case(dy.concatenate_cols, lambda xs: np.stack(xs, axis=1), xs=[(2,), (2,), (2,)]),
    Case(dy.concatenate_cols, lambda xs: xs[0][:, None], xs=[(3,)]),
    Case(dy.transpose, np.transpose, x=(2, 3)),
    Case(dy.transpose, lambda x: x[None], x=(3,)),
    Case(dy.transpose, np.transpose, x=(2, 3, 4), dims=[2, 0, 1]),
    Case(lambda x: dy.reshape(x, (3, 2)), fortran((3, 2)), covers=dy.reshape, x=(2, 3)),
    Case(lambda x: dy.reshape(x, (6,)), fortran((6,)), covers=dy.reshape, x=(2, 3)),
    Case(
        lambda x: dy.reshape(x, (2, 2), 3),
        fortran((2, 2, 3)),
        covers=dy.reshape,
        x=(12,),
    ),
    Case(dy.pick, lambda x, i: x[i : i + 1], e=(4,), index=2),
    Case(dy.pick, lambda x, i: x[i], e=(4, 2), index=2),
    Case(dy.pick, lambda x, i, d: x.take(i, d), e=(2, 3, 2), index=2, dim=1),
    Case(dy.pick_range, lambda x, s, e: x[s:e], x=(5,), s=1, e=4),
    Case(dy.pick_range, lambda x, s, e, d: x[:, s:e], x=(2, 3), s=1, e=2, d=1),
    Case(dy.pickrange, lambda x, s, e: x[s:e], x=(4, 2), s=0, e=2),
]


@pytest.mark.parametrize("case", CASES[:12] + CASES[13:], ids=str)
class TestEveryOperation(Laws):
    pass


def across(shape, batch):
    """Reshape in column-major order, batch last, of an array with a batch."""
    new = shape + (batch,) * (batch > 1)
    return {
        "op": lambda x: dy.reshape(x, shape, batch),
        "numpy": lambda x: x.reshape(new, order="F"),
        "covers": dy.reshape,
    }


ACROSS = [
    CASES[12],
    Case(**across((4, 2), 1), x=(2, 2), batch=2),
    Case(**across((3,), 1), x=(1,), batch=3),
    Case(**across((2, 3), 2), x=(4,), batch=3),
    Case(**across((2, 2), 3), x=(4,), batch=3),
    Case(
        dy.pick_batch,
        lambda x, i: x[i, range(3)][None],
        e=(4,),
        indices=[2, 0, 3],
        batch=3,
    ),
    Case(
        dy.pick_batch,
        lambda x, i, d: np.stack([x[:, i[0], 0], x[:, i[1], 1]], -1),
        e=(2, 3),
        indices=[2, 0],
        dim=1,
        batch=2,
    ),
]


@pytest.mark.parametrize("case", ACROSS, ids=str)
class TestAcrossTheBatch(Laws):
    def test_batch(self, case):
        """Does not apply: these read or make the batch."""


def test_reshape_of_each_element():
    dy.renew_cg()
    x = np.arange(12.0).reshape(2, 2, 3)
    y = dy.reshape(dy.inputTensor(x, batched=True), (4,))
    close(y.npvalue(), x.reshape((4, 3), order="F"))


def test_pick_batch_of_one_element():
    dy.renew_cg()
    e = dy.pick_batch(dy.inputVector([5, 6, 7]), (2, 0, 0))
    assert e.value() == [7, 5, 5]


def test_arguments_of_a_list():
    dy.renew_cg()
    xs = [dy.inputVector([1.0]), dy.inputVector([2.0])]
    close(dy.concatenate(xs, d=1).npvalue(), [[1, 2]])
    for call in (
        lambda: dy.concatenate(xs, 1, d=0),
        lambda: dy.concatenate(xs, along=1),
        lambda: dy.concatenate(xs, 1, 2),
    ):
        with pytest.raises(TypeError, match=r"concatenate\(\) takes a list and"):
            call()


def test_set_index():
    dy.renew_cg()
    matrix = dy.inputTensor([[1, 2, 3], [4, 5, 6]])
    one, two = dy.pick(matrix, 0, 1), dy.pick_batch(matrix, [0, 1], 1)
    assert one.value() == [1, 4]
    one.set_index(2)
    two.set_index([2, 2])
    assert one.value() == [3, 6]
    assert two.value() == [3, 6, 3, 6]
    with pytest.raises(ValueError, match="set_index: index is out of range"):
        one.set_index(3)
    with pytest.raises(ValueError, match="set_index: indices does not fit the batch"):
        two.set_index([1])


def tensor(*shape):
    return dy.inputTensor(np.ones(shape))


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (lambda: dy.pick(tensor(3), 3), ValueError, "pick: index is out of range"),
        (lambda: dy.pick(tensor(3), -1), OverflowError, "pick: index is negative"),
        (lambda: dy.pick(tensor(3), 2**32), OverflowError, "negative or too large"),
        (lambda: dy.pick(tensor(3), [1]), TypeError, "pick: index is not a number"),
        (lambda: dy.pick(tensor(3), 0, 1), ValueError, "pick: x has no such dimension"),
        (lambda: dy.pick_batch(tensor(3), 1), TypeError, "not a sequence of ints"),
        (lambda: dy.pick_batch(tensor(3), []), ValueError, "does not fit the batch"),
        (lambda: dy.pick_batch(tensor(3), [0, 3]), ValueError, "out of range"),
        (lambda: dy.pick_range(tensor(3), 1, 1), ValueError, "the range is empty"),
        (lambda: dy.pick_range(tensor(3), 1, 4), ValueError, "or outside x"),
        (lambda: dy.pick_range(tensor(3), 0, 1, 1), ValueError, "no such dimension"),
        (lambda: dy.reshape(tensor(4), [2, 2]), TypeError, "reshape: d is not a tuple"),
        (lambda: dy.reshape(tensor(4), (3,)), ValueError, "number of numbers differs"),
        (lambda: dy.reshape(tensor(4), (-4,)), ValueError, "reshape: dim is out of"),
        (lambda: dy.transpose(tensor(1)), ValueError, "transpose: dims do not fit x"),
        (lambda: dy.transpose(tensor(2, 3), [0, 0]), ValueError, "dims do not fit x"),
        (lambda: dy.transpose(tensor(2, 3), (1, 0)), TypeError, "dims is not a list"),
        (
            lambda: dy.concatenate([tensor(2, 2), tensor(2, 3)]),
            ValueError,
            r"concatenate: the dims of the operands do not fit\n.*\{2,2\}, \{2,3\}",
        ),
        (
            lambda: dy.concatenate_cols([tensor(2), tensor(3)]),
            ValueError,
            "equal sizes but in dimension 1",
        ),
        (lambda: dy.concatenate([]), AssertionError, "is empty or has None in it"),
    ],
)
def test_refusals(function, error, message):
    rejects(function, error, message)


def test_pick_batch_of_another_batch():
    x = np.ones((3, 2))
    rejects(
        lambda: dy.pick_batch(dy.inputTensor(x, batched=True), [0, 1, 2]),
        ValueError,
        "3 of them for a batch of 2",
    )


def test_the_order_of_a_transposition_is_checked_every_time():
    dy.renew_cg()
    x = dy.tanh(tensor(2, 3))
    for _ in range(3):
        assert dy.transpose(x, [1, 0]).dim() == ((3, 2), 1)
        assert dy.transpose(x, [0, 1]).dim() == ((2, 3), 1)
        for wrong in ((1, 0), 5, None, ["1", "0"]):
            with pytest.raises(TypeError, match="dims"):
                dy.transpose(x, wrong)
