"""What each speed mechanism buys: without it, block by block beside all of them.

    python benchmarks/ablations.py [--only REGEX] [--rows REGEX] [--seconds 8]

For every mechanism and row two processes train the same graphs in turn, one of them
without the mechanism. Printed is the speed without it, as a part of the speed with it:
the median over the blocks, for what else the machine does changes more slowly than
these take turns. A mechanism that is above 0.95 in all rows is not worth its lines.
"""

import argparse
import gc
import json
import os
import pathlib
import random
import re
import runpy
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROWS = {
    "tagger": ["tagger"],
    "tagger, dense": ["tagger", "--dense"],
    "tagging": ["tagger", "--inference"],
    "trees": ["treelstm"],
    "50 trees": ["treelstm", "--batch", "50"],
    "stack parser": ["stack_parser", "--inference"],
    "language model 16": ["rnnlm", "--minibatch", "16"],
    "encoder-decoder 16": ["seq2seq", "--batch", "16"],
}
WARM, BLOCK = 5.0, 0.08  # seconds before the first block, and of a block
MOST_UNITS = 60  # that are gone over again and again


def no_threads():
    """Kernels of tier 0 on one thread."""
    os.environ["DYNETJAX_THREADS"] = "1"


def no_hoisting():
    """Products of a recurrence's inputs in the recurrence."""
    from dynetjax.engine.native.bytecode import Code

    Code.hoist_forward = Code.hoist_back = lambda code, first: 0


def nothing_put_aside():
    """Outer products of gradients of weights one by one."""
    from dynetjax.engine.native import bytecode

    def at_once(code, a, b, rows, columns, ai, bj, to):
        extra = code.pool.note(1, 0, ai, 0, 0, 0, bj)
        about = {"n": rows, "m": 1, "k": columns, "extra": extra}
        code.emit("MATMUL", to, a, b, flags=bytecode.ACCUMULATE, **about)

    bytecode.Code._put_aside = at_once


def updates_by_xla():
    """Trainers' rules compiled."""
    from dynetjax.trainers.base import Trainer

    Trainer._can_be_native = lambda trainer: False


def no_rows_wait():
    """Dense updates of all rows of tables."""
    from dynetjax.trainers.base import Trainer

    Trainer._may_wait = lambda trainer, table: False


def collector_as_ever():
    """Python's garbage collector at its own threshold."""
    import dynetjax  # noqa: F401

    gc.set_threshold(699, 10, 10)  # one that a user has set


def tier_1():
    """Everything by XLA."""
    from dynetjax.engine import policy

    policy.tier = "xla"


def nothing_lent():
    """Arrays of tier 1 made anew in every run."""
    from dynetjax.engine.scratch import Scratch

    Scratch.take_back = lambda scratch, arrays: None


# name: (what both processes do first, what one of them does)
MECHANISMS = {
    "tier 0": (None, tier_1),
    "threads": (None, no_threads),
    "hoisting": (None, no_hoisting),
    "products after the pass": (None, nothing_put_aside),
    "updates in C++": (None, updates_by_xla),
    "rows wait": (None, no_rows_wait),
    "patient collector": (None, collector_as_ever),
    "lent arrays, tier 1": (tier_1, nothing_lent),
}


def serve(task, backend, args, runner, units):
    """Stand in for `harness.measure`: time blocks of graphs, as asked on stdin."""
    import compare

    random.Random(args.seed).shuffle(units)
    units = units[:MOST_UNITS]
    until = time.perf_counter() + WARM
    while time.perf_counter() < until:
        for unit in units:
            compare._time_of(runner, [unit], args.inference)
            if time.perf_counter() > until:
                break
    print(json.dumps("ready"), file=sys.__stdout__, flush=True)
    for line in sys.stdin:
        first, count = json.loads(line)
        block = [units[(first + k) % len(units)] for k in range(count)]
        took = compare._time_of(runner, block, args.inference)
        print(json.dumps(took), file=sys.__stdout__, flush=True)


def work(name, without, row):
    """One of the two processes."""
    both, change = MECHANISMS[name]
    for step in (both, change if without else None):
        if step is not None:
            step()
    sys.path.insert(0, str(HERE))
    import harness

    harness.measure = serve
    task, *flags = ROWS[row]
    sys.argv = [task, *flags]
    sys.stdout = sys.stderr
    runpy.run_path(str(HERE / f"{task}.py"), run_name="__main__")


class Worker:
    """A process that times blocks."""

    def __init__(self, name, without, row, cache):
        about = ["--worker", json.dumps([name, without, row])]
        self.process = subprocess.Popen(
            [sys.executable, __file__, *about],
            env=os.environ | {"DYNETJAX_CACHE_DIR": cache},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def answer(self):
        """The next thing it says."""
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"a process ended: {self.process.args}")
        return json.loads(line)

    def ask(self, first, count):
        """Seconds for so many graphs from the first on."""
        print(json.dumps([first, count]), file=self.process.stdin, flush=True)
        return self.answer()


def ratio(name, row, seconds):
    """The speed without a mechanism, as a part of the speed with it."""
    with tempfile.TemporaryDirectory() as folder:
        workers = []
        try:
            for which in "with", "without":
                cache = os.path.join(folder, which)
                os.mkdir(cache, 0o700)
                workers.append(Worker(name, which == "without", row, cache))
            for worker in workers:
                worker.answer()
            count = max(1, int(BLOCK / workers[0].ask(0, 1)))
            found, until = [], time.perf_counter() + seconds
            while time.perf_counter() < until:
                took, first = [0.0, 0.0], len(found) * count
                for which in (0, 1) if len(found) % 2 else (1, 0):
                    took[which] = workers[which].ask(first, count)
                found.append(took[0] / took[1])
            return statistics.median(found)
        finally:
            for worker in workers:
                worker.process.kill()
                worker.process.wait()


def main():
    """A line for each mechanism, a column for each row."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", metavar="REGEX", help="mechanisms")
    parser.add_argument("--rows", default="", metavar="REGEX")
    parser.add_argument("--seconds", type=float, default=8)
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
                print(f"{ratio(name, row, args.seconds):19.2f}", end="", flush=True)
            print(flush=True)


if __name__ == "__main__":
    main()
