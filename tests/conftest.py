"""Compiled programs are dropped from time to time.

Each takes some of the 65,530 mappings of memory that Linux allows a process; where
there are no more, the process ends. The suite compiles more than they are enough for.
"""

import itertools

import jax

TESTS = 100  # between

_ended = itertools.count(1)


def pytest_runtest_teardown():
    if next(_ended) % TESTS == 0:
        jax.clear_caches()
