"""Two processes that run blocks of the same graphs in turn: ratios on a shared machine.

    python benchmarks/turns.py [--dynet PYTHON] [--rows REGEX] [--seconds 8]

Printed is the speed of dynetjax by DyNet's (by that of DyNet's automatic batching for
batches), for each row: the median over the blocks and its quartiles. What else the
machine does changes more slowly than the two take turns.
"""

import argparse
import json
import os
import pathlib
import random
import re
import runpy
import statistics
import subprocess
import sys
import time

import compare

HERE = pathlib.Path(__file__).resolve().parent
ROWS = {
    "tagger": ["tagger"],
    "characters": ["tagger_chars"],
    "trees": ["treelstm"],
    "dense tagger": ["tagger", "--dense"],
    "tagging": ["tagger", "--inference"],
    "labelling": ["treelstm", "--inference"],
    "greedy parser": ["greedy_parser"],
    "greedy parsing": ["greedy_parser", "--inference"],
    "stack parser": ["stack_parser"],
    "stack parsing": ["stack_parser", "--inference"],
    "language model 1": ["rnnlm", "--minibatch", "1"],
    "language model 16": ["rnnlm", "--minibatch", "16"],
    "language model 64": ["rnnlm", "--minibatch", "64"],
    "50 trees": ["treelstm", "--batch", "50"],
    "encoder-decoder 16": ["seq2seq", "--batch", "16"],
}
WARM, BLOCK = 5.0, 0.08  # seconds before the first block, and of a block
MOST_UNITS = 60  # that are gone over again and again


def work(task, *flags):
    """One of the two processes: a task that times blocks, as it is asked to."""
    sys.path.insert(0, str(HERE))
    import harness

    harness.measure = _serve
    sys.argv = [task, *flags]
    sys.stdout = sys.stderr
    runpy.run_path(str(HERE / f"{task}.py"), run_name="__main__")


def _serve(task, backend, args, runner, units):
    """Stands for `harness.measure`: seconds for the blocks that stdin names."""
    random.Random(args.seed).shuffle(units)
    units = units[:MOST_UNITS]
    until = time.perf_counter() + WARM
    while time.perf_counter() < until:
        for unit in units:
            compare.time_of(runner, [unit], args.inference)
            if time.perf_counter() > until:
                break
    print(json.dumps("ready"), file=sys.__stdout__, flush=True)
    for line in sys.stdin:
        first, count = json.loads(line)
        block = [units[(first + k) % len(units)] for k in range(count)]
        took = compare.time_of(runner, block, args.inference)
        print(json.dumps(took), file=sys.__stdout__, flush=True)


class Worker:
    """A process that calls `work`.

    Args:
        command: what it is started by.
        changes: to its environment.
    """

    def __init__(self, command, **changes):
        self.process = subprocess.Popen(
            command,
            env=os.environ | changes,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def answer(self):
        """The next thing it says."""
        for line in self.process.stdout:
            if line.startswith(("[dynet]", "The dy.parameter")):
                continue
            return json.loads(line)
        raise RuntimeError(f"a process ended: {self.process.args}")

    def ask(self, first, count):
        """Seconds for so many graphs from the first on."""
        print(json.dumps([first, count]), file=self.process.stdin, flush=True)
        return self.answer()


def ratios(one, other, seconds):
    """The first one's time for a block by the second one's, for many blocks."""
    for worker in one, other:
        worker.answer()
    count = max(1, int(BLOCK / one.ask(0, 1)))
    found, until = [], time.perf_counter() + seconds
    while time.perf_counter() < until or len(found) < 2:
        first, took = len(found) * count, [0.0, 0.0]
        for which in (0, 1) if len(found) % 2 else (1, 0):
            took[which] = (one, other)[which].ask(first, count)
        found.append(took[0] / took[1])
    return found


def options(about):
    """A parser of what all that take turns may be told."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--rows", default="", metavar="REGEX")
    parser.add_argument("--seconds", type=float, default=8)
    return parser


def main():
    """A line for each row."""
    parser = options(__doc__)
    parser.add_argument("--dynet", default=os.environ.get("DYNETJAX_BENCH_DYNET"))
    parser.add_argument("--worker", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        work(*args.worker)
        return
    if not args.dynet:
        parser.error("--dynet PYTHON is needed, or DYNETJAX_BENCH_DYNET")
    for row, (task, *flags) in ROWS.items():
        if not re.search(args.rows, row):
            continue
        about = [__file__, "--worker", task, *flags]
        peer = ["--backend", "dynet", *["--autobatch"] * ("--batch" in flags)]
        with (
            Worker([os.path.expanduser(args.dynet), *about, *peer]) as theirs,
            Worker([sys.executable, *about]) as ours,
        ):
            found = ratios(theirs, ours, args.seconds)
        low, middle, high = statistics.quantiles(found, n=4)
        print(f"{row:20}{middle:6.2f}   ({low:.2f} to {high:.2f})", flush=True)


if __name__ == "__main__":
    main()
