"""Sums over lists and batches, and batches made of others' elements."""

import numpy as np
import pytest
from laws import Case, Laws, close, rejects

import dynetjax as dy


def mean(xs):
    return sum(xs) / len(xs)


CASES = [
    Case(dy.esum, sum, xs=[(3,)]),
    Case(dy.esum, sum, xs=[(3,), (3,)]),
    Case(dy.esum, sum, xs=[(1,)] * 9),
    Case(dy.esum, sum, xs=[(2, 2)] * 20),
    Case(dy.esum, lambda xs: xs[0] + xs[1][:, 0], xs=[(3,), (3, 1)]),
    Case(dy.average, mean, xs=[(3,), (3,), (3,)]),
    Case(dy.average, mean, xs=[(2, 2)] * 10),
]


@pytest.mark.parametrize("case", CASES, ids=str)
class TestEverySum(Laws):
    pass


ACROSS = [
    Case(dy.sum_batches, lambda x: x.sum(-1), x=(2,), batch=3),
    Case(dy.sum_batches, lambda x: x.sum(-1), x=(2, 2), batch=19),
    Case(dy.sum_batches, lambda x: x, x=(2, 2)),
    Case(dy.mean_batches, lambda x: x.mean(-1), x=(2,), batch=9),
    Case(
        dy.concatenate_to_batch,
        lambda xs: np.concatenate(xs, axis=-1),
        xs=[(2,), (2,)],
        batch=3,
    ),
    Case(
        dy.concatenate_to_batch,
        lambda xs: np.stack(xs, axis=-1),
        xs=[(2, 2)] * 3,
    ),
    Case(dy.pick_batch_elem, lambda x, v: x[..., v], x=(3,), v=2, batch=3),
    Case(dy.pick_batch_elem, lambda x, v: x, x=(2, 3), v=0),
    Case(dy.pick_batch_elems, lambda x, vs: x[..., vs], x=(3,), vs=[2, 0, 2], batch=3),
]


@pytest.mark.parametrize("case", ACROSS, ids=str)
class TestAcrossTheBatch(Laws):
    def test_batch(self, case):
        """Does not apply: these read or make the batch."""


@pytest.mark.parametrize("function", [dy.esum, dy.average])
def test_operands_without_a_batch_beside_batched_ones(function):
    dy.renew_cg()
    p = dy.ParameterCollection().parameters_from_numpy(np.array([1.0, 2.0]))
    x = np.arange(6.0).reshape(2, 3)
    y = function([p, dy.inputTensor(x, batched=True)])
    share = 1 if function is dy.esum else 0.5
    close(y.npvalue(), share * np.add(x, [[1], [2]]))
    dy.sum_batches(dy.sum_elems(y)).backward()
    close(p.grad_as_array(), [3 * share] * 2)


def test_sum_of_parameters_alone():
    dy.renew_cg()
    w = dy.ParameterCollection().parameters_from_numpy(np.eye(2))
    dy.sum_elems(dy.esum([w] * 10)).backward()
    close(w.grad_as_array(), np.full((2, 2), 10))


@pytest.mark.parametrize("function", [lambda x: dy.esum([x]), dy.sum_batches])
def test_sum_of_one_parameter_has_a_gradient_of_its_own(function):
    dy.renew_cg()
    p = dy.ParameterCollection().parameters_from_numpy(np.eye(2))
    y = function(p)
    (dy.sum_elems(y) + 2 * dy.sum_elems(p)).backward(full=True)
    close(y.gradient(), np.ones((2, 2)))
    close(p.grad_as_array(), np.full((2, 2), 3))


def test_sum_of_one_parameter_is_a_root():
    dy.renew_cg()
    p = dy.ParameterCollection().parameters_from_numpy(np.ones(1))
    y = dy.esum([p])
    y.backward()
    close(y.gradient(), [1])
    close(p.grad_as_array(), [1])


def test_number_of_operands_is_data():
    """After the longest sum, shorter ones and other elements compile nothing."""

    def run(count):
        dy.renew_cg()
        xs = [dy.scalarInput(k) for k in range(count)]
        batch = dy.concatenate_to_batch(xs)
        total = dy.esum(xs) + dy.sum_batches(dy.square(batch))
        return (total + dy.pick_batch_elem(batch, count - 2)).value()

    for count in (70, 20, 9, 3):
        run(count)
    before = dy.stats()
    assert run(70) == sum(range(70)) + sum(k * k for k in range(70)) + 68
    assert run(61) == sum(range(61)) + sum(k * k for k in range(61)) + 59
    after = dy.stats()
    assert (after.compilations, after.loads) == (before.compilations, before.loads)


@pytest.mark.parametrize("across", [False, True])
def test_sums_of_one(across):
    """They run the program of others, in both directions."""
    pc = dy.ParameterCollection()
    weights = np.arange(1.0, 6.0 + across)  # a size that no other test has
    w = pc.parameters_from_numpy(weights[None])

    def run(count):
        """The gradient of the sum of the squares of `w * x`."""
        dy.renew_cg()
        xs = np.sin(np.arange(float(count * len(weights)))).reshape(count, -1)
        if across:
            total = dy.sum_batches(dy.square(w * dy.inputTensor(xs.T, batched=True)))
        else:
            total = dy.esum([dy.square(w * dy.inputVector(x)) for x in xs])
        w.scale_gradient(0)
        total.backward()
        products = xs @ weights
        assert total.value() == pytest.approx(np.sum(products**2))
        close(w.grad_as_array(), [2 * products @ xs])

    for count in (3, 2, 3):
        run(count)
    before = dy.stats().programs
    run(1)
    assert dy.stats().programs == before


def vector(*sizes):
    return [dy.inputVector([1.0] * n) for n in sizes]


def batch(size):
    return dy.inputTensor(np.ones((2, size)), batched=True)


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (lambda: dy.esum([]), AssertionError, "esum: the list of expressions is empty"),
        (lambda: dy.esum([*vector(1), None]), AssertionError, "has None in it"),
        (lambda: dy.esum(tuple(vector(1, 1))), TypeError, "not in a list"),
        (lambda: dy.esum([1.0]), TypeError, "esum: an operand is not an Expression"),
        (
            lambda: dy.esum(vector(2, 3)),
            ValueError,
            r"esum: the dims.*\n.*\{2\}, ",
        ),
        (lambda: dy.esum([batch(2), batch(3)]), ValueError, "esum: the operands have"),
        (lambda: dy.average(vector(2, 3)), ValueError, "average: the dims of the"),
        (lambda: dy.average([batch(2), batch(3)]), ValueError, "different batch sizes"),
        (lambda: dy.concatenate_to_batch(vector(2, 3)), ValueError, "dims of the ope"),
        (lambda: dy.pick_batch_elem(batch(2), 2), ValueError, "v is out of range"),
        (lambda: dy.pick_batch_elem(batch(2), -1), OverflowError, "v is negative"),
        (lambda: dy.pick_batch_elems(batch(2), [0, 2]), ValueError, "vs is out of ran"),
        (lambda: dy.pick_batch_elems(batch(2), []), ValueError, "vs is empty"),
        (lambda: dy.pick_batch_elems(batch(2), 1), TypeError, "not a sequence of ints"),
        (lambda: dy.sum_batches(1), TypeError, "an operand is not an Expression"),
    ],
)
def test_refusals(function, error, message):
    rejects(function, error, message)


@pytest.mark.parametrize(("wrong", "error"), [(None, AssertionError), (1, TypeError)])
def test_a_sum_of_what_is_no_expression(wrong, error):
    """Also where sums like it have been made, and need no checks."""
    for _ in range(3):
        dy.renew_cg()
        xs = vector(2, 2, 2)
        dy.esum(xs).value()
    with pytest.raises(error, match="esum: "):
        dy.esum([*xs, wrong])
