"""Parts of data, by rank."""

import pytest

from dynetjax import parallel
from dynetjax.core.group import PROCESS


class Of:
    """A process of this rank among so many."""

    def __init__(self, rank, size):
        self.rank, self.size = rank, size


def parts(size, data, epochs=1, **options):
    """What each of so many processes gets in the last of some epochs."""
    found = []
    for rank in range(size):
        PROCESS.join(Of(rank, size))
        try:
            part = parallel.shard(data, **options)
            for _ in range(epochs):
                mine = list(part)
            assert len(mine) == len(part)
            found.append(mine)
        finally:
            PROCESS.leave()
    return found


def test_by_itself_a_process_gets_all():
    assert list(parallel.shard("abc", shuffle=False)) == ["a", "b", "c"]
    assert sorted(parallel.shard("abc")) == ["a", "b", "c"]
    assert (parallel.rank(), parallel.size()) == (0, 1)


@pytest.mark.parametrize("count", [1, 6, 7])
def test_each_gets_as_much_and_together_all(count):
    found = parts(3, range(count), epochs=2)
    assert len({len(part) for part in found}) == 1
    together = [x for part in found for x in part]
    assert {*together} == {*range(count)}
    assert len(together) - count < 3


def test_every_epoch_has_an_order_of_its_own_that_the_seed_gives():
    first, second = [parts(2, range(20), epochs=k) for k in (1, 2)]
    assert first != second
    assert first == parts(2, range(20))
    assert first != parts(2, range(20), seed=1)


def test_an_epoch_can_be_gone_on_with():
    part = parallel.shard(range(20))
    orders = [list(part) for _ in range(3)]
    again = parallel.shard(range(20))
    again.epoch = 2
    assert list(again) == orders[2]


def test_data_of_like_size_come_at_the_same_time():
    words = ["x" * n for n in range(1, 41)]
    for turn in zip(*parts(4, words, key=len), strict=True):
        sizes = sorted(map(len, turn))
        assert sizes[-1] - sizes[0] == 3


def test_no_data():
    with pytest.raises(ValueError, match="shard: there is no data"):
        parallel.shard([])
