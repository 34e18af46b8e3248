"""What every family of operations costs: small programs of a hundred of a kind.

    python benchmarks/operations.py [--backend dynetjax|dynet] [--family NAME]
    python benchmarks/operations.py --compare [--dynet PYTHON] [--family NAME]

A graph applies one operation to 100 different operands, rows of tables that are
learned, and sums the results to a loss that is read; then comes backward, but no
update. The baseline is the sum of the operands as they are.
"""

import argparse
import itertools
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from operator import itemgetter

import harness
import numpy as np
from operation_rows import APPLICATIONS, FAMILIES, baselines, dy

WARMUP = 32  # graphs: a program that is still changing has settled and is one program
SLICES = 20  # the best of which counts
FIXED_US = 400  # what two calls into XLA and a read take, however little they compute
TABLE_ROWS = 1000


class Program:
    """The graphs of a row."""

    def __init__(self, row, inference):
        self.row, self.inference = row, inference
        self.model = model = dy.ParameterCollection()
        rng = np.random.default_rng(1)
        self.tables = {
            shape: model.lookup_parameters_from_numpy(numbers(row, shape, rng))
            for shape in row.shapes
        }
        self.weights = [
            model.parameters_from_numpy(0.1 * rng.random(shape))
            for shape in row.weights
        ]
        # Its gradient is there when backward is done.
        self.last = model.parameters_from_numpy(np.ones(1))
        self.build_seconds = 0.0

    def operands(self, k):
        """Rows of the tables for application k."""
        row, found = self.row, []
        for n, shape in enumerate(row.shapes):
            table, first = self.tables[shape], (k + n * APPLICATIONS) * row.batch
            if row.batch == 1:
                found.append(dy.lookup(table, first))
            else:
                ids = [i % TABLE_ROWS for i in range(first, first + row.batch)]
                found.append(dy.lookup_batch(table, ids))
        return found

    def summed(self):
        """The lists of expressions that a new graph sums."""
        several = range(APPLICATIONS)
        if self.row.baseline:
            by_place = zip(*map(self.operands, several), strict=True)
            return [list(operands) for operands in by_place]
        apply, weights = self.row.apply, self.weights
        return [[apply(k, *weights, *self.operands(k)) for k in several]]

    def run(self):
        """One graph."""
        start = time.perf_counter()
        dy.renew_cg()
        sums = [dy.sum_batches(dy.sum_elems(dy.esum(xs))) for xs in self.summed()]
        loss = dy.cmult(dy.esum(sums), self.last)
        self.build_seconds += time.perf_counter() - start
        loss.value()
        if not self.inference:
            loss.backward()

    def finish(self):
        """Wait for what was sent."""
        if not self.inference:
            self.last.grad_as_array()

    def slice(self, seconds):
        """Microseconds a graph: of all, of building it, and of the engine's phases."""
        self.build_seconds, before = 0.0, phases()
        begun, graphs = time.perf_counter(), 0
        while graphs < 2 or time.perf_counter() - begun < seconds:
            self.run()
            graphs += 1
        self.finish()
        spent = {"us": time.perf_counter() - begun, "build": self.build_seconds}
        spent |= {name: s - before.get(name, 0) for name, s in phases().items()}
        return {name: round(s * 1e6 / graphs, 1) for name, s in spent.items()}


def numbers(row, shape, rng):
    """A table between 0.1 and 0.9, where every operation has a slope."""
    rows = TABLE_ROWS if row.batch > 1 else APPLICATIONS * len(row.shapes)
    found = 0.1 + 0.8 * rng.random((rows, *shape))
    if row.regular:
        found = found / shape[0] + np.eye(shape[0])
    return found


def phases():
    """Seconds by phase of the engine; DyNet does not tell."""
    return dict(dy.stats().seconds) if hasattr(dy, "stats") else {}


def measure(row, seconds, inference):
    """The best slice of a row, and its program."""
    program = Program(row, inference)
    for _ in range(WARMUP):
        program.run()
    program.finish()
    slices = [program.slice(seconds / SLICES) for _ in range(SLICES)]
    return min(slices, key=itemgetter("us")), program


def measured(names, args):
    """Every row of the families, as a line of the table."""
    found, kept = [], []  # of programs: a rule of one is not to be another's
    for name in names:
        rows = FAMILIES[name]()
        for row in [*baselines(rows), *rows]:
            about = {"family": name, "name": row.name, "size": row.size}
            about["baseline"] = f"{row.shapes} {row.batch}"
            spent, program = measure(row, args.seconds, args.inference)
            kept.append(program)
            found.append(about | spent)
            print(f"{row.name} {row.size}: {spent}", file=sys.stderr, flush=True)
    return found


# Comparing


def run_once(family, backend, python, args, cache):
    """The rows of one run; none if it failed, and why is printed."""
    line = [python, __file__, "--backend", backend, "--family", family]
    line += ["--seconds", str(args.seconds)]
    line += ["--inference"] if args.inference else []
    environment = dict(os.environ)
    if backend == "dynetjax":
        paths = [str(pathlib.Path(__file__).resolve().parent.parent)]
        paths += filter(None, [environment.get("PYTHONPATH")])
        environment["PYTHONPATH"] = os.pathsep.join(paths)
        environment["JAX_COMPILATION_CACHE_DIR"] = str(cache)
        environment["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
        environment["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "0"
    done = subprocess.run(line, env=environment, capture_output=True, text=True)
    if done.returncode:
        print(f"{family}, {backend}: failed\n{done.stderr[-2000:]}", flush=True)
        return []
    return json.loads(done.stdout.strip().split("\n")[-1])["rows"]


def medians(runs):
    """Rows of several runs as one row each."""
    found = {}
    for row in itertools.chain(*runs):
        found.setdefault((row["name"], row["size"]), []).append(row)
    return {
        key: rows[0]
        | {
            name: statistics.median(row[name] for row in rows)
            for name, value in rows[0].items()
            if isinstance(value, float)
        }
        for key, rows in found.items()
    }


HEAD = (
    "| operation | size | dynet us | dynetjax us | ratio | less the baseline "
    "| of dynetjax, build | plan | slow for |\n|---|---|--:|--:|--:|--:|--:|--:|---|"
)


def why_slow(dynet_us, ours, plan, base):
    """Why a row has less than half of DyNet's speed; nothing if it has more."""
    allowed = 2 * dynet_us
    if ours["us"] <= allowed:
        return ""
    if ours["build"] + plan > allowed:
        return "Python"
    if base and ours["us"] - base[1] <= max(2 * (dynet_us - base[0]), 0):
        return "the baseline"
    if ours["us"] - ours["build"] - plan <= FIXED_US + allowed:
        return "calls into XLA"
    return "computing"


def table_line(key, dynet, ours, bases):
    """A line of the table; rows below half of DyNet's speed say why."""
    name, size = key
    theirs, mine = dynet[key], ours[key]
    ratio = theirs["us"] / mine["us"]
    base = bases.get(mine["baseline"])
    net = ""
    if base and name != "baseline":
        net = f"{theirs['us'] - base[0]:.0f}, {mine['us'] - base[1]:.0f}"
    plan = mine.get("plan", 0) + mine.get("write", 0)
    mark = why_slow(theirs["us"], mine, plan, base)
    return (
        f"| {name} | {size} | {theirs['us']:.0f} | {mine['us']:.0f} | {ratio:.2f} "
        f"| {net} | {mine['build']:.0f} | {plan:.0f} | {mark} |"
    )


def compare(names, args):
    """Both backends in turn, family by family; prints a table of medians."""
    pythons = {"dynet": args.dynet, "dynetjax": sys.executable}
    with tempfile.TemporaryDirectory() as cache:
        for family in names:
            runs = {backend: [] for backend in pythons}
            for _ in range(args.repeats):
                for backend, python in pythons.items():
                    runs[backend].append(run_once(family, backend, python, args, cache))
            dynet, ours = medians(runs["dynet"]), medians(runs["dynetjax"])
            both = [key for key in ours if key in dynet]
            bases = {
                ours[key]["baseline"]: (dynet[key]["us"], ours[key]["us"])
                for key in both
                if key[0] == "baseline"
            }
            print(f"\n{family}\n\n{HEAD}")
            for key in both:
                print(table_line(key, dynet, ours, bases), flush=True)


def main():
    """Print the table, or one line of JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    add = parser.add_argument
    add("--backend", choices=harness.DYNETS, default=harness.DYNETS[0])
    add("--family", choices=FAMILIES, action="append", help="may come repeatedly")
    add("--seconds", type=float, default=0.5, help="of steady state, a row")
    add("--inference", action="store_true", help="forward only")
    add("--compare", action="store_true", help="both backends in turn")
    add("--dynet", default=os.environ.get("DYNETJAX_BENCH_DYNET"), metavar="PYTHON")
    add("--repeats", type=int, default=3, help="runs of each backend")
    args = parser.parse_args()
    names = args.family or list(FAMILIES)
    if args.compare:
        if not args.dynet:
            parser.error("--compare needs --dynet, a Python with DyNet")
        compare(names, args)
        return
    rows = measured(names, args)
    line = {"task": "operations", "backend": args.backend, "inference": args.inference}
    print(json.dumps(line | {"rows": rows}), flush=True)


if __name__ == "__main__":
    main()
