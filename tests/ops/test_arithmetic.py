"""Element-wise arithmetic, and how dims are repeated."""

import numpy as np
import pytest
from laws import Case, Laws, close, rejects

import dynetjax as dy
from dynetjax.ops.arithmetic import add, negate, scale, shift, subtract, subtract_from


def leading(function):
    """`function` with axes aligned from the first on, as DyNet does."""

    def aligned(x, y):
        order = max(x.ndim, y.ndim)
        x = x.reshape(x.shape + (1,) * (order - x.ndim))
        return function(x, y.reshape(y.shape + (1,) * (order - y.ndim)))

    return aligned


CASES = [
    Case(add, np.add, x=(2, 3), y=(2, 3)),
    Case(add, leading(np.add), x=(2,), y=(2, 3)),
    Case(add, np.add, x=(3, 1), y=(1, 2)),
    Case(subtract, leading(np.subtract), x=(2, 3), y=(1,)),
    Case(subtract, leading(np.subtract), x=(2,), y=(2, 1)),
    Case(dy.cmult, np.multiply, x=(4,), y=(4,)),
    Case(dy.cmult, leading(np.multiply), x=(2,), y=(2, 3, 2)),
    Case(dy.cdiv, np.divide, x=(4,), y=(4,), low=0.5),
    Case(dy.cdiv, leading(np.divide), x=(2, 3), y=(2,), low=0.5),
    Case(negate, np.negative, x=(4,)),
    Case(scale, np.multiply, x=(4,), k=-1.5),
    Case(shift, np.add, x=(4,), k=0.7),
    Case(subtract_from, lambda x, k: k - x, x=(4,), k=0.7),
    Case(dy.bmin, np.minimum, x=(2, 2), y=(2, 2)),
    Case(dy.bmax, np.maximum, x=(2, 2), y=(2, 2)),
    Case(dy.emax, lambda xs: np.max(xs, axis=0), xs=[(3,), (3,), (3,)]),
]


@pytest.mark.parametrize("case", CASES, ids=str)
class TestEveryOperation(Laws):
    pass


POWERS = [Case(dy.pow, lambda x, y: x[:, 0] ** y, x=(3, 1), y=(1,), low=0.5)]


@pytest.mark.parametrize("case", POWERS, ids=str)
class TestPow(Laws):
    def test_batch(self, case):
        """The base may be batched, the exponent not."""
        dy.renew_cg()
        x = np.array([[1.0, 2.0], [3.0, 0.5]])
        base = dy.inputTensor(x, batched=True)
        close(dy.pow(base, dy.scalarInput(3)).npvalue(), x**3)
        with pytest.raises(RuntimeError, match="pow: the exponent is batched"):
            dy.pow(base, dy.inputTensor([1.0, 2.0], batched=True))


def gradients(function, *arrays):
    dy.renew_cg()
    collection = dy.ParameterCollection()
    given = [collection.parameters_from_numpy(np.array(a)) for a in arrays]
    function(*given).backward()
    return [p.grad_as_array().tolist() for p in given]


def test_who_gets_the_gradient_where_operands_are_equal():
    assert gradients(dy.bmax, [1.0], [1.0]) == [[0], [1]]
    assert gradients(dy.bmin, [1.0], [1.0]) == [[0], [1]]
    maximum = gradients(lambda *xs: dy.emax(list(xs)), [1.0], [1.0], [1.0])
    assert maximum == [[1], [0], [0]]


@pytest.mark.parametrize("function", [add, subtract, dy.cmult])
def test_one_element_meets_a_batch_on_either_side(function):
    dy.renew_cg()
    x, y = dy.inputTensor([[1.0, 2, 3]] * 2, batched=True), dy.inputVector([1.0, 5.0])
    assert function(x, y).dim() == function(y, x).dim() == ((2,), 3)
    both = function(x, y).npvalue(), function(y, x).npvalue()
    sign = -1 if function is subtract else 1
    close(both[0], sign * both[1])


def test_gradient_of_a_repeated_operand_is_summed_over_the_batch():
    dy.renew_cg()
    p = dy.ParameterCollection().parameters_from_numpy(np.array([1.0, 1.0]))
    x = dy.inputTensor([[1.0, 2, 3], [4, 5, 6]], batched=True)
    dy.sum_elems(dy.sum_batches(dy.cmult(p, x))).backward()
    close(p.grad_as_array(), [6, 15])


def vectors(*sizes):
    return [dy.inputVector([1.0] * n) for n in sizes]


@pytest.mark.parametrize("function", [add, subtract, dy.cmult, dy.cdiv])
def test_sizes_that_do_not_fit(function):
    message = r"the dims of the operands do not fit\n  got:      \{3\}, \{2\}"
    rejects(lambda: function(*vectors(3, 2)), ValueError, message)


def test_other_refusals():
    rejects(lambda: dy.cdiv(*vectors(1, 3)), ValueError, "cdiv: the dims")
    rejects(lambda: dy.bmax(*vectors(1, 3)), ValueError, "bmax: the dims")
    rejects(lambda: dy.emax(vectors(1, 3)), ValueError, "emax: the dims")
    rejects(lambda: dy.pow(*vectors(3, 3)), ValueError, "an exponent of one element")
    two, three = (np.ones((1, n)) for n in (2, 3))
    rejects(
        lambda: dy.cmult(*[dy.inputTensor(a, batched=True) for a in (two, three)]),
        ValueError,
        "cmult: the operands have different batch sizes",
    )
    rejects(
        lambda: dy.bmin(dy.inputTensor(two, batched=True), *vectors(1)),
        ValueError,
        "the same dims and batch size",
    )
