"""Weights are turned over once where no backward is to be expected."""

import gc

import numpy as np
import pytest

import dynetjax as dy
from dynetjax.engine import turned

from ..backends import on_cpu

SIZE = 8
WORDS = [3, 1, 2, 0, 2, 3, 1]


def weight(rows, columns):
    """One of small numbers, so that nothing that is made of it grows large."""
    return np.random.RandomState(5).uniform(-0.1, 0.1, (rows, columns))


class Reader:
    """A recurrent net over a table, in both directions: a loop of two lanes."""

    def __init__(self):
        random = np.random.RandomState(3)
        self.pc = dy.ParameterCollection()
        rows, matrix = (
            random.uniform(-1, 1, (4, SIZE)),
            random.uniform(-1, 1, [SIZE] * 2),
        )
        self.table = self.pc.lookup_parameters_from_numpy(rows)
        self.w = self.pc.parameters_from_numpy(matrix)

    def read(self):
        dy.renew_cg()
        return self._read(WORDS) + self._read(WORDS[::-1])

    def _read(self, words):
        h = self.table[words[0]]
        for word in words[1:]:
            h = dy.tanh(self.w * h + self.table[word])
        return h

    def expected(self):
        found = self._expected(WORDS) + self._expected(WORDS[::-1])
        return pytest.approx(found, rel=1e-5)

    def _expected(self, words):
        rows, matrix = self.table.as_array(), self.w.as_array()
        h = rows[words[0]]
        for word in words[1:]:
            h = np.tanh(matrix @ h + rows[word])
        return h


@pytest.fixture
def turns(monkeypatch):
    """How many weights were turned over in each call."""
    found, real = [], turned._turn_over

    def counted(weights):
        found.append(len(weights))
        return real(weights)

    monkeypatch.setattr(turned, "_turn_over", counted)
    return found


def test_once_for_many_runs(turns):
    reader = Reader()
    for _ in range(3):
        assert reader.read().npvalue() == reader.expected()
    assert turns == [1]


@pytest.mark.parametrize("change", ["update", "set", "clip"])
def test_a_weight_that_has_changed(turns, change):
    reader = Reader()
    trainer = dy.SimpleSGDTrainer(reader.pc, 0.5)
    reader.read().npvalue()
    if change == "update":
        dy.renew_cg()
        dy.squared_norm(reader.w * reader.table[1]).backward()
        trainer.update()
    elif change == "set":
        reader.w.set_value(np.eye(SIZE))
    else:
        reader.w.clip_inplace(-0.3, 0.3)
    for _ in range(2):
        assert reader.read().npvalue() == reader.expected()
    assert turns == [1, 1]


def test_not_in_training(turns):
    """A weight serves one run only."""
    reader = Reader()
    trainer = dy.SimpleSGDTrainer(reader.pc, 0.1)
    for _ in range(3):
        loss = dy.squared_norm(reader.read())
        loss.value()
        loss.backward()
        trainer.update()
    assert turns == []


def test_no_longer_once_a_backward_has_followed(turns):
    """What is read first is no number, so nobody can tell before."""
    reader = Reader()
    trainer = dy.SimpleSGDTrainer(reader.pc, 0.1)
    for time in range(5):
        h = reader.read()
        h.npvalue()
        dy.squared_norm(h).backward()
        trainer.update()
        if time == 1:  # rules are settled, and a backward has followed
            turns.clear()
    assert turns == []


def test_the_cache_keeps_no_weight():
    gc.collect()
    before = len(turned._known)
    reader = Reader()
    for _ in range(2):  # rules are settled
        reader.read().npvalue()
    assert len(turned._known) == before + 1
    reader.w.set_value(np.zeros((SIZE, SIZE)))
    dy.renew_cg()
    gc.collect()
    assert len(turned._known) == before


@on_cpu
@pytest.mark.parametrize(("rows", "columns", "times"), [(512, 64, [1]), (64, 512, [])])
def test_a_long_weight_beside_no_loop(turns, rows, columns, times):
    """What has more rows than columns is read faster as [in, out]."""
    matrix = weight(rows, columns)
    pc = dy.ParameterCollection()
    w = pc.parameters_from_numpy(matrix)
    vectors = np.random.RandomState(7).uniform(-1, 1, (3, columns))
    for _ in range(2):
        dy.renew_cg()
        products = [dy.tanh(w * dy.inputVector(v)) for v in vectors]
        found = dy.concatenate_cols(products).npvalue()
        np.testing.assert_allclose(found, np.tanh(matrix @ vectors.T), atol=1e-5)
    assert turns == times


def test_a_long_weight_of_a_chain(turns):
    """A loop of one lane, whose weight is read in another operation, too."""
    size = 128
    matrix = weight(2 * size, size)
    pc = dy.ParameterCollection()
    w = pc.parameters_from_numpy(matrix)
    expected = np.ones(size)
    for _ in range(6):
        both = matrix @ expected + matrix[:, 3]
        expected = np.tanh(both[:size] - both[size:])
    for _ in range(2):
        dy.renew_cg()
        h = dy.inputVector(np.ones(size))
        for _ in range(6):
            both = w * h + dy.pick(w, 3, 1)
            upper, lower = (dy.pick_range(both, k, k + size) for k in (0, size))
            h = dy.tanh(upper - lower)
        np.testing.assert_allclose(h.npvalue(), expected, atol=1e-5)
    assert turns == [1]
