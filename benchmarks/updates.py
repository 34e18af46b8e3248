"""What an update of a table costs: by its size, and by the rows that were touched.

    python benchmarks/updates.py [--backend dynetjax|dynet] [--rows 100000]
    python benchmarks/updates.py --compare [--dynet PYTHON] [--large]

A graph looks some rows up, and its backward is over before an update is timed. An
update should take as long whatever the size of the table, and no memory beside that of
the table and of the trainer's state.
"""

import argparse
import itertools
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import time

import harness

dy = harness.dynet()
ROW = 128
TOUCHED = 5, 50, 500
SIZES = 10**4, 10**5, 10**6
LARGE = 10**7
WARMUP = 3  # updates
ARRAYS = {"SimpleSGDTrainer": 1, "AdamTrainer": 3}  # as large as the table: with state


class Program:
    """A table and its trainer."""

    def __init__(self, trainer, rows):
        self.rows, self.rng = rows, random.Random(1)
        self.model = model = dy.ParameterCollection()
        start = dy.ConstInitializer(0.1)
        self.table = model.add_lookup_parameters((rows, ROW), init=start)
        # Its gradient is there when backward is done.
        self.last = model.add_parameters(1, init=dy.ConstInitializer(1.0))
        self.trainer = getattr(dy, trainer)(model)

    def update(self, touched):
        """Seconds that an update of some rows takes."""
        dy.renew_cg()
        ids = self.rng.sample(range(self.rows), touched)
        found = dy.sum_batches(dy.squared_norm(dy.lookup_batch(self.table, ids)))
        (found * self.last).backward()
        self.last.grad_as_array()
        start = time.perf_counter()
        self.trainer.update()
        if hasattr(self.trainer, "check"):
            self.trainer.check()  # waits for it
        return time.perf_counter() - start

    def microseconds(self, touched, repeats):
        """The median of several updates."""
        spent = [self.update(touched) for _ in range(repeats + WARMUP)]
        return round(statistics.median(spent[WARMUP:]) * 1e6, 1)


def resident(field):
    """MB that this process has (VmRSS), or had at most (VmHWM)."""
    for line in pathlib.Path("/proc/self/status").read_text().split("\n"):
        if line.startswith(field):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"no {field} in /proc/self/status")


def measure(trainer, rows, repeats):
    """A line for each number of touched rows, with the memory of the updates."""
    Program(trainer, 100).update(5)
    before = resident("VmRSS")
    program = Program(trainer, rows)
    program.update(TOUCHED[-1])
    pathlib.Path("/proc/self/clear_refs").write_text("5")  # begins VmHWM anew
    held = resident("VmRSS")
    us = {touched: program.microseconds(touched, repeats) for touched in TOUCHED}
    peak = resident("VmHWM")
    memory = {
        "arrays_mb": ARRAYS[trainer] * rows * ROW * 4 / 2**20,
        "held_mb": held - before,
        "more_mb": peak - held,
    }
    about = {"trainer": trainer, "rows": rows}
    return [about | memory | {"touched": k, "us": v} for k, v in us.items()]


# Comparing


def run_once(backend, python, trainer, rows, args):
    """The lines of a process of its own."""
    line = [python, __file__, "--backend", backend, "--trainer", trainer]
    line += ["--rows", str(rows), "--repeats", str(args.repeats)]
    environment = dict(os.environ)
    if backend == "dynetjax":
        paths = [str(pathlib.Path(__file__).resolve().parent.parent)]
        paths += filter(None, [environment.get("PYTHONPATH")])
        environment["PYTHONPATH"] = os.pathsep.join(paths)
    done = subprocess.run(line, env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{backend}, {trainer}, {rows} rows: failed\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.strip().split("\n")[-1])["lines"]


def column(runs, field):
    """Medians over the runs: one for each number of touched rows, or nothing."""
    lines = zip(*runs, strict=True)
    return [statistics.median(line[field] for line in of_one) for of_one in lines]


HEAD = """
| trainer | rows | touched | dynet us | dynetjax us | ratio |
|---|--:|--:|--:|--:|--:|"""
MEMORY_HEAD = """
| trainer | rows | values and state MB | dynet holds | more | dynetjax holds | more |
|---|--:|--:|--:|--:|--:|--:|"""


def row(*cells):
    """A line of a table; a number that is missing is a dash."""
    shown = [
        f"{c:.1f}" if isinstance(c, float) else "-" if c is None else c for c in cells
    ]
    return f"| {' | '.join(map(str, shown))} |"


def compare(trainers, sizes, args):
    """Both backends in turn; prints a table of times, and one of memory."""
    pythons = {"dynet": args.dynet, "dynetjax": sys.executable}
    memory = []
    print(HEAD)
    for trainer, rows in itertools.product(trainers, sizes):
        runs = {backend: [] for backend in pythons}
        for _ in range(args.runs):
            for backend, python in pythons.items():
                if backend == "dynetjax" or rows < LARGE:
                    found = run_once(backend, python, trainer, rows, args)
                    runs[backend].append(found)
        theirs, ours = (column(runs[backend], "us") for backend in pythons)
        for touched, other, us in itertools.zip_longest(TOUCHED, theirs, ours):
            ratio = f"{other / us:.3f}" if other else None
            print(row(trainer, rows, touched, other, us, ratio), flush=True)
        held = [
            max(column(runs[backend], field), default=None)
            for backend in pythons
            for field in ("held_mb", "more_mb")
        ]
        memory.append(row(trainer, rows, runs["dynetjax"][0][0]["arrays_mb"], *held))
    print("\n".join([MEMORY_HEAD, *memory]))


def main():
    """Print the tables, or one line of JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    add = parser.add_argument
    add("--backend", choices=harness.DYNETS, default=harness.DYNETS[0])
    add("--trainer", choices=ARRAYS, help="both without")
    add("--rows", type=int, help=f"of the table, instead of {SIZES}")
    add("--large", action="store_true", help=f"{LARGE} rows, too; not for DyNet")
    add("--repeats", type=int, default=30, help="updates of each kind")
    add("--compare", action="store_true", help="both backends in turn")
    add("--dynet", default=os.environ.get("DYNETJAX_BENCH_DYNET"), metavar="PYTHON")
    add("--runs", type=int, default=3, help="of each backend")
    args = parser.parse_args()
    trainers = [args.trainer] if args.trainer else list(ARRAYS)
    sizes = [args.rows] if args.rows else [*SIZES, *[LARGE] * args.large]
    if args.compare:
        if not args.dynet:
            parser.error("--compare needs --dynet, a Python with DyNet")
        compare(trainers, sizes, args)
        return
    cases = itertools.product(trainers, sizes)
    lines = [line for case in cases for line in measure(*case, args.repeats)]
    print(json.dumps({"task": "updates", "backend": args.backend, "lines": lines}))


if __name__ == "__main__":
    main()
