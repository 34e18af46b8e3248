"""How the suite compiles, of which it does more than most programs.

Programs are compiled as quickly as can be: they run only a few times. What runs in a
process of its own (examples, notebooks, programs) is compiled as for everybody.

Compiled programs are dropped from time to time. Each takes some of the 65,530 mappings
of memory that Linux allows a process; where there are no more, the process ends.
"""

import itertools

import jax

from dynetjax.engine import compiling

TESTS = 100  # between

compiling._QUICKLY["xla_backend_optimization_level"] = 0
_ended = itertools.count(1)


def pytest_runtest_teardown():
    if next(_ended) % TESTS == 0:
        jax.clear_caches()
