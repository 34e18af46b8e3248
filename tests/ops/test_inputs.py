"""Inputs: what may be given, what comes back, and `.set`."""

import numpy as np
import pytest
from laws import close, covers, rejects

import dynetjax as dy

covers(dy.inputTensor, dy.inputVector, dy.scalarInput, dy.vecInput)
covers(dy.inputTensorTranspose, dy.sparse_inputTensor, dy.inputMatrix, dy.matInput)

CUBE = np.arange(24.0).reshape(2, 3, 4)


@pytest.fixture(autouse=True)
def _new_graph():
    dy.renew_cg()


def test_indices_are_those_of_numpy():
    x = dy.inputTensor(CUBE)
    assert x.dim() == ((2, 3, 4), 1)
    close(x.npvalue(), CUBE)


def test_last_axis_as_the_batch():
    x = dy.inputTensor(CUBE, batched=True)
    assert x.dim() == ((2, 3), 4)
    close(x.npvalue(), CUBE)
    assert dy.inputTensor([1, 2, 3], batched=True).dim() == ((1,), 3)


@pytest.mark.parametrize("batched", [False, True])
def test_list_of_arrays_is_a_batch(batched):
    x = dy.inputTensor([CUBE[0], CUBE[1]], batched=batched)
    assert x.dim() == ((3, 4), 2)
    close(x.npvalue(), np.moveaxis(CUBE, 0, -1))


def test_list_of_lists_is_a_tensor():
    assert dy.inputTensor([[1, 2, 3], [4, 5, 6]]).dim() == ((2, 3), 1)


def test_numbers_are_float32_and_copied():
    array = np.array([0.1, 1e300])
    x = dy.inputTensor(array)
    array[0] = 5
    assert x.value() == [np.float32(0.1), np.inf]


def test_set_runs_first_index_fastest_and_batch_last():
    x = dy.inputTensor(np.zeros((2, 2, 2)), batched=True, reusable_expr=True)
    y = dy.square(x)
    assert y.vec_value() == [0] * 8
    x.set(range(8))
    assert y.vec_value() == [n * n for n in range(8)]
    assert x.npvalue()[1, 0, 1] == 5


def test_set_of_vectors_and_numbers():
    x, s, v = dy.inputVector([1, 2]), dy.scalarInput(3), dy.vecInput(2)
    assert v.value() == [0, 0]
    x.set([4, 5])
    s.set(6)
    v.set(np.array([7, 8]))
    assert (x.value(), s.value(), v.value()) == ([4, 5], 6, [7, 8])


def test_set_is_refused():
    with pytest.raises(ValueError, match="set: the number of values does not fit"):
        dy.inputVector([1, 2]).set([1])
    with pytest.raises(ValueError, match="reusable_expr=True"):
        dy.inputTensor([1, 2]).set([1, 2])


@pytest.mark.parametrize("bad", [3.0, (1, 2), "ab", np.array(1.0), None])
def test_what_is_no_array(bad):
    rejects(lambda: dy.inputTensor(bad), TypeError, "inputTensor: arr is not an array")


def test_an_array_of_no_dimension():
    with pytest.raises(TypeError, match="an array of no dimension"):
        dy.inputTensor(np.array(1.0))


@pytest.mark.parametrize(
    "bad", [[[1, 2], [3]], [np.ones(2), np.ones(3)], ["a"]], ids=repr
)
def test_what_is_no_regular_array(bad):
    message = "inputTensor: arr is not a regular array of numbers"
    rejects(lambda: dy.inputTensor(bad), ValueError, message)


def test_other_refusals():
    rejects(lambda: dy.inputTensor([]), ValueError, "inputTensor: there are no numbers")
    rejects(lambda: dy.inputVector([]), ValueError, "inputVector: there are no numbers")
    many = np.ones((1,) * 8)
    rejects(lambda: dy.inputTensor(many), ValueError, "has too many dimensions")
    for bad in (1.0, None, "ab", ["a"], [[1], [2, 3]], np.ones((2, 2))):
        message = "inputVector: not a flat sequence of numbers"
        rejects(lambda v=bad: dy.inputVector(v), TypeError, message)
    rejects(lambda: dy.scalarInput("1"), TypeError, "scalarInput: s is not a number")
    rejects(lambda: dy.vecInput(-1), OverflowError, "vecInput: dim is negative")
    message = "scalarInput: Invalid device name"
    rejects(lambda: dy.scalarInput(1, device="GPU:7"), RuntimeError, message)


def test_transposed_lists_are_column_major():
    flat = list(range(6))
    assert dy.inputTensorTranspose(flat).value() == flat
    matrix = dy.inputTensorTranspose(np.array(flat), dim=(2, 3))
    close(matrix.npvalue(), [[0, 2, 4], [1, 3, 5]])
    batch = dy.inputTensorTranspose(flat, (3,), batch_size=2)
    assert batch.dim() == ((3,), 2)
    close(batch.npvalue(), [[0, 3], [1, 4], [2, 5]])
    matrix.set(flat[::-1])
    assert matrix.vec_value() == flat[::-1]


def test_sparse_tensors():
    x = dy.sparse_inputTensor(([0, 2, 0], [1, 0, 1]), [1, 2, 3], (3, 2), defval=-1)
    close(x.npvalue(), [[-1, 3], [-1, -1], [2, -1]])
    batch = dy.sparse_inputTensor([[1, 0], [2, 0]], np.ones(2), (2, 3), batched=True)
    assert batch.dim() == ((2,), 3)
    close(batch.npvalue(), [[1, 0, 0], [0, 0, 1]])
    close(dy.sparse_inputTensor([[]], [], (2,)).npvalue(), [0, 0])


@pytest.mark.parametrize(
    ("args", "error", "message"),
    [
        (([[0, 1]], [1.0], (3,)), ValueError, "the indices do not fit"),
        (([[3]], [1.0], (3,)), ValueError, "the indices do not fit"),
        (([[-1]], [1.0], (3,)), ValueError, "the indices do not fit"),
        (([[1], [0]], [1.0], (3,)), ValueError, "2 lists"),
        (([[1]], [[1.0]], (3,)), TypeError, "sparse_inputTensor: not a flat sequence"),
        (([[1]], [1.0], [3]), TypeError, "sparse_inputTensor: shape is not a tuple"),
    ],
)
def test_sparse_refusals(args, error, message):
    rejects(lambda: dy.sparse_inputTensor(*args), error, message)


def test_sparse_tensors_are_not_set():
    with pytest.raises(ValueError, match="set\\(\\) has nothing to set"):
        dy.sparse_inputTensor([[1]], [1.0], (3,)).set([1, 2, 3])


def test_transposed_refusals():
    message = "inputTensorTranspose: the numbers do not fit the dims"
    rejects(lambda: dy.inputTensorTranspose([1, 2], (3,)), ValueError, message)
    message = "inputTensorTranspose: dim is not a tuple"
    rejects(lambda: dy.inputTensorTranspose([1, 2], 2), TypeError, message)
    message = "inputTensorTranspose: not a flat sequence"
    rejects(lambda: dy.inputTensorTranspose([[1, 2]]), TypeError, message)


def test_gone_from_dynet():
    for call in (lambda: dy.matInput(2, 3), lambda: dy.inputMatrix([1, 2], (2, 1))):
        rejects(call, DeprecationWarning, "use inputTensor instead")
