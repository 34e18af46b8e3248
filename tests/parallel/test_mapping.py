"""A function of many data, in several processes."""

import pytest
from learners import Tagger, Total, ends, raises, squared

import dynetjax as dy
from dynetjax import parallel


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
