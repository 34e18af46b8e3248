"""A function of many data, in several processes."""

import gc
import pathlib

import numpy as np
import pytest
import with_model
from learners import Tagger, Total, ends, raises, squared

import dynetjax as dy
from dynetjax import parallel
from dynetjax.parallel import mapping
from dynetjax.parallel.pickling import SharedModel


def test_results_come_in_order():
    assert [*parallel.map(squared, range(100), processes=2)] == [
        k * k for k in range(100)
    ]


def test_a_model_computes_there_what_it_does_here():
    m = dy.ParameterCollection()
    total = Total(Tagger(m))
    data = [[k % 30, (7 * k) % 30] for k in range(12)]
    here = [total(sentence) for sentence in data]
    assert [*parallel.map(total, data, processes=2)] == here
    assert [total(sentence) for sentence in data] == here


def test_what_goes_wrong_there_is_raised_here():
    with pytest.raises(KeyError, match="7"):
        [*parallel.map(raises, [7], processes=1)]
    with pytest.raises(RuntimeError, match="map: a process was ended"):
        [*parallel.map(ends, [3], processes=1)]
    with pytest.raises(TypeError, match="map: the function cannot be sent"):
        parallel.map(lambda x: x, [1], processes=1)


def test_a_function_has_no_model_of_its_own():
    """Or the results would be those of other values, and nobody would know."""
    told = "map: the function's module makes parameters"
    with pytest.raises(RuntimeError, match=told):
        [*parallel.map(with_model.total, [1.0], processes=1)]


@pytest.mark.parametrize("count", [0, -1, 1.5])
def test_number_of_processes(count):
    with pytest.raises(ValueError, match="map: there is no such number of processes"):
        parallel.map(squared, [1], processes=count)


SHARED = pathlib.Path("/dev/shm")


@pytest.mark.skipif(not SHARED.exists(), reason="Linux shows shared memory there")
def test_results_that_nobody_asks_for_take_no_memory(monkeypatch):
    models = []

    def noted(*args, **things):
        models.append(SharedModel(*args, **things))
        return models[-1]

    monkeypatch.setattr(mapping, "SharedModel", noted)
    total = Total(Tagger(dy.ParameterCollection()))
    results = parallel.map(total, [[1, 2]], processes=1)
    file = SHARED / models[0].letter.memory
    assert file.exists()
    del results
    gc.collect()
    assert not file.exists()
    assert np.isfinite(total([1, 2]))
