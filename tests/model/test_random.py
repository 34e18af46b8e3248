"""DyNet's generator, against NumPy's Mersenne Twister draw for draw."""

import numpy as np
import pytest

from dynetjax.model import random


def draws(seed, count):
    """The first numbers of the twister, in [0, 1), as float32."""
    raw = np.random.RandomState(seed)._bit_generator.random_raw(count)
    return raw.astype(np.float32) * np.float32(2.0**-32)


def polar(seed, count):
    """The polar method, one number at a time."""
    source = iter(draws(seed, 4 * count + 100))
    one, two = np.float32(1), np.float32(2)
    numbers = []
    while len(numbers) < count:
        x, y = two * next(source) - one, two * next(source) - one
        r2 = x * x + y * y
        if 0 < r2 <= 1:
            factor = np.sqrt(-two * np.log(r2) / r2)
            numbers += [y * factor, x * factor]
    return np.array(numbers[:count])


def test_uniform():
    random.reset_random_seed(3)
    expected = draws(3, 10) * np.float32(4) - np.float32(2)
    np.testing.assert_array_equal(random.uniform(10, -2, 2), expected)


@pytest.mark.parametrize("count", [1, 2, 7, 1000])
def test_normal(count):
    random.reset_random_seed(11)
    found = random.normal(count, 1, 2)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, polar(11, count) * 2 + 1, rtol=1e-6)


def test_normal_takes_no_draw_too_many():
    """What follows a tensor of normal numbers does not depend on how they are made."""
    random.reset_random_seed(5)
    random.normal(4, 0, 1)
    found = random.uniform(1, 0, 1)
    source = draws(5, 100)
    used, accepted = 0, 0
    while accepted < 2:
        x, y = 2 * source[used] - 1, 2 * source[used + 1] - 1
        accepted += 0 < x * x + y * y <= 1
        used += 2
    assert found[0] == source[used]


def test_seed_repeats():
    random.reset_random_seed(1)
    first = random.uniform(5, 0, 1), random.mask_seed()
    random.reset_random_seed(1)
    np.testing.assert_array_equal(random.uniform(5, 0, 1), first[0])
    assert random.mask_seed() == first[1]


def test_masks_have_their_own_stream():
    random.reset_random_seed(1)
    seeds = {random.mask_seed() for _ in range(10)}
    assert len(seeds) == 10
    assert all(0 <= seed < 2**32 for seed in seeds)
    np.testing.assert_array_equal(random.uniform(3, 0, 1), draws(1, 3))


@pytest.mark.parametrize("seed", [-1, 2**32])
def test_seed_out_of_range(seed):
    with pytest.raises(OverflowError, match="the seed is out of range"):
        random.reset_random_seed(seed)


def test_seed_is_a_number():
    with pytest.raises(TypeError, match="expected a number"):
        random.reset_random_seed("1")
