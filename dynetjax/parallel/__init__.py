"""Several processes that train one model.

    python -m dynetjax --processes 4 train.py

runs a program in each of them. Each computes the gradients of its own examples, and
every ``update()`` goes by the mean of all (``--sum``: by their sum), so that all
have the same values after it. Only the first process prints and writes files. A program
that knows of the others trains on its part of the data, `shard`.

`train` hands out data to a pool of processes instead, as the DyNet paper describes it,
and `run_multi_process` as DyNet's C++ does. `map` computes something of many data.
"""

from dynetjax.core.group import PROCESS
from dynetjax.parallel.data import Shard, shard
from dynetjax.parallel.learn import Report, run_multi_process, train
from dynetjax.parallel.mapping import map
from dynetjax.parallel.workers import WorkerError

__all__ = [
    "Report",
    "Shard",
    "WorkerError",
    "map",
    "rank",
    "run_multi_process",
    "shard",
    "size",
    "train",
]


def rank() -> int:
    """The number of this process, from 0; 0 where it is by itself."""
    return PROCESS.rank


def size() -> int:
    """How many processes train together."""
    return PROCESS.size
