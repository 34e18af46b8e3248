"""Facts by numbers, wherever these lie."""

import numpy as np
import pytest

from dynetjax.engine.facts import Facts


@pytest.mark.parametrize("numbers", [[7, 5, 6, 9], [10**9, 5, 7 * 10**12, 6]])
def test_facts_by_number(numbers):
    facts = Facts(numbers, -1)
    facts[numbers[2]] = 3
    facts[[numbers[0], numbers[1]]] = [4, 5]
    several = np.array([numbers[1], numbers[3], numbers[2], numbers[1], numbers[0]])
    assert facts[several].tolist() == [5, -1, 3, 5, 4]
    assert facts[numbers[3]] == -1


def test_far_numbers_take_no_room():
    """Those of a model that was made long after another."""
    facts = Facts([3, 10**15], False)
    facts[10**15] = True
    assert facts[np.array([10**15, 3])].tolist() == [True, False]


def test_no_facts():
    facts = Facts([], 0)
    facts[[]] = 1
    assert facts[np.zeros(0, np.int64)].tolist() == []
