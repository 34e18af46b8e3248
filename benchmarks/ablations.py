"""What each speed mechanism buys: without it, block by block beside all of them.

    python benchmarks/ablations.py [--only REGEX] [--rows REGEX] [--seconds 8]

For every mechanism and row two processes train the same graphs in turn, one of them
without the mechanism. Printed is the speed without it, as a part of the speed with it:
the median over the blocks, for what else the machine does changes more slowly than
these take turns. A mechanism that is above 0.95 in all rows is not worth its lines.
"""

import argparse
import contextlib
import json
import os
import re
import statistics
import sys
import tempfile

import turns

ROWS = ("tagger", "trees", "tagging", "stack parsing", "language model 16")
ROWS += ("50 trees", "encoder-decoder 16", "dense tagger")


def no_threads():
    """Kernels of tier 0 on one thread."""
    os.environ["DYNETJAX_THREADS"] = "1"


def no_hoisting():
    """Products of a recurrence's inputs in the recurrence."""
    from dynetjax.engine.native.lowering.bytecode import Code

    Code.hoist_forward = Code.hoist_back = lambda code, first: 0


def nothing_put_aside():
    """Outer products of gradients of weights one by one."""
    from dynetjax.engine.native.lowering.bytecode import Code
    from dynetjax.native import core

    def at_once(code, a, b, rows, columns, ai, bj, to):
        extra = code.pool.note(1, 0, ai, 0, 0, 0, bj)
        about = {"n": rows, "m": 1, "k": columns, "extra": extra}
        code.emit("MATMUL", to, a, b, flags=core.ACCUMULATE, **about)

    Code._put_aside = at_once


def updates_by_xla():
    """Trainers' rules compiled."""
    from dynetjax.trainers.base import Trainer

    Trainer._can_be_native = lambda trainer, members: False


def no_rows_wait():
    """Dense updates of all rows of tables."""
    from dynetjax.trainers.base import Trainer

    Trainer._may_wait = lambda trainer, table: False


def tier_1():
    """Everything by XLA."""
    from dynetjax.engine.runtime import RUNTIME

    RUNTIME.tier = "xla"


def nothing_lent():
    """Arrays of tier 1 made anew in every run."""
    from dynetjax.engine.xla.buffers import BufferPool

    BufferPool.release = lambda pool, arrays: None


def none_aligned():
    """Every row of tier 1 read from its pool."""
    from dynetjax.engine.plan.family import Family

    Family._find_aligned = lambda family: family.facts.aligned.fill(0)


# name: (what both processes do first, what one of them does)
MECHANISMS = {
    "tier 0": (None, tier_1),
    "threads": (None, no_threads),
    "hoisting": (None, no_hoisting),
    "products after the pass": (None, nothing_put_aside),
    "updates in C++": (None, updates_by_xla),
    "rows wait": (None, no_rows_wait),
    "lent arrays, tier 1": (tier_1, nothing_lent),
    "aligned leaves, tier 1": (tier_1, none_aligned),
}


def work(name, without, row):
    """One of the two processes."""
    both, change = MECHANISMS[name]
    for step in (both, change if without else None):
        if step is not None:
            step()
    turns.work(*turns.ROWS[row])


def speed_without(name, row, seconds):
    """As a part of the speed with the mechanism."""
    with contextlib.ExitStack() as stack:
        workers = []
        for without in False, True:
            about = json.dumps([name, without, row])
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            command = [sys.executable, __file__, "--worker", about]
            worker = turns.Worker(command, JAX_COMPILATION_CACHE_DIR=folder)
            workers.append(stack.enter_context(worker))
        return statistics.median(turns.ratios(*workers, seconds))


def main():
    """A line for each mechanism, a column for each row."""
    parser = turns.options(__doc__)
    parser.add_argument("--only", default="", metavar="REGEX", help="mechanisms")
    parser.add_argument("--worker", type=json.loads, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        work(*args.worker)
        return
    rows = [row for row in ROWS if re.search(args.rows, row)]
    print("speed without".ljust(25), *[row.rjust(18) for row in rows])
    for name in MECHANISMS:
        if re.search(args.only, name):
            print(name.ljust(25), end="", flush=True)
            for row in rows:
                found = speed_without(name, row, args.seconds)
                print(f"{found:19.2f}", end="", flush=True)
            print(flush=True)


if __name__ == "__main__":
    main()
