"""Exchanges in shared memory, here between threads."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from dynetjax.core.group import Message
from dynetjax.parallel import local_group
from dynetjax.parallel.local_group import MemoryGroup, seats
from dynetjax.parallel.workers import CONTEXT


def words(*numbers):
    return np.array(numbers, np.int32)


def floats(*numbers):
    return np.array(numbers, np.float32)


@pytest.fixture
def groups():
    """Makes groups of so many members, each for a thread of its own."""
    made, boards = [], []

    def make(size):
        board, places = seats(size, CONTEXT)
        members = [MemoryGroup(seat) for seat in places]
        boards.append((board, places))
        made.extend(members)
        return members

    yield make
    for group in made:
        group.leave()
    for board, _ in boards:
        board.remove()


def together(groups, does):
    """What `does(group)` returns for each, all at the same time."""
    with ThreadPoolExecutor(len(groups)) as pool:
        return list(pool.map(does, groups))


@pytest.mark.parametrize("size", [1, 2, 3])
def test_all_get_what_all_have_sent(groups, size):
    """Over many exchanges of sizes that grow and shrink."""

    def does(group):
        rng = np.random.default_rng(7)
        for k in range(30):
            n = int(rng.integers(1, 60_000 if k % 5 == 0 else 50))
            base = np.arange(n, dtype=np.float32)
            message = Message(words(k, group.rank), base * group.rank)
            dense = [base + group.rank, floats(1)]
            messages, terms = group.exchange(message, dense)
            total = sum(terms)
            for rank, told in enumerate(messages):
                assert told.words.tolist() == [k, rank]
                assert np.array_equal(told.numbers, base * rank)
            wanted = size * base + sum(range(size))
            assert np.array_equal(total[:-1], wanted)
            assert total[-1] == size
        return True

    assert all(together(groups(size), does))


def test_numbers_are_scaled(groups):
    def does(group):
        message = Message(words(), floats(4))
        (first, _), terms = group.exchange(message, [floats(2)], 0.5)
        return first.numbers.tolist(), sum(terms).tolist()

    assert together(groups(2), does) == [([2.0], [2.0])] * 2


def test_there_is_no_sum_of_arrays_of_different_sizes(groups):
    def does(group):
        dense = [np.ones(2 + group.rank, np.float32)]
        return group.exchange(Message(words(), floats()), dense)[1]

    assert together(groups(2), does) == [[], []]


def test_nobody_waits_for_one_that_has_ended(groups, monkeypatch):
    monkeypatch.setattr(local_group, "PATIENCE", 0.01)
    first, second = groups(2)
    second.end()
    with pytest.raises(RuntimeError, match="update: process 1 has ended"):
        first.exchange(Message(words(), floats()), [])


def test_others_wait_until_the_first_has_written_a_file(groups):
    first, second = groups(2)
    done = threading.Event()

    def follow():
        second.file_written("/a")
        done.set()

    thread = threading.Thread(target=follow)
    thread.start()
    assert not done.wait(0.05)
    first.file_written("/b")
    assert not done.wait(0.05)
    first.file_written("/a")
    assert done.wait(5)
    thread.join()


def test_nobody_waits_for_a_file_of_one_that_waits_for_an_update(groups):
    def does(group):
        if group.rank:
            group.file_written("/a")
        return len(group.exchange(Message(words(), floats()), [])[1])

    assert together(groups(2), does) == [2, 2]


def test_segments_of_a_process_that_was_killed_are_removed():
    board, places = seats(1, CONTEXT)
    group = MemoryGroup(places[0])
    group.exchange(Message(words(1), floats()), [])
    name = local_group.segment_name(board.name, 0, 0, 1)
    local_group.Segment(name).close()
    board.remove()
    with pytest.raises(FileNotFoundError):
        local_group.Segment(name)


def test_what_one_wrote_last_is_read_after_it_has_left(groups, monkeypatch):
    first, second = groups(2)
    has_left, read = threading.Event(), second._read

    def read_late(*given):
        assert has_left.wait(5)
        return read(*given)

    def does(group):
        told, _ = group.exchange(Message(words(group.rank), floats()), [])
        sent = [message.words.tolist() for message in told]
        if group is first:
            group.leave()
            has_left.set()
        return sent

    monkeypatch.setattr(second, "_read", read_late)
    assert together((first, second), does) == [[[0], [1]]] * 2
