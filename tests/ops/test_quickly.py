"""Nodes over what is unusual are made without checks, too, and are what these make."""

import numpy as np
import pytest
from laws import described

import dynetjax as dy
from dynetjax.engine.ir.structures import KNOWN

SIZE = 4


class Model:
    """Parameters, and vectors of a new graph."""

    def __init__(self):
        collection = dy.ParameterCollection()
        draw = np.random.default_rng(3).normal
        self.W = collection.parameters_from_numpy(draw(size=(SIZE, SIZE)))
        self.b = collection.parameters_from_numpy(draw(size=SIZE))
        self.E = collection.lookup_parameters_from_numpy(draw(size=(40, SIZE)))

    def vectors(self, n):
        return [dy.tanh(self.W * self.E[k]) for k in range(n)]


def bias_made_for_it(model, xs):
    return dy.affine_transform([dy.tanh(xs[0]), model.W, xs[1]])


def bias_that_is_a_sum(model, xs):
    return dy.affine_transform([dy.esum(xs), model.W, xs[1], model.W, xs[2]])


def matrix_with_rows(model, xs):
    matrix = dy.tanh(dy.concatenate_cols(xs[:SIZE]))
    return dy.affine_transform([model.b, matrix, xs[0], model.W, xs[1]])


def sum_times(model, xs):
    return model.W * dy.esum(xs[:3]) + dy.average(xs)


def sum_beside_others(model, xs):
    return dy.concatenate([dy.esum(xs), xs[0], dy.cdiv(dy.esum(xs), dy.exp(xs[1]))])


def running_sum(model, xs):
    total = xs[0]
    for x in xs[1:]:
        total = total + x
    return total


def sum_of_itself(model, xs):
    total = running_sum(model, xs)
    return total + total


def losses(model, xs):
    return dy.average([dy.pickneglogsoftmax(x, 1) for x in xs])


def maximum(model, xs):
    return dy.emax(xs)


def logarithms(model, xs):
    return dy.logsumexp([dy.exp(x) for x in xs])


def attention(model, xs):
    matrix = dy.concatenate_cols(xs)
    return matrix * dy.softmax(dy.transpose(matrix) * xs[0])


def columns(model, xs):
    matrix = dy.tanh(dy.concatenate_cols(xs))
    return dy.max_dim(matrix, 1) + dy.pick_range(dy.transpose(matrix)[1], 0, SIZE)


def rows_of_columns(model, xs):
    return dy.select_cols(dy.concatenate_cols(xs), [2, 0])


PROGRAMS = [
    attention,
    bias_made_for_it,
    bias_that_is_a_sum,
    columns,
    logarithms,
    losses,
    matrix_with_rows,
    maximum,
    rows_of_columns,
    running_sum,
    sum_beside_others,
    sum_of_itself,
    sum_times,
]


def made(model, program, n, slowly):
    if slowly:  # what was made before is not known
        KNOWN.forget()
    dy.renew_cg()
    y = program(model, model.vectors(n))
    return described(y.graph), y.npvalue()


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_lists_of_all_lengths(program):
    """By themselves, and in turns; the slow way is with all checks for each node."""
    model, lengths = Model(), [5, 9, 17, 30, 6, 9]
    for n in lengths * 3:
        made(model, program, n, slowly=False)
    for n in lengths:
        quickly, value = made(model, program, n, slowly=False)
        slowly, wanted = made(model, program, n, slowly=True)
        assert quickly == slowly
        np.testing.assert_allclose(value, wanted, rtol=1e-6)


def test_a_sum_of_very_many():
    model, many = Model(), 1_024
    for _ in range(3):
        dy.renew_cg()
        x = model.vectors(1)[0]
        total = running_sum(model, [x] * many)
        np.testing.assert_allclose(total.npvalue(), many * x.npvalue(), rtol=1e-4)


def test_batches_in_turns():
    """Operations that look at batch sizes refuse those that do not fit, every time."""
    model = Model()
    for _ in range(3):
        dy.renew_cg()
        x, y = model.E.batch([1, 2]), model.E.batch([3, 4])
        one = model.E[5]
        wanted = np.maximum(x.npvalue(), y.npvalue())
        np.testing.assert_allclose(dy.emax([x, y]).npvalue(), wanted)
        np.testing.assert_allclose(dy.emax([one, one]).npvalue(), one.npvalue())
        with pytest.raises(dy.DimError):
            dy.emax([x, one])


@pytest.mark.parametrize(
    "program",
    [
        lambda x, b, M, W: dy.affine_transform([b, W, x, W, x]),
        lambda x, b, M, W: dy.affine_transform([dy.tanh(x), M, x]),
    ],
    ids=["bias", "matrix"],
)
def test_what_is_stale_is_refused(program):
    """Where the others are as ever, too."""
    W = dy.ParameterCollection().add_parameters((3, 3))
    for _ in range(3):
        dy.renew_cg()
        x = dy.tanh(dy.inputVector([1, 2, 3]))
        b, M = dy.inputVector([4, 5, 6]), dy.inputTensor(np.eye(3))
        program(x, b, M, W).value()
    dy.renew_cg()
    with pytest.raises(ValueError, match="stale"):
        program(dy.tanh(dy.inputVector([1, 2, 3])), b, M, W)
