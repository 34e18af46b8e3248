"""Calls that are remembered make the nodes that checked ones make."""

import numpy as np
import pytest

import dynetjax as dy

GRAPHS = 3  # the first is checked and remembered
LEFT, RIGHT = np.array([[1.0, 2, 3], [4, 5, 6]]), np.array([[2.0, 4, 8], [1, 5, 7]])


def batches():
    dy.renew_cg()
    return [dy.inputTensor(a, batched=True) for a in (LEFT, RIGHT)]


@pytest.mark.parametrize(
    ("operation", "numpy"),
    [
        (dy.cmult, np.multiply),
        (dy.cdiv, np.divide),
        (lambda x, y: x + y, np.add),
        (lambda x, y: x - y, np.subtract),
    ],
)
def test_one_element_beside_a_batch(operation, numpy):
    """The same specs, with one batch size and with two of them, in turns."""
    column = np.array([2.0, 4.0])
    for _ in range(GRAPHS):
        x, y = batches()
        one = dy.inputVector(column)
        np.testing.assert_allclose(operation(x, y).npvalue(), numpy(LEFT, RIGHT))
        expected = numpy(LEFT, column[:, None])
        np.testing.assert_allclose(operation(x, one).npvalue(), expected)
        np.testing.assert_allclose(operation(one, one).npvalue(), numpy(column, column))


@pytest.mark.parametrize("operation", [dy.cdiv, dy.bmin, dy.bmax, dy.binary_log_loss])
def test_batches_that_do_not_fit(operation):
    for _ in range(GRAPHS):
        x, y = batches()
        one = dy.inputVector([0.5, 0.5])
        operation(x, y)
        operation(one, one)
        with pytest.raises(dy.DimError, match=operation.__name__):
            operation(one, y)
        with pytest.raises(dy.DimError, match=operation.__name__):
            operation(x, dy.inputTensor(np.ones((2, 4)), batched=True))


def test_a_batch_of_exponents():
    for _ in range(GRAPHS):
        x, _ = batches()
        number = dy.scalarInput(2)
        np.testing.assert_allclose(dy.pow(x, number).npvalue(), LEFT**2)
        dy.pow(number, number)
        with pytest.raises(RuntimeError, match="pow: the exponent is batched"):
            dy.pow(number, dy.inputTensor(np.ones((1, 3)), batched=True))


def test_operands_of_an_earlier_graph():
    W = dy.ParameterCollection().add_parameters((2, 2))
    for _ in range(GRAPHS):
        _, old = batches()
        weight = dy.transpose(W)
        x, y = batches()
        one = dy.inputVector([1, 2])
        dy.cmult(x, one), dy.huber_distance(x, y), dy.cmult(x, dy.transpose(W))
        for operation, *wrong in (
            (dy.cmult, old, one),
            (dy.cmult, x, weight),
            (dy.huber_distance, old, y),
            (dy.dropout, old, 0.5),
            (dy.reshape, old, (1, 2)),
            (dy.pickneglogsoftmax_batch, old, [0, 1, 0]),
        ):
            with pytest.raises(ValueError, match="stale"):
                operation(*wrong)


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda x: dy.hinge(x, 2), ValueError),
        (lambda x: dy.hinge(x, 1, -1.0), ValueError),
        (lambda x: dy.hinge(x, 1, "1"), TypeError),
        (lambda x: dy.dropout(x, 1.0), ValueError),
        (lambda x: dy.noise(x, -1.0), ValueError),
        (lambda x: dy.poisson_loss(dy.pick(x, 0), -1), OverflowError),
        (lambda x: dy.huber_distance(x, x, None), TypeError),
        (lambda x: dy.reshape(x, [1, 2]), TypeError),
        (lambda x: dy.sum_dim(x, [1]), dy.DimError),
        (lambda x: dy.sum_dim(x, [[0]]), TypeError),
        (lambda x: dy.sum_dim(x, []), dy.DimError),
        (lambda x: dy.zeros((2, 0)), dy.DimError),
        (lambda x: dy.zeros(2, batch_size=-1), OverflowError),
        (lambda x: dy.pickneglogsoftmax_batch(x, [2]), ValueError),
        (lambda x: dy.pick_batch_elem(x, 1), ValueError),
    ],
)
def test_wrong_arguments_after_right_ones(make, error):
    for _ in range(GRAPHS):
        dy.renew_cg()
        x = dy.inputVector([1, 2])
        dy.hinge(x, 1, 1.0), dy.dropout(x, 0.5), dy.noise(x, 0.5)
        dy.poisson_loss(dy.pick(x, 0), 1), dy.huber_distance(x, x), dy.zeros(2)
        dy.reshape(x, (1, 2)), dy.sum_dim(x, [0]), dy.sum_dim(x, [0], b=True)
        dy.pickneglogsoftmax_batch(x, [1]), dy.pick_batch_elem(x, 0)
        with pytest.raises(error):
            make(x)


def test_draws_differ():
    for _ in range(GRAPHS):
        dy.renew_cg()
        x = dy.ones(64)
        drawn = [dy.dropout(x, 0.5), dy.dropout(x, 0.5), dy.random_normal(64)]
        drawn += [dy.random_normal(64), dy.noise(x, 0.5), dy.noise(x, 0.5)]
        assert len({tuple(node.value()) for node in drawn}) == len(drawn)


def test_a_bias_with_rows():
    """Of a product with weights, as of one with a batch size of its own."""
    W = dy.ParameterCollection().parameters_from_numpy(np.eye(2) * 3)
    for _ in range(GRAPHS):
        x, y = batches()
        one = dy.inputVector([1, 2])
        found = dy.affine_transform([x, W, y]).npvalue()
        np.testing.assert_allclose(found, LEFT + 3 * RIGHT)
        found = dy.affine_transform([one, W, y, W, x]).npvalue()
        np.testing.assert_allclose(found, [[1], [2]] + 3 * RIGHT + 3 * LEFT)
        found = dy.affine_transform([x, W, one, W, y]).npvalue()
        np.testing.assert_allclose(found, LEFT + [[3], [6]] + 3 * RIGHT)


def test_numbers_too_large():
    for values in ([1e300, 1.0], np.array([1e300, 1.0]), [1e300, 10**400]):
        if isinstance(values, list) and values[1] != 1.0:
            with pytest.raises((OverflowError, TypeError)):
                dy.inputVector(values)
        else:
            assert dy.inputVector(values).value() == [np.inf, 1.0]
    assert dy.scalarInput(-1e300).value() == -np.inf


def test_rows_of_a_parameter():
    """A parameter has no graph, and no rows of its own."""
    values = np.arange(6.0).reshape(3, 2)
    W = dy.ParameterCollection().parameters_from_numpy(values)
    for _ in range(GRAPHS):
        dy.renew_cg()
        for k in range(3):
            row, doubled = dy.pick(W, k), dy.pick(2 * W, 1, 1)
            assert row.dim() == ((2,), 1)
            np.testing.assert_allclose(row.npvalue(), values[k])
            np.testing.assert_allclose(doubled.npvalue(), 2 * values[:, 1])
        part = dy.pick_range(W, 1, 3)
        np.testing.assert_allclose(part.npvalue(), values[1:])
