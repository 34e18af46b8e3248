"""Twice the pieces of something are twice the work, forward and back.

The laws in tests/ops say so of batches and lists. Here one node is cut into pieces that
are read one by one. Work is what the executor counts: words that it writes.
"""

import pathlib
import sys

import numpy as np
import pytest

import dynetjax as dy

sys.path.append(str(pathlib.Path(__file__).parents[2] / "ops"))

from laws import grows_linearly

pytestmark = pytest.mark.usefixtures("natively")


def vector(count):
    return dy.tanh(dy.inputVector(np.ones(count)))


def tall(count):
    return dy.tanh(dy.inputTensor(np.ones((count, 2))))


def wide(count):
    return dy.tanh(dy.inputTensor(np.ones((2, count))))


def batch(count):
    return dy.tanh(dy.inputTensor(np.ones((2, count)), batched=True))


PIECES = {
    "pick": (vector, lambda x, k: x[k]),
    "pick a row": (tall, lambda x, k: x[k]),
    "pick a column": (wide, lambda x, k: dy.pick(x, k, 1)),
    "pick of a transpose": (lambda n: dy.transpose(wide(n)), lambda x, k: x[k]),
    "pick_range": (tall, lambda x, k: dy.pick_range(x, k, k + 1)),
    "pick_range of columns": (wide, lambda x, k: dy.pick_range(x, k, k + 1, 1)),
    "select_rows": (tall, lambda x, k: dy.select_rows(x, [k])),
    "select_cols": (wide, lambda x, k: dy.select_cols(x, [k])),
    "pick_batch_elem": (batch, dy.pick_batch_elem),
    "pick_batch_elems": (batch, lambda x, k: dy.pick_batch_elems(x, [k])),
}


@pytest.mark.parametrize("name", PIECES)
def test_pieces_read_one_by_one(name):
    make, piece = PIECES[name]

    def pieces(count):
        x = make(count)
        return dy.esum([dy.sum_elems(dy.tanh(piece(x, k))) for k in range(count)])

    grows_linearly(pieces, 32)


@pytest.mark.parametrize("elements", [1, 4])
def test_a_matrix_cut_into_a_batch(elements):
    """As biaffine parsers cut the scores of all labels."""

    def cut(count):
        x = np.ones((3, 5 * count, elements))
        x = dy.tanh(dy.inputTensor(x, batched=elements > 1))
        return dy.tanh(dy.reshape(x, (3, 5), batch_size=count * elements))

    grows_linearly(cut, 16)


@pytest.mark.parametrize("rows", [1, 4])
def test_a_batch_put_together(rows):
    def together(count):
        x = np.ones((rows, 5, count))
        return dy.tanh(dy.reshape(dy.inputTensor(x, batched=True), (rows, 5 * count)))

    grows_linearly(together, 16)


def test_rows_of_a_table():
    table = dy.ParameterCollection().add_lookup_parameters((300, 3))

    def looked_up(count):
        return dy.esum([dy.tanh(table[k]) for k in range(count)])

    grows_linearly(looked_up, 64)
