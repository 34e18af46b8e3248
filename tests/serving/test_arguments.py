"""What arguments are told to be."""

import numpy as np
import pytest

import dynetjax as dy
from dynetjax.serving.arguments import count_examples, example, given


def test_shown():
    assert repr(dy.Ids(7, max_len=3, min_len=2)) == "Ids(7, max_len=3, min_len=2)"
    assert repr(dy.Ids(7, like="words")) == "Ids(7, like='words')"
    assert repr(dy.Id(7)) == "Id(7)"
    assert repr(dy.Numbers()) == "Numbers(())"
    assert repr(dy.Numbers((3,), like="words")) == "Numbers((3,), like='words')"


@pytest.mark.parametrize("below", [0, -1, 2.5, None])
def test_sizes(below):
    with pytest.raises(ValueError, match="Id: below is no size"):
        dy.Id(below)
    with pytest.raises(ValueError, match="Ids: below is no size"):
        dy.Ids(below, max_len=3)
    with pytest.raises(ValueError, match="Numbers: shape is no size"):
        dy.Numbers((3, below))


def test_lengths():
    with pytest.raises(ValueError, match="the length has no bound"):
        dy.Ids(3)
    with pytest.raises(ValueError, match="or two"):
        dy.Ids(3, max_len=3, like="words")
    with pytest.raises(ValueError, match="min_len is above max_len"):
        dy.Ids(3, max_len=3, min_len=4)
    with pytest.raises(ValueError, match="max_len is no size"):
        dy.Numbers((3,), max_len=0)


@pytest.mark.parametrize("below", [2, 3, 100, 10**6])
def test_examples_have_64_bits(below):
    count = count_examples({"k": dy.Id(below), "x": dy.Numbers()})
    assert below**count >= 2**64 > below ** (count - 1)


def test_numbers_have_three_examples():
    assert count_examples({"x": dy.Numbers()}) == 3
    assert count_examples({"k": dy.Id(1)}) == 3


def test_what_the_function_gets():
    random = np.random.default_rng(0)
    words = dy.Ids(5, max_len=9)
    array = example(words, 4, random)
    ids = given("words", words, array)
    assert type(ids) is list
    assert np.array(ids).tolist() == array.tolist()
    assert np.shape(given("x", dy.Numbers((3,)), example(dy.Numbers((3,)), 2, random)))
    assert type(given("x", dy.Numbers(), np.array(1.5, np.float32))) is float
    assert f"{given('k', dy.Id(5), np.array(3))}" == "3"
